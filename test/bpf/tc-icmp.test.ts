import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type PacketOptions, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { decodeIcmp, framed, type IcmpKind, icmp, icmpError } from './packet-icmp.js'
import { missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** The address plan of tc-node.ts. */
const PLAN = {
  IPv4: {
    client: '203.0.113.7',
    egress: '192.168.1.1',
    vip: '172.30.0.1',
    here: '10.0.1.5',
    there: '10.0.2.5',
    router: '192.168.1.2',
    clientRouter: '203.0.113.99',
    stranger: '198.51.100.1',
    ip: 'ok',
  },
  IPv6: {
    client: '2001:db8:f::7',
    egress: '2001:db8:c1::1',
    vip: '2001:db8:30::1',
    here: '2001:db8:a1::5',
    there: '2001:db8:a2::5',
    router: '2001:db8:c1::2',
    clientRouter: '2001:db8:f::99',
    stranger: '2001:db8:e::1',
    ip: 'absent',
  },
} as const

const CASES = (['IPv4', 'IPv6'] as const).flatMap(family =>
  (['TCP', 'UDP'] as const).map(proto => ({ family, proto, at: PLAN[family] })),
)
const payload = new TextEncoder().encode('an odd number of bytes.')

const at = (address: string, port: number) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`)

function packet(proto: 'TCP' | 'UDP', from: string, to: string, flags = 'S', options: PacketOptions = {}): Uint8Array {
  return proto === 'TCP' ? tcp(from, to, flags, options) : udp(from, to, options)
}

describe.skipIf(lacking)('ICMP errors', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  /** Opens a flow to a backend here or elsewhere; what the client sent, what left, and the reply that left. */
  function flow(family: 'IPv4' | 'IPv6', proto: 'TCP' | 'UDP', local: boolean, options: PacketOptions = { payload }) {
    const { client, vip, here, there } = PLAN[family]
    node.services.add({
      proto,
      frontends: [{ at: at(vip, 80) }],
      backends: [{ at: at(local ? here : there, 8080), local }],
    })
    const sent = packet(proto, at(client, 40000), at(vip, 80), 'S', options)
    const forward = node.ingress(sent)
    const reply = packet(proto, forward.packet.to, forward.packet.from, 'SA', options)
    const back = local ? node.egress(reply) : node.ingress(reply, 'up1')
    return { sent, forward, reply, back }
  }

  const ends = (frame: Uint8Array) => {
    const { from, to, proto, ttl } = decode(frame)
    return { from, to, proto, ttl }
  }

  /** The error is right, and quotes the packet as whoever gets the error sent it. */
  function expectTranslated(step: Step, family: 'IPv4' | 'IPv6', original: Uint8Array): void {
    const error = decodeIcmp(step.frame)
    expect(step.outcome).toBe('icmp_translated')
    expect(error).toMatchObject({ checksum: 'ok', ipChecksum: PLAN[family].ip })
    expect(ends(framed(error.body))).toMatchObject({ ...ends(original), ttl: expect.any(Number) })
    expect(error.quote.checksums).toEqual(decode(original).checksums)
  }

  describe.each(CASES)('$family $proto', ({ family, proto, at: plan }) => {
    const kinds: IcmpKind[] = ['net unreachable', 'port unreachable', 'too big', 'time exceeded', 'parameter problem']

    test.each(kinds)('row 17, 19: %s from beyond the node about a packet to a remote backend', kind => {
      const { sent, forward } = flow(family, proto, false)
      for (const from of [plan.router, plan.there]) {
        const error = icmpError(kind, from, plan.egress, forward.frame, { rest: 1300, ttl: 61 })
        const step = node.ingress(error, 'up1')
        expect(step.verdict).toBe('redirect')
        expect(decodeIcmp(step.frame)).toMatchObject({ kind, from: plan.vip, to: plan.client, ttl: 60, rest: 1300 })
        expectTranslated(step, family, sent)
      }
    })

    test.each(kinds)('row 17, 19: %s about a packet to a backend here, on its way out', kind => {
      const { sent, forward } = flow(family, proto, true)
      for (const from of [plan.here, plan.router]) {
        const error = icmpError(kind, from, plan.client, forward.frame, { rest: 1300 })
        const step = node.egress(error)
        expect(step.verdict).toBe('next')
        expect(decodeIcmp(step.frame)).toMatchObject({ kind, from: plan.vip, to: plan.client, ttl: 64, rest: 1300 })
        expectTranslated(step, family, sent)
        // At ingress it is not ours: it has not been routed yet.
        expect(node.ingress(error)).toMatchObject({ outcome: 'not_service', verdict: 'next', frame: error })
      }
    })

    test.each(kinds)('row 18: %s from the client side about a reply, to a remote backend', kind => {
      const { forward, reply, back } = flow(family, proto, false)
      const error = icmpError(kind, plan.clientRouter, plan.vip, back.frame, { rest: 1300 })
      const step = node.ingress(error)
      expect(step.verdict).toBe('redirect')
      // The backend's node would take an address of the client's side for a martian.
      expect(decodeIcmp(step.frame)).toMatchObject({ kind, from: plan.egress, to: plan.there, ttl: 63, rest: 1300 })
      expectTranslated(step, family, reply)
      expect(forward.packet.from.startsWith(family === 'IPv4' ? plan.egress : `[${plan.egress}]`)).toBe(true)
    })

    test.each(kinds)('row 18: %s from the client side about a reply, to a backend here', kind => {
      const { reply, back } = flow(family, proto, true)
      const error = icmpError(kind, plan.clientRouter, plan.vip, back.frame, { rest: 1300 })
      const step = node.ingress(error)
      expect(step.verdict).toBe('next')
      expect(decodeIcmp(step.frame)).toMatchObject({ kind, from: plan.clientRouter, to: plan.here, ttl: 64 })
      expectTranslated(step, family, reply)
    })

    test('row 20: cut off eight bytes behind the IP header', () => {
      const { forward, back } = flow(family, proto, false)
      const there = node.ingress(icmpError('too big', plan.router, plan.egress, forward.frame, { bytes: 8 }), 'up1')
      const here = node.ingress(icmpError('too big', plan.clientRouter, plan.vip, back.frame, { bytes: 8 }))
      for (const [step, from, to] of [
        [there, at(plan.client, 40000), at(plan.vip, 80)],
        [here, at(plan.there, 8080), forward.packet.from],
      ] as const) {
        expect(step.outcome).toBe('icmp_translated')
        const { checksum, body } = decodeIcmp(step.frame)
        expect(checksum).toBe('ok')
        // The rest of the transport header is not there to be decoded.
        const whole = new Uint8Array(body.length + 12)
        whole.set(body)
        if (family === 'IPv6') new DataView(whole.buffer).setUint16(4, whole.length - 40)
        expect(decode(framed(whole))).toMatchObject({ from, to })
      }
    })

    test('row 20: no ports in the quote: left alone', () => {
      const { forward } = flow(family, proto, false)
      for (const bytes of [0, 4, 7]) {
        const error = icmpError('too big', plan.router, plan.egress, forward.frame, { bytes })
        expect(node.ingress(error, 'up1')).toMatchObject({ outcome: 'malformed', verdict: 'next', frame: error })
      }
      const padded = new Uint8Array(140)
      padded.set(icmpError('too big', plan.router, plan.egress, forward.frame, { bytes: 0 }))
      expect(node.ingress(padded, 'up1').outcome).toBe('malformed')
    })

    test('an error about no flow, or to somebody else than the sender: left alone', () => {
      const { forward } = flow(family, proto, false)
      const other = icmpError('too big', plan.router, plan.stranger, forward.frame)
      expect(node.ingress(other, 'up1')).toMatchObject({ outcome: 'not_service', frame: other })
      node.services.clear()
      const late = icmpError('too big', plan.router, plan.egress, forward.frame)
      expect(node.ingress(late, 'up1')).toMatchObject({ outcome: 'not_service', verdict: 'next', frame: late })
      expect(node.services.flows()).toEqual([])
    })

    test('an error keeps no flow alive and does not establish it', () => {
      const { vip, there, client } = plan
      node.services.add({ proto, frontends: [{ at: at(vip, 80) }], backends: [{ at: at(there, 8080) }] })
      const forward = node.ingress(packet(proto, at(client, 40000), at(vip, 80)))
      node.services.ageFlows(1_000_000_000n)
      const before = node.services.flows()
      node.ingress(icmpError('port unreachable', plan.there, plan.egress, forward.frame), 'up1')
      expect(node.services.flows()).toEqual(before)
    })

    test('an error whose TTL is used up is dropped without an error about it', () => {
      const { forward } = flow(family, proto, false)
      const error = icmpError('too big', plan.router, plan.egress, forward.frame, { ttl: 1 })
      expect(node.ingress(error, 'up1')).toMatchObject({ outcome: 'ttl_exceeded', verdict: 'drop' })
    })
  })

  test.each([4, 12, 40])('row 20: IPv4 with %i bytes of options, quoted and outside', length => {
    const ipOptions = new Uint8Array(length).fill(1)
    const { sent, forward, back, reply } = flow('IPv4', 'UDP', false, { ipOptions, payload })
    const { router, egress, clientRouter, vip } = PLAN.IPv4
    const there = node.ingress(icmpError('too big', router, egress, forward.frame, { ipOptions }), 'up1')
    expectTranslated(there, 'IPv4', sent)
    expect(decodeIcmp(there.frame).quote.ipOptions).toEqual(ipOptions)
    expectTranslated(node.ingress(icmpError('too big', clientRouter, vip, back.frame)), 'IPv4', reply)
  })

  test('row 20: a quoted later fragment is left alone', () => {
    const { forward } = flow('IPv4', 'UDP', false)
    const later = Uint8Array.from(forward.frame)
    later.set([0x20, 0xb9], 14 + 6)
    const error = icmpError('too big', PLAN.IPv4.router, PLAN.IPv4.egress, later)
    expect(node.ingress(error, 'up1')).toMatchObject({ outcome: 'fragment', verdict: 'next', frame: error })
  })

  test('row 20: a quoted packet of another protocol, and none at all', () => {
    const { router, egress } = PLAN.IPv4
    const about = icmp('echo request', egress, PLAN.IPv4.there, payload)
    expect(node.ingress(icmpError('time exceeded', router, egress, about), 'up1').outcome).toBe('not_handled')
    for (const [family, version] of [
      ['IPv4', 0x65],
      ['IPv6', 0x40],
      ['IPv4', 0x44],
    ] as const) {
      const body = new Uint8Array(48)
      body[0] = version
      const { router: from, egress: to } = PLAN[family]
      expect(node.ingress(icmp('time exceeded', from, to, body), 'up1').outcome).toBe('malformed')
      expect(node.ingress(icmp('time exceeded', from, to, new Uint8Array()), 'up1').outcome).toBe('malformed')
    }
  })

  test('a UDP checksum of zero stays none in the quote, and none is ever computed to zero', () => {
    const { sent, forward } = flow('IPv4', 'UDP', false, { checksum: 'zero' })
    const { router, egress } = PLAN.IPv4
    expectTranslated(node.ingress(icmpError('too big', router, egress, forward.frame), 'up1'), 'IPv4', sent)
    const word = (value: number) => Uint8Array.of(value >> 8, value & 0xff)
    const one = node.ingress(udp(at(PLAN.IPv4.client, 40000), at(PLAN.IPv4.vip, 80), { payload: word(0) }))
    const quoted = node.ingress(icmpError('too big', router, egress, one.frame), 'up1')
    const zeroed = udp(at(PLAN.IPv4.client, 40000), at(PLAN.IPv4.vip, 80), {
      payload: word(decodeIcmp(quoted.frame).quote.transportChecksum),
    })
    const step = node.ingress(icmpError('too big', router, egress, node.ingress(zeroed).frame), 'up1')
    expect(decodeIcmp(step.frame).quote.transportChecksum).toBe(0xffff)
    expect(decodeIcmp(step.frame).checksum).toBe('ok')
  })

  test('a wrong ICMP checksum stays wrong', () => {
    for (const family of ['IPv4', 'IPv6'] as const) {
      node.services.clear()
      const { forward } = flow(family, 'TCP', false)
      const error = icmpError('too big', PLAN[family].router, PLAN[family].egress, forward.frame)
      const at = family === 'IPv4' ? 36 : 56
      error[at] = (error[at] ?? 0) ^ 1
      expect(decodeIcmp(node.ingress(error, 'up1').frame).checksum).toBe('wrong')
    }
  })

  test('messages that are no errors are left alone', () => {
    for (const { client, vip } of Object.values(PLAN)) {
      for (const kind of ['echo reply', 'neighbour solicitation'] as const) {
        const frame = icmp(kind, client, vip, payload)
        expect(node.ingress(frame)).toMatchObject({ outcome: 'not_handled', verdict: 'next', frame })
      }
      const cut = icmp('echo request', client, vip, new Uint8Array()).slice(0, -1)
      new DataView(cut.buffer).setUint16(vip.includes(':') ? 18 : 16, vip.includes(':') ? 7 : 27)
      expect(node.ingress(cut).outcome).toBe('malformed')
    }
  })
})

describe.skipIf(lacking).each([{ answers: false }, { answers: true }])(
  'row 21: echo to a Service address, --answer-ping=$answers',
  ({ answers }) => {
    let node: TcNode

    beforeAll(() => {
      node = new TcNode({ constants: answers ? { cfg_answer_ping: Uint8Array.of(1) } : {} })
      for (const { vip, here, egress } of Object.values(PLAN)) {
        const backends = [{ at: at(here, 8080), local: true }]
        node.services.add({ proto: 'TCP', frontends: [{ at: at(vip, 80) }], backends })
        node.services.add({ proto: 'TCP', frontends: [{ at: at(egress, 30080), ownAddress: true }], backends })
      }
    })
    afterAll(() => node.close())

    test.each(Object.entries(PLAN))('%s', (_, { client, vip, egress, ip }) => {
      const echo = icmp('echo request', client, vip, payload, { rest: 0xabcd_0001, ttl: 1 })
      const step = node.ingress(echo)
      expect(step.outcome).toBe(answers ? 'ping_answered' : 'ping_ignored')
      expect(step.verdict).toBe(answers ? 'redirect' : 'drop')
      if (answers) {
        const wanted = { kind: 'echo reply', from: vip, to: client, ttl: 64, rest: 0xabcd_0001, body: payload }
        expect(decodeIcmp(step.frame)).toMatchObject({ ...wanted, checksum: 'ok', ipChecksum: ip })
      }
      // The host answers for its own address.
      const own = icmp('echo request', client, egress, payload)
      expect(node.ingress(own)).toMatchObject({ outcome: 'not_handled', verdict: 'next', frame: own })
      const out = icmp('echo request', vip, client, payload)
      expect(node.egress(out)).toMatchObject({ outcome: 'not_handled', verdict: 'next', frame: out })
    })

    test('IPv4 options are not sent back', () => {
      const ipOptions = new Uint8Array(8).fill(1)
      const step = node.ingress(icmp('echo request', PLAN.IPv4.client, PLAN.IPv4.vip, payload, { ipOptions }))
      expect(step.verdict).toBe(answers ? 'redirect' : 'drop')
      if (answers) expect(decodeIcmp(step.frame)).toMatchObject({ checksum: 'ok', ipChecksum: 'ok', body: payload })
    })

    test('nobody is answered at an address that is no single sender', () => {
      for (const [from, to] of [
        ['0.0.0.0', PLAN.IPv4.vip],
        ['224.0.0.1', PLAN.IPv4.vip],
        ['255.255.255.255', PLAN.IPv4.vip],
        ['::', PLAN.IPv6.vip],
        ['ff02::1', PLAN.IPv6.vip],
      ] as const) {
        expect(node.ingress(icmp('echo request', from, to, payload))).toMatchObject({ verdict: 'drop' })
      }
    })
  },
)
