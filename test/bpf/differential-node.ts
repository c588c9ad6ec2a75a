import { dumpMaps, dumpRanges } from '../../src/dataplane/ebpf/adopt.js'
import { Applier } from '../../src/dataplane/ebpf/applier.js'
import { PROTOCOL_NUMBERS } from '../../src/dataplane/ebpf/encode.js'
import type { Filter } from '../../src/dataplane/ebpf/filter.js'
import { stateOf, sweepFlows, timeoutConstants } from '../../src/dataplane/ebpf/flow-expiry.js'
import type { FlowTableKind } from '../../src/dataplane/ebpf/flow-table.js'
import { Grace } from '../../src/dataplane/ebpf/grace.js'
import { KernelMaps, type MapHandles, mapNames } from '../../src/dataplane/ebpf/kernel-maps.js'
import { KernelWriter } from '../../src/dataplane/ebpf/kernel-writer.js'
import { POD_NETWORKS } from '../../src/dataplane/ebpf/source-range-table.js'
import type { Answer, Side } from '../../src/dataplane/memory/answer.js'
import { MemoryDataplane } from '../../src/dataplane/memory/memory-dataplane.js'
import { type NodeFacts, type Route, Routes } from '../../src/dataplane/memory/node.js'
import type { Tuple } from '../../src/dataplane/memory/packet.js'
import { fromBytes, type MapLayout, toBytes, u32 } from '../../src/ebpf/codec.js'
import { FlowState, Hook, maps as layouts, Outcome, outcomeNames } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfMap, BpfProgram } from '../../src/ebpf/native.js'
import { MapType } from '../../src/ebpf/uapi.js'
import { type Address, addressFromBytes } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'
import type { DesiredState } from '../../src/model/desired.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import { checksumIsRight, expected, sameFrame } from './differential-expect.js'
import { type Reading, read } from './differential-read.js'
import { DEVICES, type DeviceName, ROUTES, TcNode } from './tc-node.js'

/** The kernel and the reference side by side: each packet goes through both. */

export const TIMEOUTS = {
  tcpEstablishedSeconds: 250,
  tcpTransitorySeconds: 100,
  tcpClosedSeconds: 10,
  udpSeconds: 30,
  udpStreamSeconds: 90,
}

/** How the node is set. */
export interface Settings {
  readonly answerPing: boolean
  /** A table and source ports for a few flows: some have to go for others, and some find no port. */
  readonly crowded: boolean
}

/** Most flows; of an uncrowded table none has to go for another. */
const FLOWS = { crowded: 16, roomy: 4096 } as const
const FEW_PORTS = [2000, 2015] as const
const ALL_PORTS = [
  [1024, 29999],
  [61000, 65535],
  // Last; where a client of SCTP has its own from here, it keeps it.
  [32768, 60999],
] as const

/** What no caller can tell from a packet: where the kernel and the reference differ. */
export class Difference extends Error {}

/**
 * What came of a packet has two explanations, a flow that was there or one that had made
 * room and was opened again, of which only one leaves a first fragment behind that is
 * remembered. What comes later would be compared with a guess.
 */
export class Undecided extends Error {}

export interface Seen {
  readonly frame: Uint8Array
  readonly side: Side
  readonly device: DeviceName
  readonly reading: Reading
  readonly answer: Answer
  /** As it left, or went on. */
  readonly out: Uint8Array
}

export const ownAddresses: readonly Address[] = DEVICES.flatMap(({ v4, v6 }) => (v4 ? [v4, v6] : [])) as Address[]

function factsOf({ answerPing, crowded }: Settings): NodeFacts {
  const devices = new Map(
    DEVICES.map(({ name, v4, v6, mtu }) => [
      name as string,
      { mtu, ...(v4 && { address4: v4 as Address, address6: v6 as Address }) },
    ]),
  )
  return {
    devices,
    routes: new Routes([...routes()]),
    ownAddresses: new Set(ownAddresses),
    answerPing,
    timeouts: TIMEOUTS,
    sourcePorts: crowded ? [FEW_PORTS] : ALL_PORTS,
    flows: crowded ? FLOWS.crowded : FLOWS.roomy,
  }
}

/** The routes of tc-node.ts, and those that come with addresses. */
function* routes(): Generator<Route> {
  for (const { name, v4, v6 } of DEVICES) {
    if (!v4) continue
    const [net4, net6] = [v4.replace(/\.1$/, '.'), v6.replace(/::1$/, '::')]
    yield { to: `${net4}0/24` as Cidr, target: { device: name } }
    yield { to: `${net6}/64` as Cidr, target: { device: name } }
    for (const own of [`${v4}/32`, `${net4}255/32`, `${v6}/128`, `${net6}/128`])
      yield { to: own as Cidr, target: 'local' }
  }
  for (const own of ['127.0.0.0/8', '::1/128']) yield { to: own as Cidr, target: 'local' }
  const gateways: Record<string, DeviceName> = {
    '192.168.0.254': 'up0',
    '2001:db8:c0::fe': 'up0',
    '192.168.1.2': 'up1',
    '2001:db8:c1::2': 'up1',
    '192.168.3.2': 'up3',
    '2001:db8:c3::2': 'up3',
  }
  for (const line of ROUTES) {
    const words = line.split(' ')
    if (words[0] === 'unreachable') {
      yield { to: words[1] as Cidr, target: 'unreachable' }
      continue
    }
    const device = words[1] === 'dev' ? words[2] : gateways[words[2] ?? '']
    if (device === undefined) throw new Error(`a route by an unknown gateway: ${line}`)
    const everywhere = line.includes(':') ? '::/0' : '0.0.0.0/0'
    yield { to: (words[0] === 'default' ? everywhere : words[0]) as Cidr, target: { device } }
  }
}

function isServed(answer: Answer): boolean {
  return 'served' in answer && answer.served === true
}

export class DifferentialNode {
  readonly #node: TcNode
  readonly #maps: KernelMaps
  readonly #spare: BpfMap[] = []
  readonly #clock = new FakeClock()
  readonly #applier: Applier
  readonly #filter: Filter
  readonly #facts: NodeFacts
  readonly #counted = new Map<number, bigint>()
  #memory: MemoryDataplane
  #sweep: BpfProgram | undefined
  #skipped = 0
  /** Packets that went through both. */
  packets = 0
  /** Where flows make room for others, it does not show what a client was bound to in between. */
  readonly affinity: boolean
  /** Episodes that ended early: {@link Undecided}. */
  undecided = 0
  /** How often each answer was right. */
  readonly outcomes = new Map<string, number>()

  constructor(settings: Settings, flowTable: FlowTableKind) {
    const { answerPing, crowded } = settings
    this.affinity = !crowded
    this.#facts = factsOf(settings)
    this.#memory = new MemoryDataplane(this.#facts)
    this.#node = new TcNode({
      slots: 262144,
      flows: this.#facts.flows,
      flowTable,
      ...(crowded && { snatPorts: FEW_PORTS }),
      maxEntries: Object.fromEntries(
        [layouts.affinity, layouts.fragments, layouts.heldFrags].map(({ name }) => [name, 4096]),
      ),
      constants: {
        ...timeoutConstants(TIMEOUTS),
        cfg_answer_ping: Uint8Array.of(Number(answerPing)),
        // As good as no limit: a nanosecond each.
        cfg_reply_rate: toBytes(u32, 1_000_000_000),
      },
    })
    try {
      this.#maps = new KernelMaps(this.#handles())
      const grace = new Grace(this.#clock, error => {
        throw error
      })
      const now = () => this.#clock.monotonic()
      const hooks = { now, backendIsUnused: () => true, backendRetired() {} }
      const writer = new KernelWriter(this.#maps)
      this.#filter = writer.filter
      this.#applier = new Applier(this.#maps.limits, writer, grace, hooks)
      this.#applier.adopt(dumpMaps(this.#maps))
      this.#applier.setOwnAddresses(new Set(ownAddresses))
    } catch (error) {
      this.#node.close()
      throw error
    }
  }

  close(): void {
    for (const map of this.#spare) map.close()
    this.#node.close()
  }

  /** Runs `fn` where packets can be given to {@link step}. */
  inside<T>(fn: () => T): T {
    return this.#node.inside(fn)
  }

  /** Seconds, monotonic, with what was skipped. */
  get now(): number {
    return Number(process.hrtime.bigint()) / 1e9 + this.#skipped
  }

  apply(desired: DesiredState, changed: ReadonlySet<string>): void {
    const { failed } = this.#applier.apply(desired, changed, true)
    for (const { id, error } of failed) throw new Error(`${id} was not applied`, { cause: error })
    // Removed backends are retired, and blocks of slots are free to be used again.
    this.#clock.advance(2000)
    this.#memory.take(desired)
  }

  /** Forgets all flows, affinities and fragments; indexes that rested may be used again. Services have to be gone. */
  forget(): void {
    const { frontends4, frontends6 } = this.#maps.handles
    const left = [frontends4, frontends6].map(map => hex(map.entries().keys)).join('')
    const ranges = dumpRanges(this.#maps).filter(({ service }) => service !== POD_NETWORKS)
    if (left !== '' || ranges.length > 0) throw new Error(`left behind: ${left} ${JSON.stringify(ranges)}`)
    for (const layout of [layouts.affinity, layouts.fragments, layouts.heldFrags]) {
      const map = this.#node.map(layout.name)
      const { keys, count } = map?.entries() ?? { keys: new Uint8Array(), count: 0 }
      if (count > 0) map?.deleteBatch(keys)
    }
    this.#node.services.forgetFlows()
    this.#clock.advance(6 * 60_000)
    this.#memory = new MemoryDataplane(this.#facts)
    this.#skipped = 0
  }

  /** Lets time pass for all that the programs remember. */
  skip(seconds: number): void {
    const by = BigInt(seconds) * 1_000_000_000n
    this.#node.services.ageFlows(by)
    this.#age(layouts.affinity, by)
    this.#age(layouts.fragments, by)
    this.#age(layouts.heldFrags, by)
    this.#skipped += seconds
  }

  /** What the agent has done to the flow table. */
  sweep(): void {
    this.#sweep ??= this.#node.beside('flows.bpf.o', 'flow_sweep', timeoutConstants(TIMEOUTS))
    sweepFlows(this.#sweep, this.#facts.flows, 1)
    this.#filter.prepare()
    this.#filter.renew()
    this.#memory.sweep(this.now)
  }

  /** One packet through the programs and through the reference; what waited for it goes after it. */
  step(frame: Uint8Array, side: Side, device: DeviceName): Seen {
    const reading = read(frame)
    const { packet } = reading
    const answers = this.#memory.where({ packet, frame, side, device, now: this.now })
    const seen = this.#node.bare(side === 'ingress' ? 'waggle_ingress' : 'waggle_egress', frame, device)
    this.packets++
    const hook = side === 'ingress' ? Hook.TC_INGRESS : Hook.TC_EGRESS
    const explains = (answer: Answer) => {
      if (answer.verdict !== seen.verdict) return undefined
      const to = tupleThen(answer, reading, seen.frame)
      return to && isAsExpected(frame, reading, answer, seen.frame, to) ? to : undefined
    }
    for (const answer of answers) {
      const to = explains(answer)
      if (!to || !this.#hasCounted(hook, answer.outcome)) continue
      const others = answers.filter(each => each !== answer && each.outcome === answer.outcome && explains(each))
      if (packet.fragment?.offset === 0 && others.some(each => isServed(each) !== isServed(answer))) {
        throw new Undecided()
      }
      answer.take?.(to)
      if (others.length > 0) this.#memory.doubtAffinity(packet.tuple)
      this.outcomes.set(answer.outcome, (this.outcomes.get(answer.outcome) ?? 0) + 1)
      const result: Seen = { frame, side, device, reading, answer, out: seen.frame }
      checkInvariants(result)
      if (answer.becomes?.kind !== 'again') return result
      // It comes again, and what waited for it behind it.
      const again = answer.becomes.frames.map(each => this.step(each, 'ingress', device))
      return again[0] ?? result
    }
    const outcome = this.#recount(hook)
    throw new Difference(describeDifference({ frame, side, device, reading, answers, seen: { ...seen, outcome } }))
  }

  /** Compares all flows: as many, the same ones, as far; each once in both directions. */
  compareFlows(): void {
    const flows = this.#maps.flows.walk()
    const halves = this.#maps.handles.flows?.entries().count
    const widows = halves === undefined ? 0 : halves - 2 * flows.length
    if (widows !== 0) throw new Difference(`${widows} halves too many`)
    const names = { [FlowState.OPENING]: 'opening', [FlowState.ESTABLISHED]: 'established' } as Record<number, string>
    names[FlowState.HALF_CLOSED] = 'half-closed'
    names[FlowState.CLOSED] = 'closed'
    const kernel = new Map<string, string>()
    for (const { key, to, sent, heard, whole } of flows) {
      const [client, frontend, source, backend] = [key.src, key.dst, to.src, to.dst].map(addressFromBytes)
      const from = `${client} ${key.sport} ${frontend} ${key.dport}`
      kernel.set(
        `${key.proto} ${from}`,
        `${source} ${to.sport} ${backend} ${to.dport} ${names[stateOf({ sent, heard })]} ${whole ? 'whole' : 'half'}`,
      )
    }
    const problems: string[] = []
    for (const flow of this.#memory.flows(this.now)) {
      const proto = PROTOCOL_NUMBERS[flow.protocol]
      const key = `${proto} ${flow.client} ${flow.clientPort} ${flow.frontend} ${flow.frontendPort}`
      const to = `${flow.source} ${flow.sourcePort} ${flow.backend} ${flow.backendPort}`
      const wanted = flow.states.map(state => `${to} ${state} whole`)
      const there = kernel.get(key)
      kernel.delete(key)
      if (wanted.includes(there ?? '') || (there === undefined && flow.uncertain)) continue
      problems.push(`${key}: reference ${wanted.join(' or ')}, kernel ${there ?? 'nothing'}`)
    }
    for (const [key, there] of kernel) problems.push(`${key}: reference nothing, kernel ${there}`)
    if (problems.length > 0) throw new Difference(`flows differ:\n${problems.join('\n')}`)
  }

  #handles(): MapHandles {
    const all = Object.keys(layouts) as (keyof typeof layouts)[]
    const handles = mapNames(all, this.#node.flowTable).map(name => [name, this.#mapOf(layouts[name])] as const)
    return Object.fromEntries(handles) as MapHandles
  }

  /** The programs' own map, or one for the control plane alone. */
  #mapOf(layout: MapLayout<never, never> | (typeof layouts)[keyof typeof layouts]): BpfMap {
    const own = this.#node.map(layout.name)
    if (own) return own
    // Socket storage wants BTF of its value; nobody here uses it.
    const storage = layout.type === MapType.SK_STORAGE
    const map = loadNative().createMap({
      type: storage ? MapType.HASH : layout.type,
      name: layout.name,
      keySize: layout.key.size,
      valueSize: layout.value.size,
      maxEntries: 1024,
      flags: storage ? 0 : layout.flags,
    })
    this.#spare.push(map)
    return map
  }

  #age<K, V extends { seenNs: bigint }>(layout: MapLayout<K, V>, by: bigint): void {
    const map = this.#node.map(layout.name)
    if (!map) return
    const { keys, values, count } = map.entries()
    for (let i = 0; i < count; i++) {
      const value = fromBytes(layout.value, values, i * layout.value.size)
      const key = keys.subarray(i * layout.key.size, (i + 1) * layout.key.size)
      map.update(key, toBytes(layout.value, { ...value, seenNs: BigInt.asUintN(64, value.seenNs - by) }))
    }
  }

  /** Whether one packet more was counted there than at the last look. */
  #hasCounted(hook: number, outcome: string): boolean {
    const index = hook * Outcome.COUNT + (outcomeIndex.get(outcome) ?? 0)
    const before = this.#counted.get(index) ?? 0n
    const now = this.#read(index)
    if (now !== before + 1n) return false
    this.#counted.set(index, now)
    return true
  }

  /** The counter that grew since the last look. */
  #recount(hook: number): string {
    const grown: string[] = []
    for (let outcome = 0; outcome < Outcome.COUNT; outcome++) {
      const index = hook * Outcome.COUNT + outcome
      const now = this.#read(index)
      if (now !== (this.#counted.get(index) ?? 0n)) grown.push(outcomeNames[outcome] ?? String(outcome))
      this.#counted.set(index, now)
    }
    return grown.join(' and ')
  }

  #read(index: number): bigint {
    const bytes = this.#node.map(layouts.outcomes.name)?.lookup(toBytes(u32, index)) ?? new Uint8Array()
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let sum = 0n
    for (let at = 0; at < bytes.length; at += layouts.outcomes.value.size) sum += view.getBigUint64(at, true)
    return sum
  }
}

const outcomeIndex = new Map(Object.entries(outcomeNames).map(([index, name]) => [name, Number(index)]))

/** The packet's tuple as it would be by this answer, with a port that was free to choose as it was seen. */
function tupleThen({ becomes }: Answer, { packet, l4 }: Reading, out: Uint8Array): Tuple | undefined {
  if (becomes?.kind !== 'translated') return packet.tuple
  if (!becomes.sport) return becomes.to
  const sport = ((out[l4] ?? 0) << 8) | (out[l4 + 1] ?? 0)
  return becomes.sport.has(sport) ? { ...becomes.to, sport } : undefined
}

function isAsExpected(frame: Uint8Array, reading: Reading, answer: Answer, out: Uint8Array, to: Tuple): boolean {
  const { verdict, becomes } = answer
  if (verdict === 'drop') return true
  return becomes ? sameFrame(out, expected(frame, reading, becomes, to)) : sameFrame(out, { bytes: frame, zeros: [] })
}

/** What holds whatever the reference says. */
function checkInvariants({ frame, reading, answer, out }: Seen): void {
  if (answer.verdict === 'drop' || answer.becomes?.kind !== 'translated') return
  const before = checksumIsRight(frame, reading)
  if (before === undefined) return
  const after = checksumIsRight(out, read(out))
  if (after !== before)
    throw new Difference(
      `the transport checksum was ${before ? 'right' : 'wrong'} and is not now\n${hex(frame)}\n${hex(out)}`,
    )
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

function describeDifference(it: {
  frame: Uint8Array
  side: Side
  device: string
  reading: Reading
  answers: readonly Answer[]
  seen: { verdict: string; frame: Uint8Array; outcome: string }
}): string {
  const { frame, side, device, reading, answers, seen } = it
  const lines = [
    `${side} ${device}: ${JSON.stringify(reading.packet)}`,
    `frame     ${hex(frame)}`,
    `kernel    ${seen.outcome}, ${seen.verdict}`,
    `          ${seen.verdict === 'drop' ? '' : hex(seen.frame)}`,
  ]
  for (const answer of answers) {
    const { outcome, verdict, becomes } = answer
    lines.push(`reference ${outcome}, ${verdict} ${becomes && becomes.kind !== 'again' ? JSON.stringify(becomes) : ''}`)
    const to = tupleThen(answer, reading, seen.frame)
    if (verdict !== 'drop' && becomes && to) lines.push(`          ${hex(expected(frame, reading, becomes, to).bytes)}`)
  }
  return lines.join('\n')
}
