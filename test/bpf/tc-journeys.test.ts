import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FlowDirection, FlowFlag, FlowSent, FrontendKind } from '../../src/ebpf/generated/layouts.js'
import type { Protocol } from '../../src/model/desired.js'
import { type PacketOptions, segment, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import type { ServiceHandle, ServiceSpec } from './services.js'
import { FLOW_TABLES, missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const SECOND = 1_000_000_000n

/** The address plan of tc-node.ts, as endpoints. */
const PLAN = {
  IPv4: {
    client: '203.0.113.7',
    other: '203.0.113.8',
    node: '192.168.0.1',
    egress: '192.168.1.1',
    vip: '172.30.0.1',
    here: '10.0.1.5',
    here2: '10.0.1.6',
    there: '10.0.2.5',
    there2: '10.0.2.6',
    ip: 'ok',
  },
  IPv6: {
    client: '[2001:db8:f::7]',
    other: '[2001:db8:f::8]',
    node: '[2001:db8:c0::1]',
    egress: '[2001:db8:c1::1]',
    vip: '[2001:db8:30::1]',
    here: '[2001:db8:a1::5]',
    here2: '[2001:db8:a1::6]',
    there: '[2001:db8:a2::5]',
    there2: '[2001:db8:a2::6]',
    ip: 'absent',
  },
} as const

const CASES = (['IPv4', 'IPv6'] as const).flatMap(family =>
  (['TCP', 'UDP', 'SCTP'] as const).map(proto => ({ family, proto, at: PLAN[family] })),
)

/** The first packet of a flow: a SYN, a datagram or an INIT. */
function first(proto: Protocol, from: string, to: string, options: PacketOptions = {}): Uint8Array {
  return segment(proto, from, to, 'S', options)
}

/** A packet the other way: its receiver answers. */
function answer(step: Step, flags = 'SA', options: PacketOptions = {}): Uint8Array {
  const { proto, from, to } = step.packet
  return segment(proto, to, from, flags, options)
}

/** One more packet with the addresses of `frame`. */
function again(frame: Uint8Array, flags = 'A', options: PacketOptions = {}): Uint8Array {
  const { proto, from, to } = decode(frame)
  return segment(proto, from, to, flags, options)
}

const payload = new TextEncoder().encode('an odd number of bytes.')

describe.skipIf(lacking).each(FLOW_TABLES)('packet journeys, flows in the %s table', flowTable => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode({ flowTable })
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  const add = (spec: ServiceSpec) => node.services.add(spec)

  /** The packet is right but for what NAT changes, and nothing else was touched. */
  function expectIntact(step: Step, sent: Uint8Array, family: 'IPv4' | 'IPv6'): void {
    expect(step.packet.checksums).toEqual({ ip: PLAN[family].ip, transport: 'ok' })
    expect(step.packet.untouched).toBe(decode(sent).untouched)
    expect(step.counted).toBe(sent.length)
  }

  describe.each(CASES)('$family $proto', ({ family, proto, at }) => {
    test('rows 1 and 2: to a backend here, and back', () => {
      add({ proto, frontends: [{ at: `${at.node}:30080` }], backends: [{ at: `${at.here}:8080`, local: true }] })
      const sent = first(proto, `${at.client}:40000`, `${at.node}:30080`, { payload })
      const there = node.ingress(sent)
      expect(there).toMatchObject({ outcome: 'delivered', verdict: 'next' })
      expect(there.packet).toMatchObject({ from: `${at.client}:40000`, to: `${at.here}:8080`, ttl: 64 })
      expectIntact(there, sent, family)

      const reply = answer(there, 'SA', { payload })
      const back = node.egress(reply)
      expect(back).toMatchObject({ outcome: 'replied', verdict: 'next' })
      expect(back.packet).toMatchObject({ from: `${at.node}:30080`, to: `${at.client}:40000`, ttl: 64 })
      expectIntact(back, reply, family)
    })

    test('rows 1 and 2: to a backend on another node, and back', () => {
      add({ proto, frontends: [{ at: `${at.node}:30080` }], backends: [{ at: `${at.there}:8080` }] })
      const sent = first(proto, `${at.client}:40000`, `${at.node}:30080`, { payload })
      const there = node.ingress(sent)
      expect(there).toMatchObject({ outcome: 'forwarded', verdict: 'redirect' })
      expect(there.packet).toMatchObject({ to: `${at.there}:8080`, ttl: 63 })
      expectIntact(there, sent, family)
      const { 1: address, 2: port } = /^(.*):(\d+)$/.exec(there.packet.from) ?? []
      expect(address).toBe(at.egress) // of the device that it leaves by, not of the one dialled
      // SCTP keeps its own where it can.
      if (proto === 'SCTP') expect(port).toBe('40000')
      else expect(Number(port)).toSatisfy((n: number) => (n >= 1024 && n <= 29999) || n >= 61000)

      const reply = answer(there, 'SA', { payload, ttl: 61 })
      const back = node.ingress(reply, 'up1')
      expect(back).toMatchObject({ outcome: 'replied', verdict: 'redirect' })
      expect(back.packet).toMatchObject({ from: `${at.node}:30080`, to: `${at.client}:40000`, ttl: 60 })
      expectIntact(back, reply, family)
    })

    test('a flow keeps its backend, new ones go round', () => {
      add({
        proto,
        frontends: [{ at: `${at.vip}:80` }],
        backends: [
          { at: `${at.here}:8080`, local: true },
          { at: `${at.here2}:8080`, local: true },
        ],
      })
      const sent = first(proto, `${at.client}:40000`, `${at.vip}:80`)
      const chosen = node.ingress(sent).packet.to
      for (const flags of ['S', 'A', 'PA', 'A']) expect(node.ingress(again(sent, flags)).packet.to).toBe(chosen)
      const next = (port: number) => node.ingress(first(proto, `${at.client}:${port}`, `${at.vip}:80`)).packet.to
      // Each CPU goes round by itself, and the test may run on any.
      let port = 40001
      while (next(port) === chosen) expect(port++).toBeLessThan(40064)
    })

    test('the flow table holds both halves, each leading to the other', () => {
      const service = add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [{ at: `${at.there}:8080` }] })
      const there = node.ingress(first(proto, `${at.client}:40000`, `${at.vip}:80`))
      const [forward, reply] = node.services.flows()
      const { from, to } = there.packet
      expect(forward).toMatchObject({ key: `${at.client}:40000 > ${at.vip}:80`, to: `${from} > ${to}` })
      expect(reply).toMatchObject({ key: `${to} > ${from}`, to: `${at.vip}:80 > ${at.client}:40000` })
      const facts = { backend: service.backends[0], service: service.index, flags: FlowFlag.SNAT }
      expect(forward?.flow).toMatchObject({ ...facts, direction: FlowDirection.FORWARD, sent: FlowSent.SENT, heard: 0 })
      expect(reply?.flow).toMatchObject({ ...facts, direction: FlowDirection.REPLY, sent: 0, heard: FlowSent.SENT })
    })

    test('row 34: two clients with one source port reach one backend from two ports', () => {
      add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [{ at: `${at.there}:8080` }] })
      const [a, b] = [at.client, at.other].map(client => node.ingress(first(proto, `${client}:40000`, `${at.vip}:80`)))
      if (!a || !b) throw new Error('two steps')
      expect(a.packet.from).not.toBe(b.packet.from)
      expect(node.ingress(answer(a), 'up1').packet.to).toBe(`${at.client}:40000`)
      expect(node.ingress(answer(b), 'up1').packet.to).toBe(`${at.other}:40000`)
    })

    test('one client port, two frontends, one backend here: told apart by the port', () => {
      const backends = [{ at: `${at.here}:8080`, local: true }]
      add({ proto, frontends: [{ at: `${at.node}:30080` }, { at: `${at.vip}:80` }], backends })
      const a = node.ingress(first(proto, `${at.client}:40000`, `${at.node}:30080`))
      const b = node.ingress(first(proto, `${at.client}:40000`, `${at.vip}:80`))
      expect(a.packet.from).toBe(`${at.client}:40000`)
      expect(b.packet.from).not.toBe(a.packet.from)
      expect(b.packet.from.startsWith(`${at.client}:`)).toBe(true)
      expect(node.egress(answer(a)).packet).toMatchObject({ from: `${at.node}:30080`, to: `${at.client}:40000` })
      expect(node.egress(answer(b)).packet).toMatchObject({ from: `${at.vip}:80`, to: `${at.client}:40000` })
    })

    test('affinity: another connection of a client goes where the first went, even to another frontend', () => {
      const backends = [
        { at: `${at.here}:8080`, local: true },
        { at: `${at.here2}:8080`, local: true },
      ] as const
      const frontends = [{ at: `${at.vip}:80` }, { at: `${at.node}:30080` }]
      const service = add({ proto, frontends, backends, affinityS: 10 })
      const chosen = node.ingress(first(proto, `${at.client}:40000`, `${at.vip}:80`)).packet.to
      for (const port of [40001, 40002, 40003]) {
        expect(node.ingress(first(proto, `${at.client}:${port}`, `${at.node}:30080`)).packet.to).toBe(chosen)
      }
      const index = chosen === backends[0].at ? 0 : 1
      node.services.removeBackend(service, service.backends[index] ?? 0)
      expect(node.ingress(first(proto, `${at.client}:40009`, `${at.vip}:80`)).packet.to).toBe(backends[1 - index]?.at)
    })

    test('externalTrafficPolicy Local: only backends here, with the client address', () => {
      const backends = [{ at: `${at.there}:8080` }, { at: `${at.here}:8080`, local: true }]
      add({ proto, frontends: [{ at: `${at.node}:30080` }], backends, externalLocal: true })
      for (const port of [40000, 40001, 40002]) {
        const step = node.ingress(first(proto, `${at.client}:${port}`, `${at.node}:30080`))
        expect(step.packet).toMatchObject({ from: `${at.client}:${port}`, to: `${at.here}:8080` })
      }
    })

    test.each([
      { name: 'internal policy binds the cluster IP', kind: FrontendKind.CLUSTER_IP, internalLocal: true, bound: true },
      { name: 'external policy does not', kind: FrontendKind.CLUSTER_IP, externalLocal: true, bound: false },
      { name: 'external policy binds external IPs', kind: FrontendKind.EXTERNAL_IP, externalLocal: true, bound: true },
      { name: 'internal policy does not', kind: FrontendKind.LOAD_BALANCER, internalLocal: true, bound: false },
    ])('$name', ({ kind, internalLocal, externalLocal, bound }) => {
      add({
        proto,
        frontends: [{ at: `${at.vip}:80`, kind }],
        backends: [{ at: `${at.there}:8080` }],
        internalLocal: internalLocal ?? false,
        externalLocal: externalLocal ?? false,
      })
      const step = node.ingress(first(proto, `${at.client}:40000`, `${at.vip}:80`))
      expect(step.outcome).toBe(bound ? 'no_local_backend' : 'forwarded')
    })

    test('replies pass on their own side only', () => {
      add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [{ at: `${at.here}:8080`, local: true }] })
      add({ proto, frontends: [{ at: `${at.vip}:81` }], backends: [{ at: `${at.there}:8080` }] })
      for (const port of [80, 81]) {
        const there = node.ingress(first(proto, `${at.client}:40000`, `${at.vip}:${port}`))
        const reply = answer(there, 'RA')
        const wrong = port === 80 ? node.ingress(reply) : node.egress(reply, 'up1')
        expect(wrong).toMatchObject({ outcome: 'not_service', verdict: 'next', frame: reply })
        if (there.by === 'xdp') continue // sent by the device itself, past its egress
        const forwarded = node.egress(there.frame, 'up1', { sign: there.sign }) // our own packet on its way out
        expect(forwarded).toMatchObject({ outcome: 'not_service', verdict: 'next', frame: there.frame })
      }
      expect(node.services.flows().map(each => each.flow.sent)).toEqual([FlowSent.SENT, FlowSent.SENT, 0, 0])
    })

    if (flowTable === 'hash')
      test('a half whose other half is missing counts as no state', () => {
        add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [{ at: `${at.there}:8080` }] })
        const sent = first(proto, `${at.client}:40000`, `${at.vip}:80`)
        const there = node.ingress(sent)
        node.services.deleteHalves(FlowDirection.FORWARD)
        const reply = node.ingress(answer(there), 'up1')
        expect(reply).toMatchObject({ outcome: 'not_service', verdict: 'next' })
        expect(node.services.flows()).toEqual([])

        node.ingress(sent)
        node.services.deleteHalves(FlowDirection.REPLY)
        node.services.ageFlows(SECOND)
        const next = node.ingress(again(sent))
        expect(next.outcome).toBe(proto === 'UDP' ? 'forwarded' : 'unknown_flow')
        expect(node.services.flows()).toHaveLength(proto === 'UDP' ? 2 : 0)
      })

    test('the time is written once a second', () => {
      add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [{ at: `${at.there}:8080` }] })
      const sent = first(proto, `${at.client}:40000`, `${at.vip}:80`)
      const there = node.ingress(sent)
      const seen = () => node.services.flows().map(each => each.flow.seenNs)
      // Just seen, for as long as this test may take.
      node.services.ageFlows(-60n * SECOND)
      const opened = seen()
      node.ingress(again(sent))
      expect(seen()).toEqual(opened)
      node.services.ageFlows(62n * SECOND)
      const [forward, reply] = seen()
      node.ingress(again(sent))
      expect(seen()[0]).toBeGreaterThan((forward ?? 0n) + SECOND)
      // In the hash map each half has its own.
      if (flowTable === 'hash') expect(seen()[1]).toBe(reply)
      node.ingress(answer(there), 'up1')
      expect(seen()[1]).toBeGreaterThan((reply ?? 0n) + SECOND)
    })
  })

  describe.each(['IPv4', 'IPv6'] as const)('TCP %s', family => {
    const at = PLAN[family]
    const client = `${at.client}:40000`
    /** Leaves a service the backend that a flow does not have, so that a new choice shows. */
    function moveOn(service: ServiceHandle, step: Step): void {
      node.services.setList(service, [service.backends[step.packet.to === `${at.there}:8080` ? 1 : 0] ?? 0])
    }

    const twoRemote = { proto: 'TCP', backends: [{ at: `${at.there}:8080` }, { at: `${at.there2}:8080` }] } as const

    test.each(['FA', 'R', 'RA'])('row 4: after %s from the client a SYN chooses again', flags => {
      const service = add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
      const syn = tcp(client, `${at.vip}:80`, 'S')
      const before = node.ingress(syn)
      moveOn(service, before)
      node.ingress(answer(before), 'up1')
      expect(node.ingress(again(syn, flags)).packet.to).toBe(before.packet.to)
      const after = node.ingress(syn)
      expect(after.packet.to).not.toBe(before.packet.to)
      expect(node.services.flows()).toHaveLength(2)
      expect(node.services.flows()[0]?.flow.sent).toBe(FlowSent.SENT)
    })

    test.each(['FA', 'RA'])('row 4: after %s from the backend, too', flags => {
      const service = add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
      const syn = tcp(client, `${at.vip}:80`, 'S')
      const before = node.ingress(syn)
      moveOn(service, before)
      node.ingress(answer(before), 'up1')
      node.ingress(answer(before, flags), 'up1')
      expect(node.ingress(syn).packet.to).not.toBe(before.packet.to)
    })

    test.each(['A', 'FA'])(
      'row 4: a backend that answers the SYN with %s holds an old connection: the next SYN stays',
      flags => {
        const service = add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
        const syn = tcp(client, `${at.vip}:80`, 'S')
        const before = node.ingress(syn)
        moveOn(service, before)
        node.ingress(answer(before, flags), 'up1')
        expect(node.ingress(again(syn, 'R')).packet).toMatchObject({ from: before.packet.from, to: before.packet.to })
        expect(node.ingress(syn).packet).toMatchObject({ from: before.packet.from, to: before.packet.to })
        node.ingress(answer(before), 'up1')
        const forward = node.services.flows().find(each => each.flow.direction === FlowDirection.FORWARD)
        expect(forward?.flow.heard).toBe(FlowSent.SENT)
      },
    )

    test('row 4: a backend that refuses ends the flow: the next SYN chooses again', () => {
      const service = add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
      const syn = tcp(client, `${at.vip}:80`, 'S')
      const before = node.ingress(syn)
      moveOn(service, before)
      node.ingress(answer(before, 'RA'), 'up1')
      expect(node.ingress(syn).packet.to).not.toBe(before.packet.to)
    })

    test('rows 2 and 5: a repeated SYN, and one on an established connection, stay where they are', () => {
      const service = add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
      const syn = tcp(client, `${at.vip}:80`, 'S')
      const before = node.ingress(syn)
      moveOn(service, before)
      expect(node.ingress(syn).packet).toMatchObject({ to: before.packet.to, from: before.packet.from })
      node.ingress(answer(before), 'up1')
      expect(node.ingress(syn).packet).toMatchObject({ to: before.packet.to, from: before.packet.from })
    })

    test('a connection to a removed backend goes on, a new SYN leaves it', () => {
      const service = add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
      const syn = tcp(client, `${at.vip}:80`, 'S')
      const before = node.ingress(syn)
      node.ingress(answer(before), 'up1')
      const index = before.packet.to === `${at.there}:8080` ? 0 : 1
      node.services.removeBackend(service, service.backends[index] ?? 0)
      expect(node.ingress(again(syn, 'PA', { payload })).packet.to).toBe(before.packet.to)
      expect(node.ingress(answer(before, 'PA', { payload }), 'up1').outcome).toBe('replied')
      expect(node.ingress(syn).packet.to).not.toBe(before.packet.to)
    })

    test.each(['A', 'SA', 'FA', 'R', 'PA', ''])('row 6: without a flow %s goes to the stack untouched', flags => {
      add({ ...twoRemote, frontends: [{ at: `${at.vip}:80` }] })
      const frame = tcp(client, `${at.vip}:80`, flags)
      expect(node.ingress(frame)).toMatchObject({ outcome: 'unknown_flow', verdict: 'next', frame })
      expect(node.services.flows()).toEqual([])
    })
  })

  describe.each(['IPv4', 'IPv6'] as const)('UDP %s', family => {
    const at = PLAN[family]

    test('row 41: a datagram of a flow to a removed backend goes to another, from the same client port', () => {
      const service = add({
        proto: 'UDP',
        frontends: [{ at: `${at.vip}:53` }],
        backends: [{ at: `${at.there}:5353` }, { at: `${at.here}:5353`, local: true }],
      })
      const sent = udp(`${at.client}:40000`, `${at.vip}:53`)
      const before = node.ingress(sent)
      const index = before.packet.to === `${at.there}:5353` ? 0 : 1
      node.services.removeBackend(service, service.backends[index] ?? 0)
      const after = node.ingress(sent)
      expect(after.packet.to).not.toBe(before.packet.to)
      expect(node.services.flows()).toHaveLength(2)
      const back = index === 0 ? node.egress(answer(after)) : node.ingress(answer(after), 'up1')
      expect(back.packet).toMatchObject({ from: `${at.vip}:53`, to: `${at.client}:40000` })
      expect(node.ingress(answer(before), 'up1').outcome).toBe('not_service')
    })

    test('row 41: the last backend gone: refused, and no flow remains', () => {
      const service = add({ proto: 'UDP', frontends: [{ at: `${at.vip}:53` }], backends: [{ at: `${at.there}:5353` }] })
      const sent = udp(`${at.client}:40000`, `${at.vip}:53`)
      node.ingress(sent)
      node.services.removeBackend(service, service.backends[0] ?? 0)
      expect(node.ingress(sent)).toMatchObject({ outcome: 'no_backend', verdict: 'redirect' })
      expect(node.services.flows()).toEqual([])
    })

    test('rows 23 and 25: no checksum stays none where there may be none; a wrong one stays wrong', () => {
      add({ proto: 'UDP', frontends: [{ at: `${at.vip}:53` }], backends: [{ at: `${at.there}:5353` }] })
      const send = (checksum: 'zero' | 'wrong') =>
        node.ingress(udp(`${at.client}:40000`, `${at.vip}:53`, { checksum })).packet.checksums
      if (family === 'IPv4') expect(send('zero')).toEqual({ ip: at.ip, transport: 'none' })
      expect(send('wrong')).toEqual({ ip: at.ip, transport: 'wrong' })
    })
  })

  test('row 24: a UDP checksum that comes out as zero is sent as 0xffff', () => {
    add({ proto: 'UDP', frontends: [{ at: '172.30.0.1:53' }], backends: [{ at: '10.0.1.5:5353', local: true }] })
    const sent = (word: number) =>
      udp('203.0.113.7:40000', '172.30.0.1:53', { payload: Uint8Array.of(word >> 8, word & 0xff) })
    // The payload word that makes the sum after translation all ones: found from the packet with word 0.
    const word = node.ingress(sent(0)).packet.transportChecksum
    const step = node.ingress(sent(word))
    expect(step.packet.transportChecksum).toBe(0xffff)
    expect(step.packet.checksums.transport).toBe('ok')
  })

  test.each([4, 12, 40])('row 10: IPv4 with %i bytes of options', length => {
    add({ proto: 'TCP', frontends: [{ at: '192.168.0.1:30080' }], backends: [{ at: '10.0.2.5:8080' }] })
    const ipOptions = new Uint8Array(length).fill(1)
    const sent = tcp('203.0.113.7:40000', '192.168.0.1:30080', 'S', { ipOptions, payload })
    const there = node.ingress(sent)
    expect(there.outcome).toBe('forwarded')
    expect(there.packet).toMatchObject({ to: '10.0.2.5:8080', ipOptions })
    expectIntact(there, sent, 'IPv4')
    const reply = answer(there, 'SA', { ipOptions })
    const back = node.ingress(reply, 'up1')
    expect(back.packet).toMatchObject({ from: '192.168.0.1:30080', ipOptions })
    expectIntact(back, reply, 'IPv4')
  })

  test('the first fragment is translated, its checksum (of the whole datagram) updated', () => {
    add({ proto: 'UDP', frontends: [{ at: '172.30.0.1:53' }], backends: [{ at: '10.0.1.5:5353', local: true }] })
    const sent = udp('203.0.113.7:40000', '172.30.0.1:53', { payload, fragment: { offset: 0, more: true } })
    expect(node.ingress(sent).packet).toMatchObject({ to: '10.0.1.5:5353', checksums: { ip: 'ok', transport: 'ok' } })
  })

  test('a wrong IPv4 header checksum stays wrong', () => {
    add({ proto: 'TCP', frontends: [{ at: '192.168.0.1:30080' }], backends: [{ at: '10.0.2.5:8080' }] })
    const sent = tcp('203.0.113.7:40000', '192.168.0.1:30080', 'S')
    sent[24] = (sent[24] ?? 0) ^ 1
    expect(node.ingress(sent).packet.checksums).toEqual({ ip: 'wrong', transport: 'ok' })
  })

  test('Ethernet padding is kept and not counted into the packet', () => {
    add({ proto: 'UDP', frontends: [{ at: '172.30.0.1:53' }], backends: [{ at: '10.0.1.5:5353', local: true }] })
    const sent = new Uint8Array(60).fill(0xee)
    sent.set(udp('203.0.113.7:40000', '172.30.0.1:53'))
    const step = node.ingress(sent)
    expect(step.packet.checksums).toEqual({ ip: 'ok', transport: 'ok' })
    expect(step.frame.subarray(42)).toEqual(new Uint8Array(18).fill(0xee))
  })
})
