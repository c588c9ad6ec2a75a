import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FrontendKind } from '../../src/ebpf/generated/layouts.js'
import { tcp, udp } from './packet.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** Row 39 of the packet table: source ranges, from outside, in both families; and node ports on loopback. */

const FAMILIES = [
  {
    family: 'IPv4',
    vip: '198.51.100.1',
    other: '198.51.100.2',
    node: '192.168.0.1',
    loopback: '127.0.0.1',
    backend: '10.0.2.5:8080',
    ranges: ['203.0.113.64/26', '192.0.2.5/32'],
    inside: ['203.0.113.64', '203.0.113.127', '192.0.2.5'],
    outside: ['203.0.113.63', '203.0.113.128', '192.0.2.4', '192.0.2.6', '10.0.2.9'],
  },
  {
    family: 'IPv6',
    vip: '[2001:db8:198::1]',
    other: '[2001:db8:198::2]',
    node: '[2001:db8:c0::1]',
    loopback: '[::1]',
    backend: '[2001:db8:a2::5]:8080',
    ranges: ['2001:db8:f::40/122', '2001:db8:e::5/128'],
    inside: ['[2001:db8:f::40]', '[2001:db8:f::7f]', '[2001:db8:e::5]'],
    outside: ['[2001:db8:f::3f]', '[2001:db8:f::80]', '[2001:db8:e::4]', '[2001:db8:e::6]'],
  },
] as const

describe.skipIf(lacking)('source ranges', () => {
  let node: TcNode
  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  describe.each(FAMILIES)('$family', at => {
    const backends = [{ at: at.backend }]
    const kinds = [
      { at: `${at.vip}:80`, kind: FrontendKind.LOAD_BALANCER },
      { at: `${at.other}:80`, kind: FrontendKind.EXTERNAL_IP },
      { at: `${at.node}:30080`, kind: FrontendKind.NODE_PORT },
    ]
    const dial = (client: string, to: string) => node.ingress(tcp(`${client}:40000`, to, 'S'))

    test('row 39: let in whom they name, drop all others, in TCP and UDP', () => {
      node.services.add({ proto: 'TCP', frontends: kinds, backends, sourceRanges: at.ranges })
      node.services.add({ proto: 'UDP', frontends: kinds, backends, sourceRanges: at.ranges })
      for (const client of at.outside) {
        expect(dial(client, `${at.vip}:80`)).toMatchObject({ outcome: 'source_denied', verdict: 'drop' })
        const datagram = node.ingress(udp(`${client}:40000`, `${at.vip}:80`))
        expect(datagram).toMatchObject({ outcome: 'source_denied', verdict: 'drop' })
      }
      expect(node.services.flows()).toEqual([])
      for (const client of at.inside) {
        expect(dial(client, `${at.vip}:80`).outcome).toBe('forwarded')
        expect(node.ingress(udp(`${client}:40000`, `${at.vip}:80`)).outcome).toBe('forwarded')
      }
    })

    test('row 39: bind the load-balancer address alone', () => {
      node.services.add({ proto: 'TCP', frontends: kinds, backends, sourceRanges: at.ranges })
      const [stranger] = at.outside
      expect(dial(stranger, `${at.other}:80`).outcome).toBe('forwarded')
      expect(dial(stranger, `${at.node}:30080`).outcome).toBe('forwarded')
    })

    test('of one service never bind another', () => {
      const [mine, others] = [[kinds[0] ?? { at: '' }], [{ at: `${at.other}:80`, kind: FrontendKind.LOAD_BALANCER }]]
      node.services.add({ proto: 'TCP', frontends: mine, backends, sourceRanges: at.ranges })
      node.services.add({ proto: 'TCP', frontends: others, backends })
      expect(dial(at.outside[0], `${at.other}:80`).outcome).toBe('forwarded')
      expect(dial(at.outside[0], `${at.vip}:80`).outcome).toBe('source_denied')
    })

    test('row 39: with none of the family nobody is let in', () => {
      node.services.add({ proto: 'TCP', frontends: kinds, backends, sourceRanges: [] })
      expect(dial(at.inside[0], `${at.vip}:80`).outcome).toBe('source_denied')
    })

    test('row 39: a change binds new flows; known ones go on', () => {
      const service = node.services.add({ proto: 'TCP', frontends: kinds, backends, sourceRanges: at.ranges })
      const [client] = at.inside
      expect(dial(client, `${at.vip}:80`).outcome).toBe('forwarded')
      for (const range of at.ranges) node.services.deleteRange(service.index, range)
      expect(node.ingress(tcp(`${client}:40000`, `${at.vip}:80`, 'A')).outcome).toBe('forwarded')
      expect(node.ingress(tcp(`${client}:40001`, `${at.vip}:80`, 'S')).outcome).toBe('source_denied')
    })

    test("a node port on loopback is nobody's from outside", () => {
      const frontends = [{ at: `${at.loopback}:30080`, loopback: true }]
      node.services.add({ proto: 'TCP', frontends, backends })
      node.services.add({ proto: 'UDP', frontends, backends })
      const [client] = at.inside
      expect(dial(client, `${at.loopback}:30080`)).toMatchObject({ outcome: 'not_service', verdict: 'next' })
      const datagram = node.ingress(udp(`${client}:40000`, `${at.loopback}:30080`))
      expect(datagram).toMatchObject({ outcome: 'not_service', verdict: 'next' })
      expect(node.services.flows()).toEqual([])
    })
  })
})
