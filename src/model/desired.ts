import type { Address } from './address.js'

/**
 * What a node wants its kernel to do, in the words of the product: the output of plan
 * and the input of every dataplane. Values are immutable; an unchanged part keeps its
 * identity from one revision to the next, so `===` tells whether work is due.
 */

export type Protocol = 'TCP' | 'UDP' | 'SCTP'

/** `namespace/name:port/protocol`, e.g. `default/web:http/TCP`; unique in a state. The port name may be empty. */
export type ServicePortKey = string

export type Scheduler = 'random' | 'rr'

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
}
