import type { Scheduler } from '../../model/desired.js'
import { maglevTable, type Weighted } from './maglev.js'

/** A backend that a list is to have. */
export interface Member extends Weighted {
  /** Backend index. */
  readonly index: number
}

/** What a list is to become. */
export type ListTarget =
  /** Each backend in so many slots, wherever. */
  | { readonly kind: 'counts'; readonly counts: ReadonlyMap<number, number> }
  /** This backend in this slot: programs hash into the list. */
  | { readonly kind: 'table'; readonly slots: readonly number[] }

/** Slots of a weighted list, unless it has more backends: beyond it weights are rounded. */
const WEIGHTED_SLOTS_MAX = 4096

/** Whether the scheduler finds a connection's slot again, so that positions count. */
export function usesTable(scheduler: Scheduler): boolean {
  return scheduler === 'maglev' || scheduler === 'source-hash'
}

/** @param service name of the Service port, for tables */
export function listTarget(scheduler: Scheduler, service: string, members: readonly Member[]): ListTarget {
  if (!usesTable(scheduler)) return { kind: 'counts', counts: slotCounts(members) }
  const table = maglevTable(service, members)
  return { kind: 'table', slots: Array.from(table, position => (members[position] as Member).index) }
}

/** Slots of each backend in proportion to its weight, in the smallest whole numbers. */
export function slotCounts(members: readonly Member[]): Map<number, number> {
  const divisor = members.reduce((common, { weight }) => greatestCommonDivisor(common, weight), 0)
  const total = members.reduce((sum, { weight }) => sum + weight / divisor, 0)
  const scale = Math.min(1, Math.max(WEIGHTED_SLOTS_MAX, members.length) / total) / divisor
  return new Map(members.map(({ index, weight }) => [index, Math.max(1, Math.round(weight * scale))]))
}

/** The backends of a new list, those of several slots spread over it, so that taking turns is smooth. */
export function spread(counts: ReadonlyMap<number, number>): number[] {
  const places: { backend: number; at: number }[] = []
  for (const [backend, count] of counts) {
    for (let i = 0; i < count; i++) places.push({ backend, at: (2 * i + 1) / count })
  }
  // Stable: backends of equal counts keep their order.
  return places.sort((a, b) => a.at - b.at).map(({ backend }) => backend)
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}
