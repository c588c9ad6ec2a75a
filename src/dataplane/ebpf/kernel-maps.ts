import { backend, type maps } from '../../ebpf/generated/layouts.js'
import type { BpfMap } from '../../ebpf/native.js'
import type { FlowTable, FlowTableKind } from './flow-table.js'
import { FlatFlowTable } from './flow-table-flat.js'
import { HALVES_PER_FLOW, HashFlowTable } from './flow-table-hash.js'
import { MappedArray } from './mapped-array.js'

type MapName = keyof typeof maps

/** The maps of each flow table: bpf/maps_flow_hash.h, bpf/maps_flow_flat.h. */
export const FLOW_MAPS = {
  hash: ['flows', 'flowSlots', 'flowHand'],
  flat: ['flatSecret', 'flatIndex', 'flatRecs4', 'flatRecs6', 'flatHand'],
} as const satisfies Record<FlowTableKind, readonly MapName[]>
type FlowMapName = (typeof FLOW_MAPS)[FlowTableKind][number]

/** Every map of the dataplane, by its name in `generated/layouts.maps`; those of one flow table. */
export type MapHandles = Readonly<Record<Exclude<MapName, FlowMapName>, BpfMap> & Partial<Record<FlowMapName, BpfMap>>>

/** Names of all maps of a dataplane with this flow table. */
export function mapNames(all: readonly MapName[], kind: FlowTableKind): MapName[] {
  const others: readonly string[] = FLOW_MAPS[kind === 'hash' ? 'flat' : 'hash']
  return all.filter(name => !others.includes(name))
}

/** How large the maps are: what the kernel holds, not what was asked for. */
export interface Limits {
  readonly services: number
  /** Of each family. */
  readonly frontends: number
  readonly backends: number
  /** Slots of all lists together, a power of two of at least 16. */
  readonly slots: number
  /** At a time; of each family in the flat table. */
  readonly flows: number
  /** Source ranges of all services, and pod networks. */
  readonly sourceRanges: number
}

/** The maps as the control plane uses them: hash maps by system call, arrays through their memory. */
export class KernelMaps {
  readonly handles: MapHandles
  readonly services: MappedArray
  readonly slots: MappedArray
  readonly backends: MappedArray
  readonly backendStats: MappedArray
  readonly filter: MappedArray
  readonly flows: FlowTable
  readonly limits: Limits

  constructor(handles: MapHandles) {
    this.handles = handles
    const mapped = (map: BpfMap) => new MappedArray(map.mmap(), map.info.valueSize, map.info.maxEntries)
    this.services = mapped(handles.services)
    this.slots = mapped(handles.slots)
    this.backends = mapped(handles.backends)
    this.backendStats = mapped(handles.beStats)
    this.filter = mapped(handles.filter)
    this.flows = this.#flowTable()
    this.limits = {
      services: this.services.length,
      frontends: handles.frontends4.info.maxEntries,
      backends: this.backends.length,
      slots: this.slots.length * SLOTS_PER_ELEMENT,
      flows: this.flows.capacity,
      sourceRanges: handles.srcRanges.info.maxEntries,
    }
  }

  #flowTable(): FlowTable {
    const { flows, flowSlots, flatRecs4, flatRecs6 } = this.handles
    if (flows && flowSlots) return new HashFlowTable(flows, flowSlots)
    if (!flatRecs4 || !flatRecs6) throw new TypeError('no maps of a flow table')
    const { view } = this.backends
    return new FlatFlowTable(flatRecs4, flatRecs6, index =>
      index < this.backends.length ? view.getUint32(this.backends.offset(index) + backend.offsets.service, true) : 0,
    )
  }

  close(): void {
    for (const handle of Object.values(this.handles)) handle.close()
  }
}

/** Words of a slot_block. */
export const SLOTS_PER_ELEMENT = 16

/** max_entries of each map whose size follows from the limits. */
export function sizesOf(limits: Limits): Partial<Record<keyof typeof maps, number>> {
  // A power of two: bpf/lib/flow_hand.h.
  const flowSlots = 2 ** Math.ceil(Math.log2(limits.flows))
  return {
    frontends4: limits.frontends,
    frontends6: limits.frontends,
    services: limits.services,
    svcNames: limits.services,
    svcStats: limits.services,
    slots: limits.slots / SLOTS_PER_ELEMENT,
    backends: limits.backends,
    beStats: limits.backends,
    flows: flowSlots * HALVES_PER_FLOW,
    flowSlots,
    flatIndex: flowSlots,
    // Record 0 is never used.
    flatRecs4: flowSlots + 1,
    flatRecs6: flowSlots + 1,
    srcRanges: limits.sourceRanges,
  }
}
