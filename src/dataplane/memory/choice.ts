import type { Address } from '../../model/address.js'
import { type Packet, tupleKey } from './packet.js'
import type { MemoryBackend, MemoryFrontend, MemoryService, MemoryServices } from './services.js'

/** The backends that a new flow may get, or why there is none. */
export type Choice =
  | { readonly refusal: 'no_backend' | 'no_local_backend' }
  /** `take` says of which of `backends` it was one, as far as that could be seen. */
  | { readonly backends: readonly MemoryBackend[]; take(given: readonly MemoryBackend[]): void }

/** Around the end of an affinity both answers are right: clocks differ. */
const TOLERANCE_SECONDS = 1

/**
 * Which list binds this client? ClusterIPs the internal policy; all others the external
 * one, for clients outside the cluster alone (docs/packet-path.md, "Traffic policies").
 */
export function isBoundToNode(services: MemoryServices, { service, kind }: MemoryFrontend, client: Address): boolean {
  const { internalLocal, externalLocal } = service.desired
  return kind === 'ClusterIP' ? internalLocal : externalLocal && !services.isPod(client)
}

export function chooseBackend(service: MemoryService, local: boolean, packet: Packet, now: number): Choice {
  const all = [...service.backends.values()]
  const usable = ({ desired }: MemoryBackend) => (local ? desired.inLocal : desired.inCluster)
  const list = all.filter(usable)
  if (list.length === 0) {
    const elsewhere = local && all.some(({ desired }) => desired.inCluster)
    return { refusal: elsewhere ? 'no_local_backend' : 'no_backend' }
  }
  const { affinitySeconds } = service.desired
  if (affinitySeconds === 0) return byScheduler(service, local, list, packet)
  const client = packet.tuple.src
  const last = service.affinities.get(client)
  const left = last === undefined ? -Infinity : affinitySeconds - (now - last.seen)
  const bound = left > -TOLERANCE_SECONDS ? (last?.backends ?? []).filter(each => !each.removed && usable(each)) : []
  const take = (given: readonly MemoryBackend[]) => service.affinities.set(client, { backends: given, seen: now })
  if (bound.length > 0 && bound.length === last?.backends.length && left > TOLERANCE_SECONDS) {
    return { backends: bound, take }
  }
  // It may be that none of those it can have been given counts any more.
  const scheduled = byScheduler(service, local, list, packet)
  return {
    backends: [...new Set([...bound, ...scheduled.backends])],
    take(given) {
      take(given)
      if (bound.length === 0) scheduled.take(given)
    },
  }
}

function byScheduler(
  service: MemoryService,
  local: boolean,
  list: readonly MemoryBackend[],
  packet: Packet,
): Extract<Choice, { backends: unknown }> {
  const { scheduler } = service.desired
  if (scheduler !== 'source-hash' && scheduler !== 'maglev') return { backends: list, take() {} }
  const who = scheduler === 'source-hash' ? packet.tuple.src : tupleKey(packet.tuple)
  const key = `${local ? 'local' : 'cluster'} ${who}`
  const known = service.hashed.get(key)
  return {
    backends: known ? [known] : list,
    take([only, ...others]) {
      if (only && others.length === 0) service.hashed.set(key, only)
    },
  }
}
