import type { Backend, Frontend, ServicePort, SourceRanges } from '../model/desired.js'
import { compareEndpoints } from './endpoints.js'
import { compareFrontends } from './service-ports.js'

/**
 * `next`, with every part that equals the same part of `previous` replaced by it: whole
 * Service port, lists, single entries. So `===` tells whether there is work.
 */
export function keepIdentity(previous: ServicePort | undefined, next: ServicePort): ServicePort {
  if (previous === undefined || previous === next) return next
  const frontends = keepList(previous.frontends, next.frontends, compareFrontends, sameFrontend)
  const backends = keepList(previous.backends, next.backends, compareEndpoints, sameBackend)
  if (frontends === previous.frontends && backends === previous.backends && sameSettings(previous, next))
    return previous
  return { ...next, frontends, backends }
}

function sameSettings(a: ServicePort, b: ServicePort): boolean {
  return (
    a.id === b.id &&
    a.scheduler === b.scheduler &&
    a.affinitySeconds === b.affinitySeconds &&
    a.internalLocal === b.internalLocal &&
    a.externalLocal === b.externalLocal &&
    a.healthCheckNodePort === b.healthCheckNodePort &&
    sameSourceRanges(a.sourceRanges, b.sourceRanges)
  )
}

function sameSourceRanges(a: SourceRanges | undefined, b: SourceRanges | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return a.node === b.node && a.pods === b.pods && a.ranges.join() === b.ranges.join()
}

function sameFrontend(a: Frontend, b: Frontend): boolean {
  return a.kind === b.kind && a.address === b.address && a.port === b.port
}

function sameBackend(a: Backend, b: Backend): boolean {
  return (
    a.address === b.address &&
    a.port === b.port &&
    a.local === b.local &&
    a.inCluster === b.inCluster &&
    a.inLocal === b.inLocal &&
    a.weight === b.weight
  )
}

/** Both lists are sorted by `compare` and without duplicates: one walk pairs them. */
function keepList<T>(
  previous: readonly T[],
  next: readonly T[],
  compare: (a: T, b: T) => number,
  same: (a: T, b: T) => boolean,
): readonly T[] {
  let at = 0
  const kept = next.map(entry => {
    let old = previous[at]
    while (old !== undefined && compare(old, entry) < 0) old = previous[++at]
    return old !== undefined && same(old, entry) ? old : entry
  })
  return kept.length === previous.length && kept.every((entry, i) => entry === previous[i]) ? previous : kept
}
