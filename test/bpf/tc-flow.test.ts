import { afterEach, describe, expect, test } from 'vitest'
import { type FlowTimeouts, stateOf, sweepFlows, timeoutOf } from '../../src/dataplane/ebpf/flow-expiry.js'
import { FlowDirection, FlowState, flowStateNames } from '../../src/ebpf/generated/layouts.js'
import { PROTO_TCP, PROTO_UDP, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { FLOW_TABLES, missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const SECOND = 1_000_000_000n

/** What the objects have when no loader sets it. */
const TIMEOUTS: FlowTimeouts = {
  tcpEstablishedSeconds: 7440,
  tcpTransitorySeconds: 240,
  tcpClosedSeconds: 10,
  udpSeconds: 120,
  udpStreamSeconds: 300,
}

const AT = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', there: '10.0.2.5', here: '10.0.1.5' },
  IPv6: {
    client: '[2001:db8:f::7]',
    vip: '[2001:db8:30::1]',
    there: '[2001:db8:a2::5]',
    here: '[2001:db8:a1::5]',
  },
} as const

type Family = keyof typeof AT
const FLOODS = (['IPv4', 'IPv6'] as const).flatMap(family =>
  (['TCP', 'UDP'] as const).map(proto => ({ family, proto })),
)
type Place = 'there' | 'here'

describe.skipIf(lacking).each(FLOW_TABLES)('flows in the %s table', flowTable => {
  let node: TcNode | undefined

  afterEach(() => {
    node?.close()
    node = undefined
  })

  function start(flows: number, family: Family, place: Place = 'there'): Conversations {
    node = new TcNode({ flows, flowTable })
    for (const proto of ['TCP', 'UDP'] as const) {
      const backend = { at: `${AT[family][place]}:8080`, local: place === 'here' }
      node.services.add({ proto, frontends: [{ at: `${AT[family].vip}:80` }], backends: [backend] })
    }
    return new Conversations(node, family, place)
  }

  describe.each(['IPv4', 'IPv6'] as const)('TCP %s', family => {
    /** `>` is the client's, `<` the backend's. */
    const STATES: { what: string; says: string[]; state: FlowState }[] = [
      { what: 'a SYN alone', says: ['>S'], state: FlowState.OPENING },
      { what: 'answered, which a forged source is, too', says: ['>S', '<SA', '>S', '<SA'], state: FlowState.OPENING },
      { what: 'the client went on', says: ['>S', '<SA', '>A'], state: FlowState.ESTABLISHED },
      { what: 'the backend alone went on', says: ['>S', '<SA', '<PA'], state: FlowState.OPENING },
      { what: 'a SYN in the middle', says: ['>S', '<SA', '>A', '>S', '<A'], state: FlowState.ESTABLISHED },
      { what: 'a reset, obeyed', says: ['>S', '<SA', '>A', '>R', '<A', '>R'], state: FlowState.CLOSED },
      {
        what: 'a reset, and its sender goes on',
        says: ['>S', '<SA', '>A', '>R', '>PA'],
        state: FlowState.ESTABLISHED,
      },
      { what: 'the same of the backend', says: ['>S', '<SA', '>A', '<RA', '<PA'], state: FlowState.ESTABLISHED },
      { what: 'a refusal', says: ['>S', '<RA'], state: FlowState.CLOSED },
      { what: 'FIN of the client', says: ['>S', '<SA', '>A', '>FA', '<A', '<PA'], state: FlowState.HALF_CLOSED },
      { what: 'FIN of the backend', says: ['>S', '<SA', '>A', '<FA', '>A'], state: FlowState.HALF_CLOSED },
      { what: 'FIN of both', says: ['>S', '<SA', '>A', '>FA', '<FA', '>A'], state: FlowState.CLOSED },
    ]
    test.each(STATES)('rows 1, 2, 5, 7 and 8: the state of a flow, $what', ({ says, state }) => {
      const talk = start(8, family)
      for (const each of says) talk.tcp(40000, each)
      expect(flowStateNames[talk.state(40000)]).toBe(flowStateNames[state])
      expect(node?.services.flows()).toHaveLength(2)
    })

    test('row 7: data goes on to the same backend after a reset, for as long as it comes', () => {
      const talk = start(8, family)
      for (const each of ['>S', '<SA', '>A', '<R']) talk.tcp(40000, each)
      const to = talk.tcp(40000, '>PA').packet.to
      expect(to).toBe(`${AT[family].there}:8080`)
      expect(talk.tcp(40000, '<A').outcome).toBe('replied')
      expect(talk.state(40000)).toBe(FlowState.ESTABLISHED)
    })

    test('row 9: silent for 2 h 3 min, then data, and other flows came meanwhile', () => {
      const talk = start(8, family)
      for (const each of ['>S', '<SA', '>A']) talk.tcp(40000, each)
      node?.services.ageFlows(7390n * SECOND)
      for (let port = 50000; port < 50030; port++) talk.tcp(port, '>S')
      expect(talk.tcp(40000, '>PA')).toMatchObject({ outcome: 'forwarded' })
      expect(talk.tcp(40000, '<A')).toMatchObject({ outcome: 'replied' })
    })
  })

  describe.each(['there', 'here'] as const)('the backend is %s', place => {
    test('UDP: confirmed by what the client sends after a reply', () => {
      const talk = start(8, 'IPv4', place)
      const states: string[] = []
      for (const way of ['>', '>', '<', '<', '>', '<'] as const) {
        talk.udp(40000, way)
        states.push(flowStateNames[talk.state(40000)] ?? '')
      }
      expect(states).toEqual(['opening', 'opening', 'opening', 'opening', 'established', 'established'])
    })

    test.each([
      { proto: 'TCP', says: ['>S'] },
      { proto: 'TCP', says: ['>S', '<SA', '>A'] },
      { proto: 'TCP', says: ['>S', '<SA', '>A', '>FA'] },
      { proto: 'TCP', says: ['>S', '<SA', '>A', '>FA', '<FA', '>A'] },
      { proto: 'UDP', says: ['>'] },
      { proto: 'UDP', says: ['>', '<', '>'] },
    ] as const)('$proto $says: the programs end it when the agent would', ({ proto, says }) => {
      const talk = start(1, 'IPv4', place)
      for (const each of says) proto === 'TCP' ? talk.tcp(40000, each) : talk.udp(40000, each as '>')
      const [opened] = node?.services.flows() ?? []
      if (!opened) throw new Error('no flow')
      const state = stateOf(opened.flow)
      const timeout = timeoutOf(proto === 'TCP' ? PROTO_TCP : PROTO_UDP, state, TIMEOUTS)
      const yields = state === FlowState.OPENING || state === FlowState.CLOSED
      // The one slot is asked for by another flow.
      node?.services.ageFlows(BigInt(timeout - 5) * SECOND)
      const evicted = talk.evicted()
      const early = talk.udp(50000, '>').outcome
      expect(early).toBe(yields ? (place === 'here' ? 'delivered' : 'forwarded') : 'flows_full')
      expect(talk.evicted() - evicted).toBe(yields ? 1 : 0)
      if (yields) return
      node?.services.ageFlows(6n * SECOND)
      expect(talk.udp(50000, '>').outcome).toBe(place === 'here' ? 'delivered' : 'forwarded')
      expect(talk.evicted()).toBe(evicted)
    })
  })

  test('a reply keeps a flow whose client is silent', () => {
    const talk = start(1, 'IPv4')
    for (const each of ['>S', '<SA', '>A']) talk.tcp(40000, each)
    node?.services.ageFlows(7500n * SECOND)
    talk.tcp(40000, '<PA')
    expect(talk.udp(50000, '>').outcome).toBe('flows_full')
  })

  test('a datagram flow to a removed backend makes room, once its last answers must have come', () => {
    node = new TcNode({ flows: 1 })
    const frontends = [{ at: '172.30.0.1:80' }]
    const service = node.services.add({
      proto: 'UDP',
      frontends,
      backends: [{ at: '10.0.2.5:8080' }, { at: '10.0.2.6:8080' }],
    })
    const talk = new Conversations(node, 'IPv4', 'there')
    for (const way of ['>', '<', '>'] as const) talk.udp(40000, way)
    expect(talk.udp(50000, '>').outcome).toBe('flows_full')
    const [flow] = node.services.flows()
    node.services.removeBackend(service, flow?.flow.backend ?? 0)
    expect(talk.udp(50000, '>').outcome).toBe('flows_full')
    expect(talk.udp(40000, '<').outcome).toBe('replied')
    node.services.ageFlows(7n * SECOND)
    expect(talk.udp(50000, '>').outcome).toBe('forwarded')
  })

  test('a datagram after longer silence than a flow may have opens another one, an ACK does not', () => {
    node = new TcNode({ flows: 8 })
    for (const proto of ['TCP', 'UDP'] as const) {
      const backends = [{ at: '10.0.2.5:8080' }, { at: '10.0.2.6:8080' }]
      node.services.add({ proto, frontends: [{ at: '172.30.0.1:80' }], backends })
    }
    const talk = new Conversations(node, 'IPv4', 'there')
    const backendsOf = (silence: bigint, speak: () => Step) =>
      new Set(
        Array.from({ length: 24 }, () => {
          node?.services.ageFlows(silence * SECOND)
          return speak().packet.to
        }),
      ).size
    for (const each of ['>S', '<SA', '>A']) talk.tcp(40000, each)
    expect(backendsOf(7500n, () => talk.tcp(40000, '>PA'))).toBe(1)
    for (const way of ['>', '<', '>'] as const) talk.udp(40000, way)
    expect(backendsOf(290n, () => talk.udp(40000, '>'))).toBe(1)
    expect(backendsOf(310n, () => talk.udp(40000, '>'))).toBe(2)
    expect(backendsOf(250n, () => talk.tcp(50000, '>S'))).toBe(2)
  })

  test('a source port of a flow whose time is over is free', () => {
    node = new TcNode({ flows: 64, snatPorts: [2000, 2003] })
    node.services.add({
      proto: 'TCP',
      frontends: [{ at: '172.30.0.1:80' }],
      backends: [{ at: '10.0.2.5:8080' }],
    })
    const talk = new Conversations(node, 'IPv4', 'there')
    for (let i = 0; i < 4; i++) for (const each of ['>S', '<SA', '>A', '>R']) talk.tcp(40000 + i, each)
    expect(talk.tcp(50000, '>S').outcome).toBe('snat_exhausted')
    node.services.ageFlows(11n * SECOND)
    for (let i = 0; i < 4; i++) expect(talk.tcp(50000 + i, '>S').outcome).toBe('forwarded')
    expect(talk.tcp(50004, '>S').outcome).toBe('snat_exhausted')
  })

  test('row 43: in a full table a handshake has time for as many others as a quarter of it', () => {
    const flows = 64
    const talk = start(flows, 'IPv4')
    for (let i = 0; i < 20 * flows; i++) {
      talk.node.passThrough(tcp(`203.0.113.7:${10000 + i}`, '172.30.0.1:80', 'S'))
      const before = 10000 + i - flows / 4 + 1
      if (before >= 10000 && !talk.has(before)) throw new Error(`${i}: the flow of port ${before} is gone`)
    }
    expect(talk.evicted()).toBeGreaterThan(10 * flows)
  })

  test('the sweep ends flows whose time is over, and no others', () => {
    const flows = 256
    const talk = start(flows, 'IPv4')
    const sweep = talk.node.beside('flows.bpf.o', 'flow_sweep')
    for (let i = 0; i < 100; i++) for (const each of ['>S', '<SA', '>A']) talk.tcp(10000 + i, each)
    for (let i = 50; i < 100; i++) talk.tcp(10000 + i, i % 2 ? '>R' : '<R')
    sweepFlows(sweep, flows, 1)
    expect(talk.node.services.flows()).toHaveLength(2 * 100)
    talk.node.services.ageFlows(11n * SECOND)
    sweepFlows(sweep, flows, 0.25)
    const left = talk.node.services.flows().length / 2
    expect(left).toBeLessThan(100)
    expect(left).toBeGreaterThan(50)
    sweepFlows(sweep, flows, 0.75)
    expect(talk.node.services.flows()).toHaveLength(2 * 50)
    for (let i = 0; i < 50; i++) expect(talk.tcp(10000 + i, '>PA').outcome).toBe('forwarded')
    expect(talk.evicted()).toBe(0)
  })

  describe('without an agent', () => {
    test('three times as many connections as the table holds, one after the other: each gets through', () => {
      const flows = 256
      const { node } = start(flows, 'IPv4')
      for (let i = 0; i < 3 * flows; i++) {
        const [from, to] = [`203.0.113.7:${10000 + i}`, '172.30.0.1:80']
        for (const [there, back] of [
          ['S', 'SA'],
          ['A', 'PA'],
          ['FA', 'FA'],
        ] as const) {
          const { verdict, frame } = node.passThrough(tcp(from, to, there))
          expect(verdict).toBe('redirect')
          const seen = decode(frame)
          expect(node.passThrough(tcp(seen.to, seen.from, back), 'up1').verdict).toBe('redirect')
        }
      }
      expect(node.services.flows().length).toBeLessThanOrEqual(2 * flows)
    })

    test('open connections and datagram exchanges survive them, and a table full of them refuses new ones', () => {
      const flows = 64
      const talk = start(flows, 'IPv4')
      for (let i = 0; i < flows; i++) for (const each of ['>S', '<SA', '>A']) talk.tcp(10000 + i, each)
      expect(talk.tcp(20000, '>S')).toMatchObject({ outcome: 'flows_full', verdict: 'drop' })
      expect(talk.udp(20000, '>')).toMatchObject({ outcome: 'flows_full', verdict: 'drop' })
      for (let i = 0; i < flows; i++) expect(talk.tcp(10000 + i, '>PA').outcome).toBe('forwarded')
      expect(node?.services.flows()).toHaveLength(2 * flows)
      // One of them ends: its place is found whichever it is.
      talk.tcp(10000 + 17, '>R')
      const tries = Array.from({ length: 4 }, () => talk.tcp(20001, '>S').outcome)
      expect(tries).toContain('forwarded')
    })

    test.each(FLOODS)(
      'rows 43 and 44: a flood of $proto over $family from forged sources, three times the table',
      ({ proto, family }) => {
        const flows = 512
        const kept = 300
        const talk = start(flows, family)
        for (let i = 0; i < kept; i++) {
          for (const each of ['>S', '<SA', '>A']) talk.tcp(10000 + i, each)
        }
        let refused = 0
        for (let i = 0; i < 3 * flows; i++) {
          const from = family === 'IPv4' ? `198.18.${i >> 8}.${i & 255}:1234` : `[2001:db8:bad::${i + 1}]:1234`
          const to = `${AT[family].vip}:80`
          const sent = proto === 'TCP' ? tcp(from, to, 'S') : udp(from, to)
          const { verdict, frame } = talk.node.passThrough(sent)
          if (verdict !== 'redirect') refused++
          // Backends answer what is forged like anything else.
          else if (i % 2 === 0) {
            const seen = decode(frame)
            const reply = proto === 'TCP' ? tcp(seen.to, seen.from, 'SA') : udp(seen.to, seen.from)
            expect(talk.node.passThrough(reply, 'up1').verdict).toBe('redirect')
          }
          // A client that means it, in the middle of the flood.
          if (i % 64 === 63) {
            for (const each of ['>S', '<SA', '>A', '>FA', '<FA']) {
              expect(talk.tcp(30000 + i, each).outcome).toBe(each[0] === '>' ? 'forwarded' : 'replied')
            }
          }
        }
        expect(refused).toBe(0)
        for (let i = 0; i < kept; i++) {
          expect(talk.tcp(10000 + i, '>PA').outcome).toBe('forwarded')
          expect(talk.tcp(10000 + i, '<A').outcome).toBe('replied')
        }
        expect(talk.evicted()).toBeGreaterThan(flows)
      },
    )

    test.each(['IPv4', 'IPv6'] as const)(
      'row 45: 800 connections from eight ports over %s: each whole, and the table holds eight',
      family => {
        const { node } = start(16, family)
        node.services.clear()
        const { client, vip } = AT[family]
        const backends = [5, 6, 7].map(n => ({ at: `${AT[family].there.replace(/5(?=\]?$)/, String(n))}:8080` }))
        node.services.add({ proto: 'TCP', frontends: [{ at: `${vip}:80` }], backends })
        const used = new Set<string>()
        for (let i = 0; i < 800; i++) {
          const from = `${client}:${10000 + (i % 8)}`
          let seen: { from: string; to: string } | undefined
          for (const [there, back] of [
            ['S', 'SA'],
            ['A', 'PA'],
            ['FA', 'FA'],
          ] as const) {
            const { verdict, frame } = node.passThrough(tcp(from, `${vip}:80`, there))
            expect(verdict).toBe('redirect')
            const { from: source, to } = decode(frame)
            seen ??= { from: source, to }
            expect({ from: source, to }).toEqual(seen)
            const answer = node.passThrough(tcp(to, source, back), 'up1')
            expect(decode(answer.frame)).toMatchObject({ from: `${vip}:80`, to: from })
          }
          used.add(seen?.to ?? '')
        }
        expect(used.size).toBe(3)
        expect(node.services.flows()).toHaveLength(16)
        expect(node.flowStats().evicted).toBe(0)
      },
    )

    test('row 45: one port used again and again holds one place', () => {
      const talk = start(4, 'IPv4')
      for (let i = 0; i < 3; i++) for (const each of ['>S', '<SA', '>A']) talk.tcp(10000 + i, each)
      for (let i = 0; i < 20; i++) {
        for (const each of ['>S', '<SA', '>A', '>R']) talk.tcp(20000, each)
      }
      expect(node?.services.flows().filter(each => each.flow.direction === FlowDirection.FORWARD)).toHaveLength(4)
      for (let i = 0; i < 3; i++) expect(talk.tcp(10000 + i, '>PA').outcome).toBe('forwarded')
    })
  })
})

/** Clients that are told apart by their port, and the one backend that answers them. */
class Conversations {
  readonly node: TcNode
  readonly #family: Family
  readonly #place: Place
  /** By protocol and client port: what the backend saw, to answer to. */
  readonly #seen = new Map<string, { from: string; to: string }>()

  constructor(node: TcNode, family: Family, place: Place) {
    this.node = node
    this.#family = family
    this.#place = place
  }

  /** `>S` is a SYN of the client, `<FA` a FIN of the backend. */
  tcp(port: number, what: string): Step {
    const flags = what.slice(1)
    return this.#say(`TCP ${port}`, port, what[0] === '>', (from, to) => tcp(from, to, flags))
  }

  udp(port: number, way: '>' | '<'): Step {
    return this.#say(`UDP ${port}`, port, way === '>', (from, to) => udp(from, to))
  }

  /** The state of the flow of a client port. */
  state(port: number): FlowState {
    const { client, vip } = AT[this.#family]
    const key = `${client}:${port} > ${vip}:80`
    const found = this.node.services.flows().find(each => each.key === key)
    if (!found) throw new Error(`no flow ${key}`)
    return stateOf(found.flow)
  }

  /** Whether a client port has a flow. */
  has(port: number): boolean {
    const { client, vip } = AT[this.#family]
    const key = `${client}:${port} > ${vip}:80`
    return this.node.services.flows().some(each => each.key === key)
  }

  /** Flows that had to go before their time, of all. */
  evicted(): number {
    return this.node.flowStats().evicted
  }

  #say(name: string, port: number, client: boolean, make: (from: string, to: string) => Uint8Array): Step {
    if (client) {
      const step = this.node.ingress(make(`${AT[this.#family].client}:${port}`, `${AT[this.#family].vip}:80`))
      if (step.verdict !== 'drop') this.#seen.set(name, step.packet)
      return step
    }
    const seen = this.#seen.get(name)
    if (!seen) throw new Error(`${name} sent nothing`)
    const reply = make(seen.to, seen.from)
    return this.#place === 'here' ? this.node.egress(reply) : this.node.ingress(reply, 'up1')
  }
}
