import {
  FlatControl,
  type FlatKey4,
  FlatRecordState,
  flatRecord4,
  flatRecord6,
  type Tuple,
} from '../../ebpf/generated/layouts.js'
import type { BpfMap } from '../../ebpf/native.js'
import type { MapRow } from '../inspection.js'
import type { FlowTable, TableFlow } from './flow-table.js'
import { MappedArray } from './mapped-array.js'

/** A word of the index has 22 bits for a record's number, and 0 is none (bpf/layout/flat.h). */
export const MOST_FLAT_FLOWS = 2 ** 21

/** Widths of the parts of flat_record.control. */
const STATE_BITS = 3
const SENT_BITS = 4
const AGE_BITS = 15
const STATE_MASK = 2 ** STATE_BITS - 1

/** Of a backend's index, the service it is of. */
type ServiceOf = (backend: number) => number

/** Flows as records in memory-mapped arrays, one for each family (bpf/lib/flat_table.h). */
export class FlatFlowTable implements FlowTable {
  readonly kind = 'flat'
  readonly capacity: number
  readonly places: number
  readonly #families: readonly { map: BpfMap; records: MappedArray; decode: typeof decodeRecord4 }[]
  readonly #serviceOf: ServiceOf

  constructor(records4: BpfMap, records6: BpfMap, serviceOf: ServiceOf) {
    const mapped = (map: BpfMap) => new MappedArray(map.mmap(), map.info.valueSize, map.info.maxEntries)
    this.#families = [
      { map: records4, records: mapped(records4), decode: decodeRecord4 },
      { map: records6, records: mapped(records6), decode: decodeRecord6 },
    ]
    this.#serviceOf = serviceOf
    this.places = records4.info.maxEntries - 1
    this.capacity = this.places
  }

  walk(): TableFlow[] {
    const flows: TableFlow[] = []
    for (const { records, decode } of this.#families) {
      for (let record = 1; record < records.length; record++) {
        const control = records.loadWord(record, 0)
        if (!isLive(control)) continue
        const { base, key, to } = decode(records.view, records.offset(record))
        // Copied beside the programs: of one age and live before and after, it is one flow.
        const then = records.loadWord(record, 0)
        if (!isLive(then) || ageOf(then) !== ageOf(control)) continue
        flows.push({
          key,
          to,
          sent: sentOf(then, FlatControl.CLIENT_AT),
          heard: sentOf(then, FlatControl.BACKEND_AT),
          flags: base.flags,
          backend: base.backend,
          service: this.#serviceOf(base.backend),
          seenNs: (then >> BigInt(FlatControl.SEEN_AT)) << BigInt(FlatControl.TICK_BITS),
          whole: true,
        })
      }
    }
    return flows
  }

  rows(): MapRow[] {
    return this.#families.map(({ map, records }) => {
      let entries = 0
      for (let record = 1; record < records.length; record++) {
        if ((records.view.getUint8(records.offset(record)) & STATE_MASK) === FlatRecordState.LIVE) entries++
      }
      return { name: map.info.name, entries, maxEntries: records.length - 1 }
    })
  }
}

function isLive(control: bigint): boolean {
  return Number(BigInt.asUintN(STATE_BITS, control)) === FlatRecordState.LIVE
}

function ageOf(control: bigint): bigint {
  return BigInt.asUintN(AGE_BITS, control >> BigInt(FlatControl.AGE_AT))
}

/** enum flow_sent of one direction. */
function sentOf(control: bigint, at: number): number {
  return Number(BigInt.asUintN(SENT_BITS, control >> BigInt(at)))
}

/** A flat_record4 with its tuples. */
export function decodeRecord4(view: DataView, at: number) {
  const { base, client, backend } = flatRecord4.decode(view, at)
  const wide = (key: FlatKey4) => ({ ...key, src: mapped(key.src), dst: mapped(key.dst) })
  return { base, ...tuples(wide(client), wide(backend), base.proto) }
}

/** A flat_record6 with its tuples. */
export function decodeRecord6(view: DataView, at: number) {
  const { base, client, backend } = flatRecord6.decode(view, at)
  return { base, ...tuples(client, backend, base.proto) }
}

/** The client's key as it is, and the backend's exchanged: what the client's packets become. */
function tuples(client: Omit<Tuple, 'proto'>, backend: Omit<Tuple, 'proto'>, proto: number): { key: Tuple; to: Tuple } {
  const { src, dst, sport, dport } = backend
  return { key: { ...client, proto }, to: { src: dst, dst: src, sport: dport, dport: sport, proto } }
}

/** The IPv4-mapped address of one in host order. */
function mapped(ipv4: number): Uint8Array {
  const bytes = new Uint8Array(16)
  bytes.fill(0xff, 10, 12)
  new DataView(bytes.buffer).setUint32(12, ipv4)
  return bytes
}
