import { toBytes } from '../../ebpf/codec.js'
import { FlowDirection, FlowFlag, filter, flow, frontend4Key, type Tuple, tuple } from '../../ebpf/generated/layouts.js'
import type { BpfMap } from '../../ebpf/native.js'
import type { FlowTable, TableFlow } from './flow-table.js'
import type { MapHandles } from './kernel-maps.js'
import type { MappedArray } from './mapped-array.js'

/** What is read, and the one map that is written. */
export interface FilterMaps {
  readonly filter: MappedArray
  readonly flows: Pick<FlowTable, 'walk'>
  readonly handles: Pick<MapHandles, 'frontends4' | 'frontends6' | 'flows'>
}

/** Bits of the control plane's part, and of each half of the programs'. */
const BITS = (filter.offsets.flows - filter.offsets.agent) * 8
const SHIFT = 32 - Math.log2(BITS)

/** The upper half of the last 8 bytes of a mapped IPv4 address, ::ffff:0:0/96, as a little-endian word. */
const MAPPED = 0xffff0000

/** Bits that may be set in vain for each one that has to be, and in any case. */
const WASTE = { share: 1, least: BITS / 32 } as const

/**
 * Which bit stands for an address and port. `tail`: the port as it lies in memory in the low
 * 16 bits, the protocol above; 0 = the address alone. The same as in bpf/lib/filter.h.
 */
export function filterBit(w0: number, w1: number, w2: number, w3: number, tail: number): number {
  let sum =
    Math.imul(w0, 0x9e3779b1) +
    Math.imul(w1, 0x85ebca77) +
    Math.imul(w2, 0xc2b2ae3d) +
    Math.imul(w3, 0x27d4eb2f) +
    Math.imul(tail, 0x165667b1)
  sum ^= sum >>> 15
  return Math.imul(sum, 0x2c1b3c6d) >>> SHIFT
}

/** The bit of a key of frontends4 or frontends6. */
export function filterBitOfFrontend(key: Uint8Array): number {
  const view = new DataView(key.buffer, key.byteOffset, key.byteLength)
  const word = (at: number) => view.getUint32(at, true)
  if (key.length === frontend4Key.size) return filterBit(0, 0, MAPPED, word(0), word(4))
  return filterBit(word(0), word(4), word(8), word(12), word(16))
}

/** The bit of the near end of one half of a flow: of what is found by this key at the side where it is looked for. */
function filterBitOfHalf(key: DataView, at: number, direction: number, flags: number): number {
  const forward = direction === FlowDirection.FORWARD
  const atEgress = flags & FlowFlag.OF_NODE ? forward : !forward && (flags & FlowFlag.LOCAL_BACKEND) !== 0
  const address = at + (atEgress ? tuple.offsets.src : tuple.offsets.dst)
  const port = key.getUint16(at + (atEgress ? tuple.offsets.sport : tuple.offsets.dport), true)
  const word = (i: number) => key.getUint32(address + i * 4, true)
  return filterBit(word(0), word(1), word(2), word(3), port | (key.getUint8(at + tuple.offsets.proto) << 16))
}

/**
 * The control plane's part of the filter by which the programs pass what cannot be ours
 * (bpf/lib/filter.h). Bits are set before what they stand for is written, and stay: to have
 * one too many costs a look-up. When they have become too many {@link renew} leaves out what
 * is no more.
 */
export class Filter {
  readonly #maps: FilterMaps
  /** Written here alone, with plain stores. */
  readonly #agent: Uint32Array
  readonly #flows: readonly [Uint32Array, Uint32Array]
  /** The programs' half that was cleared and is to become current, 1 or 2. */
  #next: number | undefined
  /** Bits set after the last renewal; undefined = not by this process. */
  #needed: number | undefined

  constructor(maps: FilterMaps) {
    this.#maps = maps
    const { buffer } = maps.filter.view
    const part = (offset: number) => new Uint32Array(buffer, offset, BITS / 32)
    const { agent, flows } = filter.offsets
    this.#agent = part(agent)
    this.#flows = [part(flows), part(flows + BITS / 8)]
  }

  /** Lets packets pass to a frontend, by its key; to be called before it is written. */
  add(key: Uint8Array): void {
    setBit(this.#agent, filterBitOfFrontend(key))
  }

  /**
   * Whether there are more bits than needed by so many that it is worth to renew them, or the
   * programs rely on none yet; false while that is under way.
   */
  get wantsRenewal(): boolean {
    if (this.#next !== undefined) return false
    if (this.#current === 0) return true
    const set = this.#count()
    this.#needed ??= set
    return set > this.#needed * (1 + WASTE.share) + WASTE.least
  }

  /** First step: the half that nobody reads begins anew. From now on it is told of every new flow. */
  prepare(): void {
    this.#next = this.#current === 1 ? 2 : 1
    this.#flows[this.#next === 1 ? 0 : 1].fill(0)
  }

  /**
   * Second step, once no program runs any more that ran before the first: what is there now
   * is noted here, and what came since then is in the new half. Two more stores, and the
   * rest is forgotten.
   */
  renew(): void {
    if (this.#next === undefined) throw new TypeError('the filter was not prepared')
    const { frontends4, frontends6, flows } = this.#maps.handles
    const fresh = new Uint32Array(this.#agent.length)
    for (const map of [frontends4, frontends6]) addFrontends(fresh, map)
    if (flows) addFlows(fresh, flows)
    else for (const each of this.#maps.flows.walk()) addFlow(fresh, each)
    const agent = this.#agent
    for (let i = 0; i < agent.length; i++) agent[i] = (agent[i] as number) | (fresh[i] as number)
    this.#maps.filter.storeWord(0, filter.offsets.current, BigInt(this.#next))
    agent.set(fresh)
    this.#next = undefined
    this.#needed = this.#count()
  }

  get #current(): number {
    return Number(this.#maps.filter.loadWord(0, filter.offsets.current))
  }

  #count(): number {
    const flows = this.#flows[this.#current === 2 ? 1 : 0]
    let count = 0
    for (let i = 0; i < flows.length; i++) count += ones((flows[i] as number) | (this.#agent[i] as number))
    return count
  }
}

function addFrontends(words: Uint32Array, map: BpfMap): void {
  const { keys, count } = map.entries()
  const { keySize } = map.info
  for (let i = 0; i < count; i++) setBit(words, filterBitOfFrontend(keys.subarray(i * keySize, (i + 1) * keySize)))
}

function addFlows(words: Uint32Array, map: BpfMap): void {
  const { keys, values, count } = map.entries()
  const key = new DataView(keys.buffer, keys.byteOffset)
  for (let i = 0; i < count; i++) {
    const value = i * flow.size
    const direction = values[value + flow.offsets.direction] as number
    setBit(words, filterBitOfHalf(key, i * tuple.size, direction, values[value + flow.offsets.flags] as number))
  }
}

function addFlow(words: Uint32Array, { key, to, flags }: TableFlow): void {
  const { FORWARD, REPLY } = FlowDirection
  const reply: Tuple = { ...to, src: to.dst, dst: to.src, sport: to.dport, dport: to.sport }
  for (const [half, direction] of [
    [key, FORWARD],
    [reply, REPLY],
  ] as const) {
    const bytes = toBytes(tuple, half)
    setBit(words, filterBitOfHalf(new DataView(bytes.buffer, bytes.byteOffset), 0, direction, flags))
  }
}

/** Bits of the programs' 64-bit words, which are little-endian, as 32-bit ones. */
function setBit(words: Uint32Array, bit: number): void {
  const i = bit >>> 5
  words[i] = (words[i] as number) | (1 << (bit & 31))
}

/** How many bits of a 32-bit word are set. */
function ones(word: number): number {
  let n = word - ((word >>> 1) & 0x55555555)
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333)
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
