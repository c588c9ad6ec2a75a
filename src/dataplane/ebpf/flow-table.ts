import type { Tuple } from '../../ebpf/generated/layouts.js'
import type { MapRow } from '../inspection.js'

/** How the kernel keeps flows: in a hash map of its own, or in the flat table (bpf/lib/flat_table.h). */
export type FlowTableKind = 'hash' | 'flat'

/** A flow as the kernel holds it. */
export interface TableFlow {
  /** A packet of the client as it arrives. */
  readonly key: Tuple
  /** What it becomes. */
  readonly to: Tuple
  /** enum flow_sent: by packets of the client, and of the backend; `stateOf` reads them. */
  readonly sent: number
  readonly heard: number
  /** enum flow_flag */
  readonly flags: number
  /** Index into backends. */
  readonly backend: number
  /** Index into services; 0: none, or its backend is gone. */
  readonly service: number
  /** When the flow last saw a packet, CLOCK_MONOTONIC ns. */
  readonly seenNs: bigint
  /** False: only one direction of it was found, so it counts as none. */
  readonly whole: boolean
}

/** Reads the flows; only programs write them (bpf/flows.bpf.c says why). */
export interface FlowTable {
  readonly kind: FlowTableKind
  /** Flows at a time; of each family in the flat table. */
  readonly capacity: number
  /** Places that `flow_sweep` looks at (bpf/flows.bpf.c). */
  readonly places: number
  /**
   * All flows. A walk beside the programs may miss a flow that just came or went, and show
   * one whose time is over until it is swept.
   */
  walk(): TableFlow[]
  /** How full its maps are. */
  rows(): MapRow[]
}
