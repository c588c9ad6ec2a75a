import type { maps } from '../../ebpf/generated/layouts.js'
import type { BpfMap } from '../../ebpf/native.js'
import { MappedArray } from './mapped-array.js'

/** Every map of the dataplane, by its name in `generated/layouts.maps`. */
export type MapHandles = Readonly<Record<keyof typeof maps, BpfMap>>

/** How large the maps are: what the kernel holds, not what was asked for. */
export interface Limits {
  readonly services: number
  /** Of each family. */
  readonly frontends: number
  readonly backends: number
  /** Slots of all lists together, a power of two of at least 16. */
  readonly slots: number
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
  readonly limits: Limits

  constructor(handles: MapHandles) {
    this.handles = handles
    const mapped = (map: BpfMap) => new MappedArray(map.mmap(), map.info.valueSize, map.info.maxEntries)
    this.services = mapped(handles.services)
    this.slots = mapped(handles.slots)
    this.backends = mapped(handles.backends)
    this.backendStats = mapped(handles.beStats)
    this.filter = mapped(handles.filter)
    this.limits = {
      services: this.services.length,
      frontends: handles.frontends4.info.maxEntries,
      backends: this.backends.length,
      slots: this.slots.length * SLOTS_PER_ELEMENT,
      flows: handles.flows.info.maxEntries / HALVES_PER_FLOW,
      sourceRanges: handles.srcRanges.info.maxEntries,
    }
  }

  close(): void {
    for (const handle of Object.values(this.handles)) handle.close()
  }
}

/** Words of a slot_block. */
export const SLOTS_PER_ELEMENT = 16

/** A flow is found by two keys (bpf/layout/flow.h). */
export const HALVES_PER_FLOW = 2

/** max_entries of each map whose size follows from the limits. */
export function sizesOf(limits: Limits): Partial<Record<keyof typeof maps, number>> {
  // A power of two: bpf/lib/flow_slot.h.
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
    srcRanges: limits.sourceRanges,
  }
}
