import type { Address } from './address.js'
import type { Cidr } from './cidr.js'

/**
 * What a node wants its kernel to do, in the words of the product: the output of plan
 * and the input of every dataplane. Values are immutable; an unchanged part keeps its
 * identity from one revision to the next, so `===` tells whether work is due.
 */

export type Protocol = 'TCP' | 'UDP' | 'SCTP'

/** `namespace/name:port/protocol`, e.g. `default/web:http/TCP`; unique in a state. The port name may be empty. */
export type ServicePortKey = string

/** How a new flow gets its backend; docs/schedulers.md says what each is good for. */
export const SCHEDULERS = ['random', 'rr', 'source-hash', 'maglev', 'least-conn'] as const
export type Scheduler = (typeof SCHEDULERS)[number]

/** Where a frontend's address comes from; decides which traffic policy binds it. */
export type FrontendKind = 'ClusterIP' | 'ExternalIP' | 'LoadBalancer' | 'NodePort'

/** One address:port/protocol that clients dial. */
export interface Frontend {
  readonly kind: FrontendKind
  readonly address: Address
  /** 1-65535 */
  readonly port: number
}

/** One endpoint address:port of one Service port. */
export interface Backend {
  readonly address: Address
  /** 1-65535 */
  readonly port: number
  /** Runs on this node. */
  readonly local: boolean
  /**
   * May be chosen for new flows from the cluster-wide list: ready and, where topology
   * hints count, meant for this node or zone; or, when no endpoint is ready, serving and
   * terminating (KEP-1669).
   */
  readonly inCluster: boolean
  /** The same for the list of this node's endpoints alone; implies `local`. */
  readonly inLocal: boolean
  /** Share of new flows against the other backends, 1-100. */
  readonly weight: number
}

/** Who may use the load-balancer frontends of a Service port; all its other frontends are open. */
export interface SourceRanges {
  /** Of the Service port's family, sorted, no duplicates; none = nobody. */
  readonly ranges: readonly Cidr[]
  /** An address of this node is in them. */
  readonly node: boolean
  /** Every address of this node's pods is in them. */
  readonly pods: boolean
}

/**
 * One port of one Service in one address family. A dual-stack Service port is two of
 * these: frontends and backends of an entry share one family.
 */
export interface ServicePort {
  /** {@link ServicePortKey} plus the family: `default/web:http/TCP/IPv4`. */
  readonly id: string
  readonly namespace: string
  readonly name: string
  readonly portName: string
  readonly protocol: Protocol
  readonly family: 'IPv4' | 'IPv6'
  readonly scheduler: Scheduler
  /** ClientIP affinity timeout in seconds, 1-86400; 0 = none. */
  readonly affinitySeconds: number
  /** internalTrafficPolicy: Local */
  readonly internalLocal: boolean
  /** externalTrafficPolicy: Local */
  readonly externalLocal: boolean
  /** Unset = everybody. */
  readonly sourceRanges?: SourceRanges
  /** Where load balancers ask about the Service; a firewall of ours lets them. Unset = nowhere. */
  readonly healthCheckNodePort?: number
  /** Sorted by kind, address, port; no duplicates. */
  readonly frontends: readonly Frontend[]
  /**
   * Every endpoint that serves (usable, or terminating and still serving): a flow to one
   * of them may go on. Sorted by address, port; no duplicates.
   */
  readonly backends: readonly Backend[]
}

export interface DesiredState {
  /** Grows by one with each change. */
  readonly revision: number
  /** By {@link ServicePort.id}. */
  readonly services: ReadonlyMap<string, ServicePort>
  /** Networks of the cluster's pods, sorted: whose packets come from there is no outside client. Unset = none known. */
  readonly podNetworks?: readonly Cidr[]
}
