import { expect, test } from 'vitest'
import { LAYOUTS } from '../../src/dataplane/iptables/profile.js'
import { type RenderOptions, render } from '../../src/dataplane/iptables/render.js'
import { DOCUMENTED, DOCUMENTED_RULES, desired, NODE, OPTIONS, service } from './iptables-kit.js'

const rules = (objects: readonly object[], options: Partial<RenderOptions> = {}) => {
  const { filter, nat } = render(desired(objects), { ...OPTIONS, ...options })
  const lines = (table: typeof nat) => [...table.jumps, ...[...table.chains.values()].flat()]
  return { filter: lines(filter), nat: lines(nat) }
}
/** Without what every state has, and with names of chains cut to what they are for. */
const short = (lines: readonly string[], ...chains: readonly string[]) =>
  lines
    .filter(line => chains.some(chain => line.startsWith(`-A ${chain}`)))
    .map(line => line.replace(/KUBE-(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}/g, 'KUBE-$1'))

test('the listings of the documents come out', () => {
  const { nat } = rules(DOCUMENTED)
  for (const line of DOCUMENTED_RULES) expect(nat).toContain(line)
  // The jump to the node ports is the last rule of its chain.
  expect(nat.filter(line => line.startsWith('-A KUBE-SERVICES')).at(-1)).toContain('-j KUBE-NODEPORTS')
})

const WEB = { ip: '10.96.0.7', ports: [{ name: 'http', port: 80 }], endpoints: ['10.244.1.11', '10.244.2.11'] }
const NODE_PORT = { type: 'NodePort' }
const port = (nodePort: number) => [{ name: 'http', port: 80, nodePort }]

test('a node port is masqueraded unless its policy is Local', () => {
  const { nat, filter } = rules([NODE, ...service('web', { ...WEB, ports: port(30080), spec: NODE_PORT })])
  expect(short(nat, 'KUBE-NODEPORTS', 'KUBE-EXT')).toEqual([
    '-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j KUBE-EXT',
    '-A KUBE-EXT -m comment --comment "masquerade traffic for default/web:http external destinations" -j KUBE-MARK-MASQ',
    '-A KUBE-EXT -j KUBE-SVC',
  ])
  expect(short(filter, 'KUBE-EXTERNAL-SERVICES')).toEqual([])
})

test('with the policy Local, pods and the node dial past it', () => {
  const spec = { ...NODE_PORT, externalTrafficPolicy: 'Local' }
  const { nat, filter } = rules([NODE, ...service('web', { ...WEB, ports: port(30080), spec, here: ['10.244.1.11'] })])
  expect(short(nat, 'KUBE-EXT', 'KUBE-SVL')).toEqual([
    '-A KUBE-EXT -s 10.244.0.0/16 -m comment --comment "pod traffic for default/web:http external destinations" -j KUBE-SVC',
    '-A KUBE-EXT -m comment --comment "masquerade LOCAL traffic for default/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ',
    '-A KUBE-EXT -m comment --comment "route LOCAL traffic for default/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-SVC',
    '-A KUBE-EXT -j KUBE-SVL',
    '-A KUBE-SVL -m comment --comment "default/web:http -> 10.244.1.11:80" -j KUBE-SEP',
  ])
  expect(short(filter, 'KUBE-EXTERNAL-SERVICES')).toEqual([])
})

test('without a backend here, the policy Local is silent to outside clients alone', () => {
  const spec = { ...NODE_PORT, externalTrafficPolicy: 'Local' }
  const { nat, filter } = rules([NODE, ...service('web', { ...WEB, ports: port(30080), spec })])
  expect(short(nat, 'KUBE-EXT').at(-1)).toContain('route LOCAL traffic')
  expect(short(filter, 'KUBE-EXTERNAL-SERVICES')).toEqual([
    '-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "default/web:http has no local endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP',
  ])
})

test('a Service without backends is refused at every frontend', () => {
  const spec = { ...NODE_PORT, externalIPs: ['198.51.100.7'] }
  const { nat, filter } = rules([NODE, ...service('web', { ...WEB, endpoints: [], ports: port(30080), spec })])
  const refused = '-j REJECT --reject-with icmp-port-unreachable'
  expect(short(filter, 'KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES')).toEqual([
    `-A KUBE-SERVICES -d 10.96.0.7/32 -p tcp -m comment --comment "default/web:http has no endpoints" -m tcp --dport 80 ${refused}`,
    `-A KUBE-EXTERNAL-SERVICES -d 198.51.100.7/32 -p tcp -m comment --comment "default/web:http has no endpoints" -m tcp --dport 80 ${refused}`,
    `-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "default/web:http has no endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 ${refused}`,
  ])
  expect(nat.join('\n')).not.toMatch(/KUBE-(SVC|EXT)-/)
})

test('internalTrafficPolicy Local without a backend here is silent', () => {
  const { filter, nat } = rules(service('web', { ...WEB, spec: { internalTrafficPolicy: 'Local' } }))
  expect(short(filter, 'KUBE-SERVICES')).toEqual([
    '-A KUBE-SERVICES -d 10.96.0.7/32 -p tcp -m comment --comment "default/web:http has no local endpoints" -m tcp --dport 80 -j DROP',
  ])
  expect(nat.join('\n')).not.toMatch(/KUBE-SV[CL]-/)
})

const BALANCER = {
  spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ['203.0.113.0/24', '192.168.0.0/16'] },
  status: { loadBalancer: { ingress: [{ ip: '198.51.100.9', ipMode: 'VIP' }] } },
}

test('source ranges: accepted networks, the node by the address itself, the rest is dropped in filter', () => {
  const { nat, filter } = rules([NODE, ...service('web', { ...WEB, ...BALANCER })])
  const comment = '-m comment --comment "default/web:http loadbalancer IP"'
  expect(
    short(nat, 'KUBE-SERVICES', 'KUBE-FW').filter(line => line.includes('KUBE-FW') || line.includes('9/32')),
  ).toEqual([
    `-A KUBE-SERVICES -d 198.51.100.9/32 -p tcp ${comment} -m tcp --dport 80 -j KUBE-FW`,
    `-A KUBE-FW -s 192.168.0.0/16 ${comment} -j KUBE-EXT`,
    `-A KUBE-FW -s 203.0.113.0/24 ${comment} -j KUBE-EXT`,
    `-A KUBE-FW -s 198.51.100.9/32 ${comment} -j KUBE-EXT`,
    '-A KUBE-FW -m comment --comment "other traffic to default/web:http will be dropped by KUBE-PROXY-FIREWALL"',
  ])
  expect(short(filter, 'KUBE-PROXY-FIREWALL')).toEqual([
    '-A KUBE-PROXY-FIREWALL -d 198.51.100.9/32 -p tcp -m comment --comment "default/web:http traffic not accepted by KUBE-FW" -m tcp --dport 80 -j DROP',
  ])
})

test('up to 1.24 the rest is marked for the kubelet to drop', () => {
  const { nat, filter } = rules([NODE, ...service('web', { ...WEB, ...BALANCER })], { layout: LAYOUTS['1.24'] })
  expect(short(nat, 'KUBE-FW').at(-1)).toBe(
    '-A KUBE-FW -m comment --comment "default/web:http loadbalancer IP" -j KUBE-MARK-DROP',
  )
  expect(filter.join('\n')).not.toContain('KUBE-PROXY-FIREWALL')
})

test('load balancers may ask the health check of a Service with the policy Local', () => {
  const spec = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 32100 }
  const { filter } = rules([NODE, ...service('web', { ...WEB, spec })])
  expect(short(filter, 'KUBE-NODEPORTS')).toEqual([
    '-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http health check node port" -m tcp --dport 32100 -j ACCEPT',
  ])
})

test('endpoints are in the order of their texts, ports included', () => {
  const { nat } = rules(service('web', { ...WEB, endpoints: ['10.244.1.10', '10.244.1.104'] }))
  expect(short(nat, 'KUBE-SVC').map(line => /-> (\S+)"/.exec(line)?.[1])).toEqual([
    undefined,
    '10.244.1.104:80',
    '10.244.1.10:80',
  ])
})

test('affinity: the endpoint that a client had is asked first', () => {
  const spec = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 50 } } }
  const { nat } = rules(service('web', { ...WEB, endpoints: ['10.244.1.11'], spec }))
  const recent = (what: string) => `-m recent ${what} --name KUBE-SEP --mask 255.255.255.255 --rsource`
  expect(short(nat, 'KUBE-SVC', 'KUBE-SEP')).toEqual([
    '-A KUBE-SVC ! -s 10.244.0.0/16 -d 10.96.0.7/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ',
    `-A KUBE-SVC -m comment --comment "default/web:http -> 10.244.1.11:80" ${recent('--rcheck --seconds 50 --reap')} -j KUBE-SEP`,
    '-A KUBE-SVC -m comment --comment "default/web:http -> 10.244.1.11:80" -j KUBE-SEP',
    '-A KUBE-SEP -s 10.244.1.11/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ',
    `-A KUBE-SEP -p tcp -m comment --comment "default/web:http" ${recent('--set')} -m tcp -j DNAT --to-destination 10.244.1.11:80`,
  ])
})

test('with --masquerade-all every connection through a ClusterIP is masqueraded', () => {
  const { nat } = rules(service('web', WEB), { masqueradeAll: true })
  expect(short(nat, 'KUBE-SVC')[0]).toBe(
    '-A KUBE-SVC -d 10.96.0.7/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ',
  )
})

test.each([
  [{ device: 'br0' }, '! -i br0'],
  [{ device: 'cali+' }, '! -i cali+'],
])('local traffic known by its device: %o', (local, match) => {
  expect(short(rules(service('web', WEB), { local }).nat, 'KUBE-SVC')[0]).toContain(`${match} -p tcp`)
})

test('node ports at chosen addresses have one jump each', () => {
  const objects = [NODE, ...service('web', { ...WEB, ports: port(30080), spec: NODE_PORT })]
  const last = short(rules(objects, { anyNodeAddress: false }).nat, 'KUBE-SERVICES').at(-1)
  expect(last).toBe(
    '-A KUBE-SERVICES -d 192.168.0.104/32 -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -j KUBE-NODEPORTS',
  )
})

test('IPv6 has its own words', () => {
  const objects = service('six', { ip: '2001:db8:96::7', ports: [{ port: 80 }], endpoints: ['2001:db8:244:1::11'] })
  const { nat } = rules(objects, { family: 'IPv6' })
  expect(short(nat, 'KUBE-SERVICES', 'KUBE-SVC', 'KUBE-SEP')).toEqual([
    '-A KUBE-SERVICES -d 2001:db8:96::7/128 -p tcp -m comment --comment "default/six cluster IP" -m tcp --dport 80 -j KUBE-SVC',
    '-A KUBE-SERVICES ! -d ::1/128 -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    '-A KUBE-SVC ! -s 2001:db8:244::/48 -d 2001:db8:96::7/128 -p tcp -m comment --comment "default/six cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ',
    '-A KUBE-SVC -m comment --comment "default/six -> [2001:db8:244:1::11]:80" -j KUBE-SEP',
    '-A KUBE-SEP -s 2001:db8:244:1::11/128 -m comment --comment "default/six" -j KUBE-MARK-MASQ',
    '-A KUBE-SEP -p tcp -m comment --comment "default/six" -m tcp -j DNAT --to-destination [2001:db8:244:1::11]:80',
  ])
  expect(rules(objects).nat.join('\n')).not.toContain('KUBE-SVC-')
})

test('more than 1,000 backends: rules of endpoints without comments', () => {
  const endpoints = Array.from({ length: 1001 }, (_, i) => `10.244.${i >> 8}.${i & 255}`)
  const { nat } = rules(service('web', { ...WEB, endpoints }))
  expect(short(nat, 'KUBE-SVC')[1]).toMatch(/^-A KUBE-SVC -m statistic --mode random --probability 0\.000999/)
  expect(short(nat, 'KUBE-SEP')[1]).toMatch(/^-A KUBE-SEP -p tcp -m tcp -j DNAT --to-destination /)
})
