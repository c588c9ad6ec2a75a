import { decodeRecord4, decodeRecord6, FlatFlowTable } from '../../src/dataplane/ebpf/flow-table-flat.js'
import { MappedArray } from '../../src/dataplane/ebpf/mapped-array.js'
import { fromBytes, toBytes, u32 } from '../../src/ebpf/codec.js'
import {
  backend,
  FlatControl,
  FlatRecordState,
  type Flow,
  FlowDirection,
  flow,
  maps,
  type Tuple,
  tuple,
} from '../../src/ebpf/generated/layouts.js'
import type { BpfMap, BpfObject } from '../../src/ebpf/native.js'

/** One direction of a flow as a test sees it. */
export interface Half {
  readonly key: Tuple
  readonly to: Tuple
  readonly direction: FlowDirection
  /** enum flow_sent: by packets of this direction, and of the other. */
  readonly sent: number
  readonly heard: number
  readonly seenNs: bigint
  readonly backend: number
  readonly flags: number
  readonly service: number
  /** In the hash map: its slot. */
  readonly place?: number
}

/** The flows of a loaded object, whichever table it has: a test reads, ages and ends them. */
export interface TestFlows {
  /** All halves of all flows, forward ones first. */
  halves(): Half[]
  /** Sets when each was last seen, in nanoseconds before what it says now; before the boot of the machine, if need be. */
  age(by: bigint): void
  /** Ends flows, by their forward halves. */
  end(isMeant: (forward: Half) => boolean): void
}

export function flowsOf(object: BpfObject): TestFlows {
  return object.mapNames().includes(maps.flows.name)
    ? new HashFlows(object.map(maps.flows.name))
    : new FlatFlows(object)
}

/** The tuple of packets that go the other way. */
function exchanged({ src, dst, sport, dport, proto }: Tuple): Tuple {
  return { src: dst, dst: src, sport: dport, dport: sport, proto }
}

class HashFlows implements TestFlows {
  readonly #map: BpfMap

  constructor(map: BpfMap) {
    this.#map = map
  }

  halves(): Half[] {
    return this.#entries()
      .map(({ key, value }) => ({
        ...value,
        direction: value.direction as FlowDirection,
        place: value.slot,
        key: fromBytes(tuple, key),
      }))
      .sort((a, b) => a.direction - b.direction)
  }

  age(by: bigint): void {
    for (const { key, value } of this.#entries()) {
      this.#map.update(key, toBytes(flow, { ...value, seenNs: BigInt.asUintN(64, value.seenNs - by) }))
    }
  }

  end(isMeant: (forward: Half) => boolean): void {
    for (const half of this.halves()) {
      if (half.direction !== FlowDirection.FORWARD || !isMeant(half)) continue
      for (const key of [half.key, exchanged(half.to)]) this.#map.delete(toBytes(tuple, key))
    }
  }

  #entries(): { key: Uint8Array; value: Flow }[] {
    const { keys, values, count } = this.#map.entries()
    return Array.from({ length: count }, (_, i) => ({
      key: keys.subarray(i * tuple.size, (i + 1) * tuple.size),
      value: fromBytes(flow, values, i * flow.size),
    }))
  }
}

/** A word of the index: tag 9, of which the lowest bit says IPv4 | direction 1 | record 22. */
const WORDS = 7
const RECORD_MASK = 0x3f_ffff
const IPV4_AT = 23

/** Through the memory of its maps, mapped once. */
class FlatFlows implements TestFlows {
  readonly #table: FlatFlowTable
  readonly #index: MappedArray
  readonly #families: readonly { records: MappedArray; decode: typeof decodeRecord4; ipv4: boolean }[]

  constructor(object: BpfObject) {
    const [records4, records6, backends] = [maps.flatRecs4, maps.flatRecs6, maps.backends].map(({ name }) =>
      object.map(name),
    ) as [BpfMap, BpfMap, BpfMap]
    this.#table = new FlatFlowTable(records4, records6, index => {
      const bytes = backends.lookup(toBytes(u32, index))
      return bytes ? fromBytes(backend, bytes).service : 0
    })
    this.#index = mapped(object.map(maps.flatIndex.name))
    this.#families = [
      { records: mapped(records4), decode: decodeRecord4, ipv4: true },
      { records: mapped(records6), decode: decodeRecord6, ipv4: false },
    ]
  }

  halves(): Half[] {
    const forward = this.#table.walk().map(({ key, to, sent, heard, seenNs, backend: of, flags, service }): Half => {
      return { key, to, direction: FlowDirection.FORWARD, sent, heard, seenNs, backend: of, flags, service }
    })
    const reply = forward.map(({ key, to, sent, heard, ...rest }): Half => {
      const direction = FlowDirection.REPLY
      return { ...rest, key: exchanged(to), to: exchanged(key), direction, sent: heard, heard: sent }
    })
    return [...forward, ...reply]
  }

  /** In ticks of a quarter of a second, none too few. */
  age(by: bigint): void {
    const tick = 1n << BigInt(FlatControl.TICK_BITS)
    const ticks = by > 0n ? (by + tick - 1n) / tick : by / tick
    const [at, width] = [BigInt(FlatControl.SEEN_AT), 64 - FlatControl.SEEN_AT]
    for (const { records, record, control } of this.#live()) {
      const seen = BigInt.asUintN(width, (control >> at) - ticks)
      records.storeWord(record, 0, (seen << at) | BigInt.asUintN(FlatControl.SEEN_AT, control))
    }
  }

  /** The counts of words elsewhere are left alone: one that is too high costs a look. */
  end(isMeant: (forward: Half) => boolean): void {
    const forward = this.halves().filter(({ direction }) => direction === FlowDirection.FORWARD)
    const named = (key: Tuple) => Buffer.from(toBytes(tuple, key)).toString('latin1')
    const names = new Set(forward.filter(isMeant).map(({ key }) => named(key)))
    const gone = new Set<number>()
    for (const { records, record, control, key, ipv4 } of this.#live()) {
      if (!names.has(named(key))) continue
      gone.add(record * 2 + Number(ipv4))
      records.storeWord(record, 0, ((control >> 3n) << 3n) | BigInt(FlatRecordState.FREE))
    }
    const { view, length } = this.#index
    for (let bucket = 0; bucket < length && gone.size > 0; bucket++) {
      for (let i = 1; i <= WORDS; i++) {
        const at = this.#index.offset(bucket) + 4 * i
        const word = view.getUint32(at, true)
        if (word !== 0 && gone.has((word & RECORD_MASK) * 2 + ((word >>> IPV4_AT) & 1))) view.setUint32(at, 0, true)
      }
    }
  }

  *#live() {
    for (const { records, decode, ipv4 } of this.#families) {
      for (let record = 1; record < records.length; record++) {
        const control = records.loadWord(record, 0)
        if (BigInt.asUintN(3, control) !== BigInt(FlatRecordState.LIVE)) continue
        yield { records, record, control, ipv4, key: decode(records.view, records.offset(record)).key }
      }
    }
  }
}

function mapped(map: BpfMap): MappedArray {
  return new MappedArray(map.mmap(), map.info.valueSize, map.info.maxEntries)
}
