import { toBytes } from '../../ebpf/codec.js'
import { type Flow, FlowDirection, flow, type Tuple, tuple } from '../../ebpf/generated/layouts.js'
import type { BpfMap } from '../../ebpf/native.js'
import type { MapRow } from '../inspection.js'
import type { FlowTable, TableFlow } from './flow-table.js'

/** A flow is found by two keys (bpf/layout/flow.h). */
export const HALVES_PER_FLOW = 2

/** Flows as two entries each in a hash map of the kernel (bpf/lib/flow_store_hash.h). */
export class HashFlowTable implements FlowTable {
  readonly kind = 'hash'
  readonly capacity: number
  readonly places: number
  readonly #flows: BpfMap

  constructor(flows: BpfMap, slots: BpfMap) {
    this.#flows = flows
    this.capacity = flows.info.maxEntries / HALVES_PER_FLOW
    this.places = slots.info.maxEntries
  }

  walk(): TableFlow[] {
    const { keys, values, count } = this.#flows.entries()
    const keyView = new DataView(keys.buffer, keys.byteOffset, keys.byteLength)
    const valueView = new DataView(values.buffer, values.byteOffset, values.byteLength)
    const forwards: { key: Tuple; half: Flow }[] = []
    const replies = new Map<string, Flow>()
    const nameOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1')
    for (let i = 0; i < count; i++) {
      const half = flow.decode(valueView, i * flow.size)
      if (half.direction === FlowDirection.FORWARD) forwards.push({ key: tuple.decode(keyView, i * tuple.size), half })
      else replies.set(nameOf(keys.subarray(i * tuple.size, (i + 1) * tuple.size)), half)
    }
    return forwards.map(({ key, half }) => {
      const reply = replies.get(nameOf(toBytes(tuple, otherHalf(half))))
      const { to, sent, heard, flags, backend, service } = half
      const seenNs = reply && reply.seenNs > half.seenNs ? reply.seenNs : half.seenNs
      return { key, to, sent, heard, flags, backend, service, seenNs, whole: reply !== undefined }
    })
  }

  rows(): MapRow[] {
    const { name, maxEntries } = this.#flows.info
    return [{ name, entries: this.#flows.entries().count, maxEntries }]
  }
}

/** The key of a flow's other half: `to` with source and destination exchanged. */
function otherHalf(half: Flow): Tuple {
  const { src, dst, sport, dport, proto } = half.to
  return { src: dst, dst: src, sport: dport, dport: sport, proto }
}
