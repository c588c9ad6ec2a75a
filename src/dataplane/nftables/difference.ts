import type { DesiredState } from '../../model/desired.js'
import { localOf } from '../rules/local-match.js'
import { type Applied, portsDelta, skeletonDelta, straysDelta } from './delta.js'
import { type RenderOptions, skeleton } from './render.js'
import { renderPort } from './render-port.js'
import type { HeldTable, TableDelta } from './transaction.js'

/** What is on one side alone, by Service port; an empty id where it is nobody's. */
export type ContentByPort = ReadonlyMap<string, ReadonlySet<string>>

/**
 * Chains and elements in which a table differs from what is wanted; pure. Chains are told
 * apart by their stamps, so one that differs is on both sides.
 */
export function tableDifference(
  held: HeldTable,
  desired: DesiredState,
  options: RenderOptions,
): { readonly wanted: ContentByPort; readonly held: ContentByPort } {
  const local = localOf(desired, options)
  const wanted = new Map<string, Set<string>>()
  const extra = new Map<string, Set<string>>()
  const add = (into: Map<string, Set<string>>, id: string, what: string) =>
    void into.set(id, (into.get(id) ?? new Set<string>()).add(what))
  const note = (id: string, delta: TableDelta) => {
    for (const name of delta.addSets.keys()) add(wanted, id, `set ${name}`)
    for (const [name, { rules }] of delta.writeChains) {
      add(wanted, id, `chain ${name} { ${rules.join(' ; ')} }`)
      if (held.chains.has(name)) add(extra, id, `chain ${name} with other rules`)
    }
    for (const { container, key, verdict } of delta.removeElements) add(extra, id, elementText(container, key, verdict))
    for (const { container, key, verdict } of delta.addElements) add(wanted, id, elementText(container, key, verdict))
    for (const name of delta.emptyChains) add(extra, id, `chain ${name}`)
  }
  note('', skeletonDelta(held, skeleton(options, local)))
  const applied = new Map<string, Applied>()
  const asked = new Map<string, number>()
  for (const port of desired.services.values()) {
    if (port.family !== options.family) continue
    const next: Applied = { port, content: renderPort(port, local) }
    const change = portsDelta(held, new Map(), new Map(), new Map([[port.id, next]]))
    note(port.id, change.delta)
    applied.set(port.id, next)
    for (const [key, count] of change.asked) asked.set(key, count)
  }
  note('', straysDelta(held, applied, asked).delta)
  return { wanted, held: extra }
}

function elementText(container: string, key: string, verdict: string): string {
  return `element ${container} ${key}${verdict && ` : ${verdict}`}`
}
