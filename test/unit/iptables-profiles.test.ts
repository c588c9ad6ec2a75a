import { describe, expect, test } from 'vitest'
import { LAYOUTS } from '../../src/dataplane/iptables/profile.js'
import { render } from '../../src/dataplane/iptables/render.js'
import { IPTABLES_PROFILES, type IptablesProfile } from '../../src/model/iptables.js'
import { desired, NODE, OPTIONS, service } from './iptables-kit.js'

/** The shapes that kube-proxy's rules had; each of its lines is one of a version's listing. */

const NGINX = {
  ip: '10.96.23.5',
  ports: [{ port: 80 }],
  endpoints: ['10.244.1.2', '10.244.1.3', '10.244.1.4'],
}

function rules(profile: IptablesProfile, objects: readonly object[]): string[] {
  const { filter, nat } = render(desired([NODE, ...objects]), { ...OPTIONS, layout: LAYOUTS[profile] })
  return [filter, nat].flatMap(({ jumps, chains }) => [...jumps, ...[...chains.values()].flat()])
}
const nginx = (profile: IptablesProfile) => rules(profile, service('nginx-service', NGINX))
const within = (lines: readonly string[], chain: string) => lines.filter(line => line.startsWith(`-A ${chain} `))

const SVC = 'KUBE-SVC-V2OKYYMBY3REGZOG'
const MASQUERADE =
  '! -s 10.244.0.0/16 -d 10.96.23.5/32 -p tcp -m comment --comment "default/nginx-service cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ'
const JUMP =
  '-d 10.96.23.5/32 -p tcp -m comment --comment "default/nginx-service cluster IP" -m tcp --dport 80 -j KUBE-SVC-V2OKYYMBY3REGZOG'
const choices = (named: boolean) => [
  `-A ${SVC} -m comment --comment "default/nginx-service${named ? ' -> 10.244.1.2:80' : ''}" -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-MNKVGFJKVZSSJG7K`,
  `-A ${SVC} -m comment --comment "default/nginx-service${named ? ' -> 10.244.1.3:80' : ''}" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-RHJMXRHDBGUC5TL7`,
  `-A ${SVC} -m comment --comment "default/nginx-service${named ? ' -> 10.244.1.4:80' : ''}" -j KUBE-SEP-7CPVKSKFI25TYIG3`,
]

test.each(['1.25', '1.24'] as const)('%s: the chain of the Service masquerades and names its endpoints', profile => {
  expect(within(nginx(profile), SVC)).toEqual([`-A ${SVC} ${MASQUERADE}`, ...choices(true)])
  expect(nginx(profile)).toContain(`-A KUBE-SERVICES ${JUMP}`)
})

test('1.22: endpoints are not named', () => {
  expect(within(nginx('1.22'), SVC)).toEqual([`-A ${SVC} ${MASQUERADE}`, ...choices(false)])
})

const PORTS = [{ port: 80, nodePort: 31531 }]
const NODE_PORT = service('nginx-service', { ...NGINX, ports: PORTS, spec: { type: 'NodePort' } })

test('1.22: a node port leads to the chain of the Service, which masquerades', () => {
  const lines = rules('1.22', NODE_PORT)
  const port = '-p tcp -m comment --comment "default/nginx-service" -m tcp --dport 31531'
  expect(within(lines, 'KUBE-NODEPORTS')).toEqual([`-A KUBE-NODEPORTS ${port} -j ${SVC}`])
  expect(within(lines, SVC).slice(0, 2)).toEqual([`-A ${SVC} ${MASQUERADE}`, `-A ${SVC} ${port} -j KUBE-MARK-MASQ`])
})

test('1.20: masquerading is decided before the jump', () => {
  const lines = rules('1.20', NODE_PORT)
  expect(within(lines, 'KUBE-SERVICES').slice(0, 2)).toEqual([
    `-A KUBE-SERVICES ${MASQUERADE}`,
    `-A KUBE-SERVICES ${JUMP}`,
  ])
  expect(within(lines, 'KUBE-NODEPORTS').map(line => line.replace(/.* -j /, ''))).toEqual(['KUBE-MARK-MASQ', SVC])
  expect(within(lines, SVC)).toEqual(choices(false))
})

describe.each(['1.17', '1.16'] as const)('%s', profile => {
  test('an unnamed port has a colon, and its chains another hash', () => {
    const lines = nginx(profile).join('\n')
    expect(lines).toContain('"default/nginx-service: cluster IP"')
    expect(lines).toContain('-j KUBE-SVC-GKN7Y2BSGW4NJTYL')
  })

  test('one rule masquerades what is marked', () => {
    expect(within(nginx(profile), 'KUBE-POSTROUTING')).toEqual([
      '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully',
    ])
  })
})

test('1.16: five decimals, and answers let through by the pod network', () => {
  const lines = nginx('1.16')
  expect(lines.join('\n')).toContain('--probability 0.33332999982')
  expect(within(lines, 'KUBE-FORWARD').slice(-2)).toEqual([
    '-A KUBE-FORWARD -s 10.244.0.0/16 -m comment --comment "kubernetes forwarding conntrack pod source rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    '-A KUBE-FORWARD -d 10.244.0.0/16 -m comment --comment "kubernetes forwarding conntrack pod destination rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  ])
})

describe('up to 1.23', () => {
  const local = (here: readonly string[]) =>
    service('nginx-service', {
      ...NGINX,
      ports: PORTS,
      here,
      spec: { type: 'NodePort', externalTrafficPolicy: 'Local' },
    })
  const XLB = 'KUBE-XLB-V2OKYYMBY3REGZOG'

  test('externalTrafficPolicy Local has a chain that pods and the node dial past', () => {
    const lines = rules('1.22', local(['10.244.1.3']))
    expect(within(lines, XLB)).toEqual([
      `-A ${XLB} -s 10.244.0.0/16 -m comment --comment "Redirect pods trying to reach external loadbalancer VIP to clusterIP" -j ${SVC}`,
      `-A ${XLB} -m comment --comment "masquerade LOCAL traffic for default/nginx-service LB IP" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
      `-A ${XLB} -m comment --comment "route LOCAL traffic for default/nginx-service LB IP to service chain" -m addrtype --src-type LOCAL -j ${SVC}`,
      `-A ${XLB} -m comment --comment "default/nginx-service" -j KUBE-SEP-RHJMXRHDBGUC5TL7`,
    ])
    expect(within(lines, 'KUBE-NODEPORTS')).toEqual([
      '-A KUBE-NODEPORTS -s 127.0.0.0/8 -p tcp -m comment --comment "default/nginx-service" -m tcp --dport 31531 -j KUBE-MARK-MASQ',
      `-A KUBE-NODEPORTS -p tcp -m comment --comment "default/nginx-service" -m tcp --dport 31531 -j ${XLB}`,
    ])
  })

  test('without a backend here it drops', () => {
    expect(within(rules('1.22', local([])), XLB).at(-1)).toBe(
      `-A ${XLB} -m comment --comment "default/nginx-service has no local endpoints" -j KUBE-MARK-DROP`,
    )
  })

  test("a load balancer's address has a chain that ends in a drop", () => {
    const FW = 'KUBE-FW-V2OKYYMBY3REGZOG'
    const comment = '-m comment --comment "default/nginx-service loadbalancer IP"'
    const balanced = (spec: object) =>
      within(
        rules(
          '1.22',
          service('nginx-service', {
            ...NGINX,
            spec: { type: 'LoadBalancer', ...spec },
            status: { loadBalancer: { ingress: [{ ip: '198.51.100.9', ipMode: 'VIP' }] } },
          }),
        ),
        FW,
      )
    expect(balanced({})).toEqual([
      `-A ${FW} ${comment} -j KUBE-MARK-MASQ`,
      `-A ${FW} ${comment} -j ${SVC}`,
      `-A ${FW} ${comment} -j KUBE-MARK-DROP`,
    ])
    expect(balanced({ loadBalancerSourceRanges: ['203.0.113.0/24', '192.168.0.0/16'] })).toEqual([
      `-A ${FW} ${comment} -j KUBE-MARK-MASQ`,
      `-A ${FW} -s 192.168.0.0/16 ${comment} -j ${SVC}`,
      `-A ${FW} -s 203.0.113.0/24 ${comment} -j ${SVC}`,
      `-A ${FW} -s 198.51.100.9/32 ${comment} -j ${SVC}`,
      `-A ${FW} ${comment} -j KUBE-MARK-DROP`,
    ])
  })
})

test.each(IPTABLES_PROFILES)('%s: every chain that a rule leads to is there', profile => {
  const state = desired([NODE, ...NODE_PORT])
  const { filter, nat } = render(state, { ...OPTIONS, layout: LAYOUTS[profile] })
  for (const { jumps, chains } of [filter, nat]) {
    for (const line of [...jumps, ...[...chains.values()].flat()]) {
      const target = / -j (KUBE-\S+)$/.exec(line)?.[1]
      if (target !== undefined) expect(chains.has(target), line).toBe(true)
    }
  }
})
