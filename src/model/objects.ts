import type { Address } from './address.js'
import type { Cidr } from './cidr.js'
import type { Protocol, Scheduler } from './desired.js'

/**
 * What waggle keeps of the API's objects: the fields it uses, checked and normalised by
 * `k8s/convert`. Sources deliver these; nothing behind them sees raw API objects.
 */

/** `namespace/name`; for a Node its name. */
export type ObjectKey = string

export interface ServiceObject {
  readonly kind: 'Service'
  readonly namespace: string
  readonly name: string
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer'
  /** Both families of a dual-stack Service; empty = nothing to serve there. */
  readonly clusterIPs: readonly Address[]
  readonly externalIPs: readonly Address[]
  /** status.loadBalancer.ingress[].ip with ipMode VIP; entries with ipMode Proxy are left out (KEP-1860). */
  readonly loadBalancerIPs: readonly Address[]
  /**
   * loadBalancerSourceRanges of both families, sorted; unset = everybody may use the
   * load-balancer addresses. A family that none of them is of lets nobody in.
   */
  readonly sourceRanges?: readonly Cidr[]
  readonly ports: readonly ServicePortObject[]
  /** 0 = none, otherwise seconds. */
  readonly affinitySeconds: number
  readonly internalLocal: boolean
  readonly externalLocal: boolean
  /**
   * Where load balancers ask whether this node has endpoints; unset unless the type is
   * LoadBalancer and externalTrafficPolicy is Local, as in kube-proxy.
   */
  readonly healthCheckNodePort?: number
  /** From the annotation `waggle.io/scheduler`; undefined = the node's default. */
  readonly scheduler: Scheduler | undefined
  /**
   * metadata.creationTimestamp in seconds since the epoch: of two Services that claim
   * one frontend the older keeps it. Missing for manifests.
   */
  readonly created?: number | undefined
  /** metadata.uid, by which events find the object. Missing for manifests. */
  readonly uid?: string
}

export interface ServicePortObject {
  /** Empty when unnamed. */
  readonly name: string
  readonly protocol: Protocol
  readonly port: number
  /** 0 = none allocated. */
  readonly nodePort: number
}

export interface EndpointSliceObject {
  readonly kind: 'EndpointSlice'
  readonly namespace: string
  readonly name: string
  /** Label kubernetes.io/service-name. */
  readonly service: string
  readonly family: 'IPv4' | 'IPv6'
  /** From the annotation `waggle.io/weight`: of each of its endpoints, 1-100; unset means 1. */
  readonly weight?: number
  /**
   * When the pods or Services changed that this version of the slice follows, in
   * milliseconds since the epoch: the annotation endpoints.kubernetes.io/last-change-trigger-time.
   */
  readonly triggered?: number
  readonly endpoints: readonly EndpointObject[]
  readonly ports: readonly { readonly name: string; readonly protocol: Protocol; readonly port: number }[]
}

export interface EndpointObject {
  readonly addresses: readonly Address[]
  /** Unset in the API means true. */
  readonly ready: boolean
  /** Unset in the API means true, whatever ready is. */
  readonly serving: boolean
  readonly terminating: boolean
  readonly nodeName: string | undefined
  /** hints.forZones[].name: the zones whose clients it is meant for; unset = no hint. */
  readonly zones?: readonly string[]
  /** hints.forNodes[].name: the same for nodes (KEP-3015). */
  readonly nodes?: readonly string[]
}

export interface NodeObject {
  readonly kind: 'Node'
  readonly name: string
  /**
   * By which addresses the cluster knows it: status.addresses of type InternalIP in order;
   * of a family that has none, those of type ExternalIP.
   */
  readonly internalIPs: readonly Address[]
  /** spec.podCIDRs, unless empty: the addresses of the pods that run there. */
  readonly podCIDRs?: readonly Cidr[]
  /** Label topology.kubernetes.io/zone, unless empty. */
  readonly zone?: string
  /** It is being deleted, or the cluster autoscaler will remove it (KEP-3836). */
  readonly leaving?: true
}

export type WatchedObject = ServiceObject | EndpointSliceObject | NodeObject
export type WatchedKind = WatchedObject['kind']

/**
 * A change that a source reports. `synced` comes once per kind, after the first full
 * list of that kind was delivered; until every kind is synced nothing may be pruned.
 */
export type SourceEvent =
  | { readonly type: 'upsert'; readonly object: WatchedObject }
  | { readonly type: 'delete'; readonly kind: WatchedKind; readonly key: ObjectKey }
  | { readonly type: 'synced'; readonly kind: WatchedKind }
  /** A part of the input was refused; the rest goes on. `where` names file and line, or the object. */
  | { readonly type: 'problem'; readonly where: string; readonly field: string; readonly message: string }
  | { readonly type: 'resolved'; readonly where: string }

/** What operators should know, from a source or from plan; `resolved` takes back all of `where`. */
export type ProblemEvent = Extract<SourceEvent, { readonly type: 'problem' | 'resolved' }>

/** Where desired objects come from: a directory of manifests or the API server. */
export interface Source {
  /**
   * Told before `start`: objects that an earlier run wrote down, and the Services that the
   * kernel still serves (namespace/name). The first lists delete what they lack of them,
   * unless they lack so much that they are not believed at once.
   */
  restore?(objects: readonly WatchedObject[], served: readonly ObjectKey[]): void
  /** For logs and `/healthz`, e.g. `dir:/etc/waggle` or `kube:https://10.0.0.1:6443`. */
  readonly name: string
  /**
   * Starts delivering events to `sink`, in batches, each applied as one. Resolves when
   * the source is running (not when synced). Never rejects for an outage: it retries.
   */
  start(sink: (events: readonly SourceEvent[]) => void): Promise<void>
  /** Ends all watches; no event follows. */
  stop(): Promise<void>
}
