import { expect, test } from 'vitest'
import { endpointName, portName } from '../../src/dataplane/nftables/names.js'
import type { RenderOptions } from '../../src/dataplane/nftables/render.js'
import { renderTable } from '../../src/dataplane/nftables/render-table.js'
import { stampIn, stampOf } from '../../src/dataplane/nftables/transaction.js'
import type { Backend, ServicePort } from '../../src/model/desired.js'
import { DOCUMENTED, desired, NODE, service } from './iptables-kit.js'
import { address } from './plan-kit.js'

const OPTIONS: RenderOptions = { family: 'IPv4', masqueradeAll: false, anyNodeAddress: true }
const lines = (objects: readonly object[], options: Partial<RenderOptions> = {}) =>
  renderTable(desired(objects), { ...OPTIONS, ...options }, 'waggle').lines.map(line =>
    line
      .replace(/(service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-\S+/g, '$1')
      .replace(/ ?#[A-Z2-7]{10}/, ''),
  )
/** Rules of the chains, elements of the containers, of that name. */
const of = (objects: readonly object[], name: string, options: Partial<RenderOptions> = {}) =>
  lines(objects, options).flatMap(line => {
    const [, found, rest] = /^add (?:rule|element) ip6? waggle (\S+) (.*)$/.exec(line) ?? []
    return found === name && rest !== undefined ? [rest] : []
  })

const port = (namespace: string, name: string, portText: string) =>
  ({ namespace, name, portName: portText, protocol: 'TCP' }) as ServicePort

test.each([
  ['testing', 'service', 'http', 'P4ZYZVCF'],
  ['ns1', 'svc1', 'p80', 'ULMVA6XW'],
  ['default', 'kubernetes', 'https', '2QRHZV4L'],
])('names are as kube-proxy has them: %s/%s:%s', (namespace, name, portText, hash) => {
  expect(portName(port(namespace, name, portText))).toBe(`${hash}-${namespace}/${name}/tcp/${portText}`)
})

test('names of endpoints', () => {
  const backend = { address: address('10.180.0.1'), port: 80 } as Backend
  expect(endpointName(port('testing', 'service', 'http'), backend)).toBe(
    'JO2XBXZR-testing/service/tcp/http__10.180.0.1/80',
  )
  const six = { address: address('2001:db8::1'), port: 80 } as Backend
  expect(endpointName(port('testing', 'service', 'http'), six)).toMatch(/__2001\.db8\.\.1\/80$/)
})

test('a name that is too long is cut, and keeps its hash', () => {
  const long = portName(port('n'.repeat(200), 's'.repeat(63), 'p'))
  expect(long.length).toBe(235)
  expect(long).toMatch(/^[A-Z2-7]{8}-n+\/s+\.\.\.$/)
})

test('each frontend is an element, the choice one rule', () => {
  expect(of(DOCUMENTED, 'service-ips')).toEqual(
    expect.arrayContaining([
      '{ 10.96.0.1 . tcp . 443 : goto service }',
      '{ 10.101.57.97 . tcp . 80 : goto service }',
      '{ 10.96.0.10 . udp . 53 : goto service }',
    ]),
  )
  expect(of(DOCUMENTED, 'service')).toContain(
    'meta l4proto tcp dnat ip to numgen random mod 3 map { 0 : 10.244.0.27 . 80, 1 : 10.244.0.28 . 80, 2 : 10.244.0.30 . 80 } comment "default/nginx-service"',
  )
  expect(of(DOCUMENTED, 'hairpin-connections')).toContain('{ 10.244.0.27 . 10.244.0.27 . tcp . 80 }')
})

const WEB = { ip: '10.96.0.7', ports: [{ name: 'http', port: 80 }], endpoints: ['10.244.1.11', '10.244.2.11'] }
const LOCAL = {
  ...WEB,
  ports: [{ name: 'http', port: 80, nodePort: 30080 }],
  spec: { type: 'NodePort', externalTrafficPolicy: 'Local' },
}

test('with externalTrafficPolicy Local, pods and the node dial past it', () => {
  const objects = [NODE, ...service('web', { ...LOCAL, here: ['10.244.1.11'] })]
  expect(of(objects, 'service-nodeports')).toEqual(['{ tcp . 30080 : goto external }'])
  expect(of(objects, 'external')).toEqual([
    'ip saddr 10.244.0.0/16 goto service comment "default/web:http: from pods"',
    'fib saddr type local meta mark set meta mark or 0x4000 comment "default/web:http: from this node"',
    'fib saddr type local goto service comment "default/web:http: from this node"',
    'goto local',
  ])
  expect(of(objects, 'no-endpoint-nodeports')).toEqual([])
})

test('without a backend here, outside clients meet silence', () => {
  const objects = [NODE, ...service('web', LOCAL)]
  expect(of(objects, 'no-endpoint-nodeports')).toEqual(['{ tcp . 30080 : drop }'])
  expect(of(objects, 'external').at(-1)).toContain('fib saddr type local goto service')
})

test('a Service without backends is refused', () => {
  const objects = service('web', { ...WEB, endpoints: [] })
  expect(of(objects, 'no-endpoint-services')).toEqual(['{ 10.96.0.7 . tcp . 80 : goto reject-chain }'])
  expect(of(objects, 'service-ips')).toEqual([])
  // Its address is known, so that other ports of it are refused, too.
  expect(of(objects, 'cluster-ips')).toEqual(['{ 10.96.0.7 }'])
})

test.each([
  [['203.0.113.0/24'], ['ip saddr != { 203.0.113.0/24 } drop comment "default/web:http: source ranges"']],
  [['0.0.0.0/0'], []],
  [['2001:db8::/32'], ['drop comment "default/web:http: source ranges"']],
])('source ranges %j', (ranges, rules) => {
  const objects = [
    NODE,
    ...service('web', {
      ...WEB,
      spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ranges },
      status: { loadBalancer: { ingress: [{ ip: '198.51.100.9', ipMode: 'VIP' }] } },
    }),
  ]
  expect(of(objects, 'firewall')).toEqual(rules)
})

test('affinity: a set of clients for each endpoint', () => {
  const spec = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 50 } } }
  const objects = service('web', { ...WEB, spec })
  expect(lines(objects)).toContain(
    'add set ip waggle affinity { type ipv4_addr ; flags dynamic,timeout ; timeout 50s ; }',
  )
  expect(of(objects, 'service')).toEqual([
    'ip saddr @affinity goto endpoint comment "default/web:http"',
    'ip saddr @affinity goto endpoint comment "default/web:http"',
    'numgen random mod 2 vmap { 0 : goto endpoint 1 : goto endpoint } comment "default/web:http"',
  ])
  expect(of(objects, 'endpoint')).toContain(
    'update @affinity { ip saddr } meta l4proto tcp dnat to 10.244.1.11:80 comment "default/web:http"',
  )
})

test.each([
  [{}, 'ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark or 0x4000'],
  [{ masqueradeAll: true }, 'ip daddr @cluster-ips meta mark set meta mark or 0x4000'],
  [{ local: { device: 'cali+' } }, 'ip daddr @cluster-ips iifname != "cali*" meta mark set meta mark or 0x4000'],
  [
    { family: 'IPv6' as const },
    'ip6 daddr @cluster-ips ip6 saddr != 2001:db8:244::/48 meta mark set meta mark or 0x4000',
  ],
])('who is masqueraded at a ClusterIP: %j', (options, rule) => {
  expect(of([], 'services', options)[0]?.replace(/ comment ""$/, '')).toBe(rule)
})

test('node ports at chosen addresses ask for them', () => {
  const objects = [NODE, ...service('web', LOCAL)]
  expect(of(objects, 'services', { anyNodeAddress: false }).at(-1)).toMatch(/^ip daddr @nodeport-ips meta l4proto/)
  expect(of(objects, 'nodeport-ips')).toEqual(['{ 192.168.0.104 }'])
})

test('the stamp of a chain changes with any of its rules and survives its comment', () => {
  const chain = { hook: '', rules: ['accept', 'drop'] }
  const stamp = stampOf(chain)
  expect(stampOf({ ...chain, rules: ['accept', 'reject'] })).not.toBe(stamp)
  expect(stampIn(`default/web:http: from pods #${stamp}`)).toBe(stamp)
  expect(stampIn(`#${stamp}`)).toBe(stamp)
  expect(stampIn('default/web:http')).toBe('')
  expect(stampOf({ hook: '', rules: [] })).toBe('')
})
