import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type PacketOptions, tcp, udp } from './packet.js'
import { decodeIcmp, icmpError } from './packet-icmp.js'
import { missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const PLAN = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', there: '10.0.2.5', egress: '192.168.1.1', router: '192.168.1.2' },
  IPv6: {
    client: '[2001:db8:f::7]',
    vip: '[2001:db8:30::1]',
    there: '[2001:db8:a2::5]',
    egress: '[2001:db8:c1::1]',
    router: '2001:db8:c1::2',
  },
} as const
const CASES = (['IPv4', 'IPv6'] as const).flatMap(family =>
  (['TCP', 'UDP'] as const).map(proto => ({ family, proto, plan: PLAN[family] })),
)
const OK = { transport: 'ok' }
const payload = new TextEncoder().encode('an odd number of bytes.')

describe.skipIf(lacking)("the node's own packets with a source port that a flow has", () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode({ snatPorts: [2000, 2001] })
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  const packet = (proto: 'TCP' | 'UDP', from: string, to: string, flags = 'S', options: PacketOptions = { payload }) =>
    proto === 'TCP' ? tcp(from, to, flags, flags === 'S' ? {} : options) : udp(from, to, options)

  /** A flow of a client to the backend, and the source port that it was given. */
  function flow(proto: 'TCP' | 'UDP', { client, vip, there }: (typeof PLAN)['IPv4' | 'IPv6'], port = 40000) {
    if (port === 40000)
      node.services.add({ proto, frontends: [{ at: `${vip}:80` }], backends: [{ at: `${there}:8080` }] })
    const sent = node.ingress(packet(proto, `${client}:${port}`, `${vip}:80`))
    expect(sent.outcome).toBe('forwarded')
    return { sent, source: sent.packet.from }
  }

  /** The node itself dials the backend from that port. */
  const dial = (proto: 'TCP' | 'UDP', source: string, there: string, flags = 'S'): Step =>
    node.egress(packet(proto, source, `${there}:8080`, flags), 'up1')

  test.each(CASES)(
    '$family $proto: they leave from another port, and each side gets its own replies',
    ({ proto, plan }) => {
      const { client, vip, there, egress } = plan
      const { source } = flow(proto, plan)
      const moved = dial(proto, source, there)
      expect(moved).toMatchObject({ outcome: 'port_moved', verdict: 'next' })
      expect(moved.packet).toMatchObject({ to: `${there}:8080`, ttl: 64, checksums: OK })
      expect([source, moved.packet.from].sort()).toEqual([`${egress}:2000`, `${egress}:2001`])

      const answer = node.ingress(packet(proto, `${there}:8080`, moved.packet.from, 'SA'), 'up1')
      expect(answer).toMatchObject({ outcome: 'replied', verdict: 'next' })
      expect(answer.packet).toMatchObject({ from: `${there}:8080`, to: source, ttl: 64, checksums: OK })
      const on = dial(proto, source, there, 'A')
      expect(on).toMatchObject({ outcome: 'port_moved', packet: { from: moved.packet.from } })

      const reply = node.ingress(packet(proto, `${there}:8080`, source, 'SA'), 'up1')
      expect(reply).toMatchObject({ outcome: 'replied', verdict: 'redirect' })
      expect(reply.packet).toMatchObject({ from: `${vip}:80`, to: `${client}:40000` })
    },
  )

  test.each(CASES)(
    "$family $proto: a flow's own packets are signed and left alone, and arrive elsewhere unsigned",
    ({ proto, plan }) => {
      const { sent } = flow(proto, plan)
      expect(sent.sign).not.toBe(0)
      expect(node.egress(sent.frame, 'up1', { came: 'up0', sign: sent.sign })).toMatchObject({
        outcome: 'not_service',
        verdict: 'next',
        frame: sent.frame,
      })
      expect(node.ingress(sent.frame, 'up0', { sign: sent.sign }).sign).toBe(0)
    },
  )

  test.each(CASES)(
    '$family $proto: one that has lost its sign is known by conntrack, which does not know it',
    ({ proto, plan }) => {
      const { sent } = flow(proto, plan)
      expect(node.egress(sent.frame, 'up1', { came: 'up0' })).toMatchObject({
        outcome: 'not_service',
        frame: sent.frame,
      })
    },
  )

  test.each(CASES)(
    '$family $proto: with no port left they are dropped, for their replies are the client’s',
    ({ proto, plan }) => {
      const { source } = flow(proto, plan)
      flow(proto, plan, 40001)
      expect(dial(proto, source, plan.there)).toMatchObject({ outcome: 'snat_exhausted', verdict: 'drop' })
    },
  )

  test.each(CASES)(
    '$family $proto: other ports, other backends and other addresses are left alone',
    ({ proto, plan }) => {
      const { source } = flow(proto, plan)
      const { there, egress, client } = plan
      const port = source.slice(source.lastIndexOf(':'))
      const elsewhere = there.replace('5', '6')
      for (const [from, to] of [
        [`${egress}:1999`, `${there}:8080`],
        [source === `${egress}:2000` ? `${egress}:2001` : `${egress}:2000`, `${there}:8080`],
        [source, `${elsewhere}:8080`],
        [source, `${there}:8081`],
        [`${client}${port}`, `${there}:8080`],
      ] as const) {
        expect(node.egress(packet(proto, from, to), 'up1')).toMatchObject({ outcome: 'not_service', verdict: 'next' })
      }
      expect(node.services.flows()).toHaveLength(2)
    },
  )

  test.each(['IPv4', 'IPv6'] as const)('%s: the middle of a TCP connection is not looked at', family => {
    const { source } = flow('TCP', PLAN[family])
    expect(dial('TCP', source, PLAN[family].there, 'A').outcome).toBe('not_service')
  })

  test.each(CASES)(
    '$family $proto: an ICMP error about one comes to the port that it was sent from',
    ({ proto, plan }) => {
      const { there, egress, router } = plan
      const { source } = flow(proto, plan)
      const bare = (text: string) => text.replace(/[[\]]/g, '')
      const moved = dial(proto, source, there)
      const error = icmpError('port unreachable', router, bare(egress), moved.frame)
      const told = node.ingress(error, 'up1')
      expect(told).toMatchObject({ outcome: 'icmp_translated', verdict: 'next' })
      expect(decodeIcmp(told.frame).quote).toMatchObject({ from: source, to: `${there}:8080` })
    },
  )
})
