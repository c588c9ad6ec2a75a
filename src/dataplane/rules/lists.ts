import type { Backend, ServicePort } from '../../model/desired.js'

/** Which backends the frontends of a Service port lead to; what rules for each of them are made of. */
export interface Lists {
  readonly cluster: readonly Backend[]
  readonly local: readonly Backend[]
  /** What the internal policy leaves: the ClusterIP's. */
  readonly internal: readonly Backend[]
  /** What the external policy leaves: every other frontend's, for clients outside. */
  readonly external: readonly Backend[]
  /** Some backend is usable by some policy: who finds none meets silence then, not a refusal. */
  readonly some: boolean
  /** It has frontends besides the ClusterIP; without them the external policy says nothing. */
  readonly isExternal: boolean
  /** A rule leads to this list; pods and the node dial past an external policy, so the cluster's is there for them. */
  readonly usesCluster: boolean
  readonly usesLocal: boolean
}

export function listsOf({ backends, frontends, internalLocal, externalLocal }: ServicePort): Lists {
  const cluster = backends.filter(each => each.inCluster)
  const local = backends.filter(each => each.inLocal)
  const isExternal = frontends.some(each => each.kind !== 'ClusterIP')
  return {
    cluster,
    local,
    internal: internalLocal ? local : cluster,
    external: externalLocal ? local : cluster,
    some: cluster.length > 0 || local.length > 0,
    isExternal,
    usesCluster: cluster.length > 0 && (!internalLocal || isExternal),
    usesLocal: local.length > 0 && (internalLocal || (externalLocal && isExternal)),
  }
}
