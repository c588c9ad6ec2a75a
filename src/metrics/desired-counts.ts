import type { DesiredState } from '../model/desired.js'

export interface DesiredCounts {
  readonly frontends: number
  readonly backends: number
  /** Service ports with internalTrafficPolicy Local and usable backends on other nodes only. */
  readonly noLocalInternal: number
  /** The same for externalTrafficPolicy, of those that can be reached from outside. */
  readonly noLocalExternal: number
}

/** Totals of a desired state. */
export function desiredCounts(state: DesiredState): DesiredCounts {
  let frontends = 0
  let backends = 0
  let noLocalInternal = 0
  let noLocalExternal = 0
  for (const port of state.services.values()) {
    frontends += port.frontends.length
    backends += port.backends.length
    const onlyElsewhere = port.backends.some(backend => backend.inCluster) && !port.backends.some(b => b.inLocal)
    if (!onlyElsewhere) continue
    if (port.internalLocal) noLocalInternal++
    if (port.externalLocal && port.frontends.some(frontend => frontend.kind !== 'ClusterIP')) noLocalExternal++
  }
  return { frontends, backends, noLocalInternal, noLocalExternal }
}
