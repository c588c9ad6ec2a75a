import type { Address } from '../model/address.js'
import type { Cidr } from '../model/cidr.js'
import type { FrontendKind, Protocol, Scheduler } from '../model/desired.js'

/**
 * What a dataplane holds in the kernel, read back and put in the words of the product:
 * the rows behind `waggle show` and the metrics. Counters are plain numbers (exact up
 * to 2^53).
 */

/** The Service port that a row belongs to; empty strings when nothing names it any more. */
export interface ServicePortName {
  readonly namespace: string
  readonly service: string
  /** Empty when unnamed. */
  readonly port: string
  readonly protocol: Protocol
}

export interface ServiceRow extends ServicePortName {
  /** Index in the services map. */
  readonly id: number
  readonly scheduler: Scheduler
  /** 0 = none */
  readonly affinitySeconds: number
  readonly internalLocal: boolean
  readonly externalLocal: boolean
  /** Networks that may use its load-balancer frontends; undefined = everybody. */
  readonly sourceRanges: readonly Cidr[] | undefined
  readonly frontends: readonly { readonly kind: FrontendKind; readonly address: Address; readonly port: number }[]
  /** In the cluster-wide list. */
  readonly backends: number
  /** In the list of this node's backends. */
  readonly localBackends: number
  /** Flows and connections that got a backend. */
  readonly opened: number
  /** Those that found none. */
  readonly refused: number
}

export interface BackendRow extends ServicePortName {
  /** Index in the backends map. */
  readonly id: number
  readonly address: Address
  readonly backendPort: number
  /** Runs on this node. */
  readonly local: boolean
  readonly inCluster: boolean
  readonly inLocal: boolean
  readonly generation: number
  readonly opened: number
  /** Connected UDP sockets of this node that point at it now. */
  readonly udpLive: number
  /** The same for TCP. */
  readonly tcpLive: number
  /** Share of new flows against the Service port's other backends. */
  readonly weight: number
}

export interface FlowRow extends ServicePortName {
  readonly client: Address
  readonly clientPort: number
  /** What the client dialled. */
  readonly frontend: Address
  readonly frontendPort: number
  readonly backend: Address
  readonly backendPort: number
  /** Source towards the backend; the client's own unless translated. */
  readonly source: Address
  readonly sourcePort: number
  readonly state: 'opening' | 'established' | 'half-closed' | 'closed'
  /** The backend runs on this node. */
  readonly local: boolean
  /** Seconds since the last packet of either half. */
  readonly idleSeconds: number
}

export interface ProgramRow {
  /** Name of the program in the kernel. */
  readonly name: string
  /** Where it hangs: `connect4`, `tcx/ingress`, `xdp/native` … */
  readonly hook: string
  /** Device or cgroup that it is attached to. */
  readonly target: string
  readonly id: number
  readonly tag: string
  /** False when the kernel no longer runs it there. */
  readonly attached: boolean
}

/** A device whose packets are served. */
export interface DeviceRow {
  /** Empty when the device is gone. */
  readonly name: string
  readonly ifindex: number
  /** What runs its tc programs; empty when nothing does. */
  readonly tc: 'tcx' | 'clsact' | ''
  /** Source addresses of flows that leave by it. */
  readonly address4: Address | undefined
  readonly address6: Address | undefined
  readonly xdp: 'native' | 'generic' | ''
  /** Why it has no XDP although it was asked for, or not all of it; empty when there is nothing to say. */
  readonly xdpReason: string
}

export interface OutcomeRow {
  /** Lower-case name of enum hook: `connect`, `tc_ingress`. */
  readonly hook: string
  /** Lower-case name of enum outcome: `translated`, `no_backend`. */
  readonly outcome: string
  readonly packets: number
  readonly bytes: number
}

export interface MapRow {
  readonly name: string
  readonly entries: number
  readonly maxEntries: number
}

/** What the programs count about flows. */
export interface FlowCounts {
  /** Unconfirmed or closed flows that ended before their time because their place was needed. */
  readonly evicted: number
  /** Flows that asked for a source port, those that got none included. */
  readonly sourcePortFlows: number
  /** Ports that were tried for them. */
  readonly sourcePortTries: number
}

export interface Inspection {
  readonly services: readonly ServiceRow[]
  readonly backends: readonly BackendRow[]
  readonly flows: readonly FlowRow[]
  readonly programs: readonly ProgramRow[]
  readonly devices: readonly DeviceRow[]
  readonly outcomes: readonly OutcomeRow[]
  readonly maps: readonly MapRow[]
  readonly flowCounts: FlowCounts
}
