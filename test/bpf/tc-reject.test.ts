import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ETH_LENGTH, type PacketOptions, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { decodeIcmp, icmpError } from './packet-icmp.js'
import { missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** The address plan of tc-node.ts. */
const PLAN = {
  IPv4: {
    client: '203.0.113.7',
    node: '192.168.0.1',
    egress: '192.168.1.1',
    vip: '172.30.0.1',
    there: '10.0.2.5',
    narrow: '10.0.4.5',
    narrowSource: '192.168.3.1',
    multicast: '224.0.0.1',
    ip: 'ok',
    most: 576,
    header: 20,
  },
  IPv6: {
    client: '2001:db8:f::7',
    node: '2001:db8:c0::1',
    egress: '2001:db8:c1::1',
    vip: '2001:db8:30::1',
    there: '2001:db8:a2::5',
    narrow: '2001:db8:a4::5',
    narrowSource: '2001:db8:c3::1',
    multicast: 'ff02::1',
    ip: 'absent',
    most: 1280,
    header: 40,
  },
} as const

const FAMILIES = (['IPv4', 'IPv6'] as const).map(family => ({ family, plan: PLAN[family] }))
const CASES = FAMILIES.flatMap(each => (['TCP', 'UDP'] as const).map(proto => ({ ...each, proto })))
const text = new TextEncoder().encode('an odd number of bytes.')

const at = (address: string, port: number) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`)

function packet(proto: 'TCP' | 'UDP', from: string, to: string, options: PacketOptions = {}, flags = 'S'): Uint8Array {
  return proto === 'TCP' ? tcp(from, to, flags, options) : udp(from, to, options)
}

/** Sequence and acknowledgement number of a segment without IP options. */
function numbers(frame: Uint8Array): { seq: number; ack: number } {
  const at = ETH_LENGTH + ((frame[ETH_LENGTH] ?? 0) >> 4 === 4 ? 20 : 40)
  const view = new DataView(frame.buffer, frame.byteOffset + at)
  return { seq: view.getUint32(4), ack: view.getUint32(8) }
}

/** What an error may quote of a packet. */
function quoteOf(sent: Uint8Array, { most, header }: { most: number; header: number }): Uint8Array {
  return sent.slice(ETH_LENGTH, ETH_LENGTH + most - header - 8)
}

describe.skipIf(lacking)('packets that cannot be served', () => {
  let node: TcNode

  beforeAll(() => {
    // The tests send more than real traffic would be answered.
    node = new TcNode({ constants: { cfg_reply_rate: Uint8Array.of(0, 0, 1, 0) } })
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  function expectReset(step: Step, family: 'IPv4' | 'IPv6', sent: Uint8Array, data: number): void {
    const { from, to } = decode(sent)
    expect(step.verdict).toBe('redirect')
    expect(step.packet).toMatchObject({ proto: 'TCP', from: to, to: from, flags: 'RA', ttl: 64 })
    expect(step.packet.checksums).toEqual({ ip: PLAN[family].ip, transport: 'ok' })
    expect(step.packet.ipOptions).toEqual(new Uint8Array())
    expect(numbers(step.frame)).toEqual({ seq: 0, ack: 1001 + data })
    expect(step.frame.length).toBe(ETH_LENGTH + PLAN[family].header + 20)
    expect(step.counted).toBe(step.frame.length)
  }

  describe.each(FAMILIES)('$family', ({ family, plan }) => {
    const refusals = [
      { name: 'no backend', outcome: 'no_backend', port: 80 },
      { name: 'no such port', outcome: 'no_port', port: 81 },
    ]

    /** A Service without backends, and the port beside its one. */
    function addEmpty(): void {
      for (const proto of ['TCP', 'UDP'] as const) {
        node.services.add({ proto, frontends: [{ at: at(plan.vip, 80) }], backends: [] })
      }
    }

    test.each(refusals)('row 40: a SYN, $name: reset', ({ outcome, port }) => {
      addEmpty()
      const frames: { options: PacketOptions; data: number }[] = [
        { options: {}, data: 0 },
        { options: { payload: text }, data: text.length },
        { options: { payload: new Uint8Array(1400).fill(7), tcpOptions: new Uint8Array(40).fill(1) }, data: 1400 },
        { options: { tcpOptions: new Uint8Array(20).fill(1) }, data: 0 },
        { options: { ttl: 1 }, data: 0 },
      ]
      for (const { options, data } of frames) {
        const sent = tcp(at(plan.client, 40000), at(plan.vip, port), 'S', options)
        const step = node.ingress(sent)
        expect(step.outcome).toBe(outcome)
        expectReset(step, family, sent, data)
      }
      expect(node.services.flows()).toEqual([])
    })

    test.each(refusals)('row 40: a datagram, $name: port unreachable', ({ outcome, port }) => {
      addEmpty()
      for (const size of [0, 1, 23, 255, 256, 257, 511, 512, 700, 1180, 1400, 3000]) {
        const sent = udp(at(plan.client, 40000), at(plan.vip, port), { payload: new Uint8Array(size).fill(0xa7) })
        const step = node.ingress(sent)
        expect(step).toMatchObject({ outcome, verdict: 'redirect', counted: step.frame.length })
        const wanted = { kind: 'port unreachable', from: plan.vip, to: plan.client, ttl: 64, rest: 0 }
        expect(decodeIcmp(step.frame)).toMatchObject({ ...wanted, checksum: 'ok', ipChecksum: plan.ip })
        expect(decodeIcmp(step.frame).body).toEqual(quoteOf(sent, plan))
      }
      expect(node.services.flows()).toEqual([])
    })

    test('row 40: Ethernet padding is not answered', () => {
      addEmpty()
      const sent = tcp(at(plan.client, 40000), at(plan.vip, 80), 'S')
      const padded = new Uint8Array(sent.length + 30).fill(0xee)
      padded.set(sent)
      expectReset(node.ingress(padded), family, sent, 0)
      const datagram = udp(at(plan.client, 40000), at(plan.vip, 80))
      padded.set(datagram)
      const step = node.ingress(padded)
      expect(decodeIcmp(step.frame)).toMatchObject({ checksum: 'ok', body: datagram.slice(ETH_LENGTH) })
    })

    test('row 40: a datagram whose checksum is none or wrong is quoted as it is', () => {
      addEmpty()
      // In IPv6 there is no datagram without (RFC 8200 8.1).
      for (const checksum of family === 'IPv4' ? (['zero', 'wrong'] as const) : (['wrong'] as const)) {
        const sent = udp(at(plan.client, 40000), at(plan.vip, 80), { payload: text, checksum })
        const step = node.ingress(sent)
        expect(decodeIcmp(step.frame)).toMatchObject({ checksum: 'ok', body: sent.slice(ETH_LENGTH) })
      }
    })

    test('row 40: what comes without SYN gets no reset, and a reset least of all', () => {
      addEmpty()
      for (const flags of ['A', 'R', 'RA', 'SA', 'FA', 'SR']) {
        for (const port of [80, 81]) {
          const frame = tcp(at(plan.client, 40000), at(plan.vip, port), flags)
          expect(node.ingress(frame)).toMatchObject({ verdict: 'next', frame })
        }
      }
    })

    test('row 40: an unknown port of an address that is the node’s own is the host’s', () => {
      const frontends = [{ at: at(plan.node, 30080), ownAddress: true }]
      node.services.add({ proto: 'TCP', frontends, backends: [] })
      for (const frame of [
        tcp(at(plan.client, 40000), at(plan.node, 22), 'S'),
        udp(at(plan.client, 40000), at(plan.node, 30080)),
      ]) {
        expect(node.ingress(frame)).toMatchObject({ outcome: 'host_port', verdict: 'next', frame })
      }
      const sent = tcp(at(plan.client, 40000), at(plan.node, 30080), 'S')
      expectReset(node.ingress(sent), family, sent, 0)
    })

    test('row 40: Local policy without a backend here stays silent', () => {
      for (const proto of ['TCP', 'UDP'] as const) {
        const frontends = [{ at: at(plan.vip, 80) }]
        node.services.add({ proto, frontends, backends: [{ at: at(plan.there, 8080) }], externalLocal: true })
        const step = node.ingress(packet(proto, at(plan.client, 40000), at(plan.vip, 80)))
        expect(step).toMatchObject({ outcome: 'no_local_backend', verdict: 'drop' })
      }
    })

    test('row 40: nobody is answered who cannot be one sender, or is this node', () => {
      addEmpty()
      const nobody = family === 'IPv4' ? ['0.0.0.0', '0.1.2.3', '255.255.255.255'] : ['::']
      for (const from of [...nobody, plan.multicast, plan.node]) {
        const step = node.ingress(udp(at(from, 40000), at(plan.vip, 80)))
        expect(step.verdict).toBe('drop')
      }
    })

    test('row 40: the last backend gone: port unreachable, and the error about it leads nowhere', () => {
      const frontends = [{ at: at(plan.vip, 53) }]
      const service = node.services.add({ proto: 'UDP', frontends, backends: [{ at: at(plan.there, 5353) }] })
      const sent = udp(at(plan.client, 40000), at(plan.vip, 53))
      expect(node.ingress(sent).outcome).toBe('forwarded')
      node.services.removeBackend(service, service.backends[0] ?? 0)
      const step = node.ingress(sent)
      expect(step).toMatchObject({ outcome: 'no_backend', verdict: 'redirect' })
      expect(decodeIcmp(step.frame).kind).toBe('port unreachable')
      // The packet that we made does not come back to us as anything but a stranger's.
      expect(node.egress(step.frame)).toMatchObject({ verdict: 'next', frame: step.frame })
    })
  })

  describe.each(CASES)('$family $proto', ({ family, proto, plan }) => {
    function open(backend: string) {
      node.services.add({ proto, frontends: [{ at: at(plan.vip, 80) }], backends: [{ at: at(backend, 8080) }] })
      return node.ingress(packet(proto, at(plan.client, 40000), at(plan.vip, 80)))
    }

    test('row 22: TTL used up: time exceeded from the node, both ways, and one less otherwise', () => {
      const forward = open(plan.there)
      const sent = packet(proto, at(plan.client, 40000), at(plan.vip, 80), { payload: text, ttl: 1 }, 'A')
      const reply = packet(proto, forward.packet.to, forward.packet.from, { payload: text, ttl: 1 }, 'SA')
      for (const [step, from, to, about] of [
        [node.ingress(sent), plan.node, plan.client, sent],
        [node.ingress(reply, 'up1'), plan.egress, plan.there, reply],
      ] as const) {
        expect(step).toMatchObject({ outcome: 'ttl_exceeded', verdict: 'redirect' })
        expect(decodeIcmp(step.frame)).toMatchObject({ kind: 'time exceeded', from, to, ttl: 64, rest: 0 })
        expect(decodeIcmp(step.frame)).toMatchObject({ checksum: 'ok', ipChecksum: plan.ip })
        expect(decodeIcmp(step.frame).body).toEqual(about.slice(ETH_LENGTH))
      }
      const next = packet(proto, at(plan.client, 40000), at(plan.vip, 80), { ttl: 2 }, 'A')
      expect(node.ingress(next).packet.ttl).toBe(1)
    })

    test('row 22: a new flow with TTL 1 is none', () => {
      node.services.add({ proto, frontends: [{ at: at(plan.vip, 80) }], backends: [{ at: at(plan.there, 8080) }] })
      for (const ttl of [0, 1]) {
        const step = node.ingress(packet(proto, at(plan.client, 40000), at(plan.vip, 80), { ttl }))
        expect(decodeIcmp(step.frame).kind).toBe('time exceeded')
      }
      expect(node.services.flows()).toEqual([])
    })

    test('row 28: larger than the route: too big with its MTU, with and without DF', () => {
      open(plan.narrow)
      const size = 1280 - plan.header - (proto === 'TCP' ? 20 : 8)
      const send = (payload: Uint8Array) =>
        node.ingress(packet(proto, at(plan.client, 40000), at(plan.vip, 80), { payload }, 'A'))
      expect(send(new Uint8Array(size)).outcome).toBe('forwarded')
      const sent = packet(proto, at(plan.client, 40000), at(plan.vip, 80), { payload: new Uint8Array(size + 1) }, 'A')
      const whole = node.ingress(sent)
      expect(whole).toMatchObject({ outcome: 'too_big', verdict: 'redirect' })
      const wanted = { kind: 'too big', from: plan.node, to: plan.client, rest: 1280, ttl: 64 }
      expect(decodeIcmp(whole.frame)).toMatchObject({ ...wanted, checksum: 'ok', ipChecksum: plan.ip })
      expect(decodeIcmp(whole.frame).body).toEqual(quoteOf(sent, plan))
      if (family === 'IPv4') {
        sent[ETH_LENGTH + 6] = 0
        expect(decodeIcmp(node.ingress(sent).frame)).toMatchObject(wanted)
      }
    })

    test('row 28: a new flow that does not fit is none', () => {
      node.services.add({ proto, frontends: [{ at: at(plan.vip, 80) }], backends: [{ at: at(plan.narrow, 8080) }] })
      const options = { payload: new Uint8Array(1300) }
      const step = node.ingress(packet(proto, at(plan.client, 40000), at(plan.vip, 80), options))
      expect(decodeIcmp(step.frame)).toMatchObject({ kind: 'too big', rest: 1280 })
      expect(node.services.flows()).toEqual([])
    })

    test('row 28: segments that were put together count one by one', () => {
      open(plan.narrow)
      const header = plan.header + (proto === 'TCP' ? 20 : 8)
      const sent = packet(proto, at(plan.client, 40000), at(plan.vip, 80), { payload: new Uint8Array(3000) }, 'A')
      expect(node.ingress(sent, 'up0', { gsoSize: 1280 - header }).outcome).toBe('forwarded')
      const step = node.ingress(sent, 'up0', { gsoSize: 1281 - header })
      expect(step.outcome).toBe('too_big')
      expect(decodeIcmp(step.frame)).toMatchObject({ kind: 'too big', rest: 1280, checksum: 'ok' })
    })

    test('an error that does not fit its route is dropped without an error about it', () => {
      const forward = open(plan.there)
      const back = packet(proto, at(plan.vip, 80), at(plan.client, 40000), {}, 'SA')
      node.services.clear()
      const narrow = open(plan.narrow)
      expect(narrow.packet.from).not.toBe(forward.packet.from)
      const error = icmpError('too big', plan.client, plan.vip, back)
      const large = new Uint8Array(error.length + 1400)
      large.set(error)
      const length = ETH_LENGTH + (family === 'IPv4' ? 2 : 4)
      const view = new DataView(large.buffer)
      view.setUint16(length, view.getUint16(length) + 1400)
      expect(node.ingress(large)).toMatchObject({ outcome: 'too_big', verdict: 'drop' })
    })
  })

  test('row 40: IPv4 options: not in a reset, quoted in an error', () => {
    const ipOptions = new Uint8Array(8).fill(1)
    for (const proto of ['TCP', 'UDP'] as const) {
      node.services.add({ proto, frontends: [{ at: '172.30.0.1:80' }], backends: [] })
      const sent = packet(proto, '203.0.113.7:40000', '172.30.0.1:80', { ipOptions, payload: text })
      const step = node.ingress(sent)
      if (proto === 'TCP') expectReset(step, 'IPv4', sent, text.length)
      else expect(decodeIcmp(step.frame)).toMatchObject({ checksum: 'ok', body: sent.slice(ETH_LENGTH) })
    }
  })
})

describe.skipIf(lacking)('rate of replies', () => {
  test.each([
    { rate: 10, atOnce: 2 },
    { rate: 0, atOnce: 0 },
  ])('$rate a second and CPU: what comes on top is dropped and counted', ({ rate, atOnce }) => {
    const node = new TcNode({ constants: { cfg_reply_rate: Uint8Array.of(rate, 0, 0, 0) } })
    try {
      node.services.add({ proto: 'TCP', frontends: [{ at: '172.30.0.1:80' }], backends: [] })
      const steps = Array.from({ length: 40 }, () => node.ingress(tcp('203.0.113.7:40000', '172.30.0.1:80', 'S')))
      const answered = steps.filter(({ verdict }) => verdict === 'redirect')
      const rest = steps.filter(({ verdict }) => verdict === 'drop')
      // Each CPU has its own, the test may run on any; and time goes by.
      expect(answered.length).toBeGreaterThanOrEqual(atOnce)
      expect(answered.length).toBeLessThan(40)
      if (!rate) expect(answered).toEqual([])
      expect(new Set(rest.map(({ outcome }) => outcome))).toEqual(new Set(['reply_limited']))
    } finally {
      node.close()
    }
  })
})
