import { describe, expect, test } from 'vitest'
import { nameHash } from '../cluster/oracle/kube-proxy.js'
import { NftRules } from '../cluster/oracle/nft-rules.js'

/** The reader of kube-proxy's rules that the comparison with it (test/cluster/oracle) goes by. */

const saddr = { payload: { protocol: 'ip', field: 'saddr' } }
const random = (mod: number) => ({ numgen: { mode: 'random', mod, offset: 0 } })
const goto = (target: string) => ({ goto: { target } })
const equals = (left: object, right: unknown) => ({ match: { op: '==', left, right } })
const mark = { mangle: { key: { meta: { key: 'mark' } }, value: { '|': [{ meta: { key: 'mark' } }, 16384] } } }
const tcp = equals({ meta: { key: 'l4proto' } }, 'tcp')
const nodeItself = equals({ fib: { result: 'type', flags: ['saddr'] } }, 'local')

const map = (name: string, elem: unknown[]) => ({ map: { name, map: 'verdict', elem } })
const key = (...concat: unknown[]) => ({ concat })
const chain = (name: string, ...rules: object[][]) => [
  { chain: { name } },
  ...rules.map(expr => ({ rule: { chain: name, expr } })),
]

function rules(...more: object[]): NftRules {
  return new NftRules({
    nftables: [
      { metainfo: {} },
      { set: { name: 'cluster-ips', elem: ['10.96.0.10'] } },
      { set: { name: 'nodeport-ips', elem: ['192.168.0.11'] } },
      { set: { name: 'affinity-x', timeout: 60 } },
      map('service-ips', [
        [key('10.96.0.10', 'tcp', 80), goto('service-web')],
        [key('198.18.0.1', 'tcp', 80), goto('external-web')],
        [key('198.18.0.2', 'tcp', 80), goto('external-sticky')],
      ]),
      map('service-nodeports', [[key('tcp', 30080), goto('external-web')]]),
      map('no-endpoint-services', [
        [key('198.18.0.1', 'tcp', 80), { drop: null }],
        [{ elem: { val: key('198.18.0.9', 'udp', 53), comment: 'default/dns' } }, goto('reject-chain')],
      ]),
      map('no-endpoint-nodeports', [[key('tcp', 30080), { drop: null }]]),
      map('firewall-ips', [
        [key('198.18.0.1', 'tcp', 80), goto('firewall-web')],
        [key('198.18.0.2', 'tcp', 80), goto('firewall-one')],
      ]),
      ...chain('service-web', [
        tcp,
        {
          dnat: {
            family: 'ip',
            addr: {
              map: {
                key: random(2),
                data: {
                  set: [
                    [0, key('10.0.0.2', 8080)],
                    [1, key('10.0.0.1', 8080)],
                  ],
                },
              },
            },
          },
        },
      ]),
      // externalTrafficPolicy Local without an endpoint here: pods and the node alone get any.
      ...chain(
        'external-web',
        [equals(saddr, { prefix: { addr: '10.244.0.0', len: 16 } }), goto('service-web')],
        [nodeItself, mark],
        [nodeItself, goto('service-web')],
      ),
      ...chain('external-sticky', [mark], [goto('service-sticky')]),
      ...chain(
        'service-sticky',
        [equals(saddr, '@affinity-x'), goto('endpoint-x')],
        [{ vmap: { key: random(1), data: { set: [[0, goto('endpoint-x')]] } } }],
      ),
      ...chain(
        'endpoint-x',
        [{ set: { op: 'update', elem: saddr, set: '@affinity-x' } }],
        [tcp, { dnat: { addr: '10.0.0.3', port: 8080 } }],
      ),
      ...chain('firewall-web', [
        {
          match: {
            op: '!=',
            left: saddr,
            right: { set: [{ prefix: { addr: '203.0.113.0', len: 24 } }, '198.18.0.1'] },
          },
        },
        { drop: null },
      ]),
      ...chain('firewall-one', [{ match: { op: '!=', left: saddr, right: '192.0.2.1' } }, { drop: null }]),
      ...more,
    ],
  })
}

const both = ['10.0.0.1 8080', '10.0.0.2 8080']

describe("kube-proxy's nftables rules, as read for the comparison", () => {
  test.each([
    ['pod', '10.96.0.10', 80, { verdict: 'backends', backends: both, affinity: 0, masquerade: false }],
    ['outside', '10.96.0.10', 80, { verdict: 'backends', backends: both, affinity: 0, masquerade: true }],
    ['pod', '198.18.0.1', 80, { verdict: 'backends', backends: both, affinity: 0, masquerade: false }],
    ['node', '198.18.0.1', 80, { verdict: 'backends', backends: both, affinity: 0, masquerade: true }],
    ['outside', '198.18.0.1', 80, { verdict: 'drop', backends: [], affinity: 0, masquerade: false }],
    ['outside', '192.168.0.11', 30080, { verdict: 'drop', backends: [], affinity: 0, masquerade: false }],
    ['node', '192.168.0.11', 30080, { verdict: 'backends', backends: both, affinity: 0, masquerade: true }],
    ['pod', '198.18.0.2', 80, { verdict: 'backends', backends: ['10.0.0.3 8080'], affinity: 60, masquerade: true }],
    ['pod', '192.168.0.12', 30080, undefined],
    ['pod', '10.96.0.10', 81, undefined],
  ] as const)('a %s that dials %s:%d', (client, address, port, outcome) => {
    expect(rules().outcome(client, address, port, 'TCP')).toEqual(outcome)
  })

  test('a refusal, whose element has a comment; frontends of all kinds; sources', () => {
    const read = rules()
    expect(read.outcome('pod', '198.18.0.9', 53, 'UDP')?.verdict).toBe('reject')
    expect([...read.frontends].sort()).toEqual([
      '10.96.0.10 80 TCP',
      '192.168.0.11 30080 TCP',
      '198.18.0.1 80 TCP',
      '198.18.0.2 80 TCP',
      '198.18.0.9 53 UDP',
    ])
    expect(read.sources('198.18.0.1', 80, 'TCP')).toEqual(['198.18.0.1/32', '203.0.113.0/24'])
    expect(read.sources('198.18.0.2', 80, 'TCP')).toEqual(['192.0.2.1/32'])
    expect(read.sources('10.96.0.10', 80, 'TCP')).toBeUndefined()
  })

  test.each([
    ['a statement', [{ log: null }]],
    ['a condition', [equals({ meta: { key: 'iifname' } }, 'eth0')]],
    ['a choice that is not even', [{ vmap: { key: random(2), data: { set: [[0, goto('endpoint-x')]] } } }]],
  ])('%s that it does not know is an error', (_, rule) => {
    const read = rules({ rule: { chain: 'external-web', expr: rule } })
    expect(() => read.outcome('outside', '198.18.0.1', 80, 'TCP')).toThrow('a rule that this reader does not know')
  })

  test("names of chains carry kube-proxy's hash", () => {
    expect(nameHash('testing/service/tcp/http')).toBe('P4ZYZVCF')
    expect(nameHash('ns1/svc1/tcp/p80')).toBe('ULMVA6XW')
  })
})
