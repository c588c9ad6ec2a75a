import type { ServicePort } from '../../model/desired.js'
import type { Chain, Declaration, Element, PortContent } from './content.js'
import { PORT_OBJECT } from './names.js'
import type { Skeleton } from './render.js'
import { type HeldTable, stampOf, type TableDelta } from './transaction.js'

/** A Service port and what it asks of the table. */
export interface Applied {
  readonly port: ServicePort
  readonly content: PortContent
}

/** What changes when Service ports change, and what is to be remembered once it has. */
export interface PortsDelta {
  readonly delta: TableDelta
  /** Sets that nobody uses any more. */
  readonly unusedSets: readonly string[]
  /** Chains and sets that are in use. */
  readonly alive: ReadonlySet<string>
  /** How many Service ports ask for an element now, by {@link elementKey}; 0 = none. */
  readonly asked: ReadonlyMap<string, number>
}

type MutableDelta = {
  readonly addSets: Map<string, Declaration>
  readonly writeChains: Map<string, Chain>
  readonly addElements: Element[]
  readonly removeElements: Element[]
  readonly emptyChains: string[]
}

function emptyDelta(): MutableDelta {
  return { addSets: new Map(), writeChains: new Map(), addElements: [], removeElements: [], emptyChains: [] }
}

/** Names an element in the whole table. */
export function elementKey({ container, key }: Pick<Element, 'container' | 'key'>): string {
  return `${container} ${key}`
}

/** What the skeleton has and the table lacks; pure. */
export function skeletonDelta(held: HeldTable, { sets, chains }: Skeleton): TableDelta {
  const delta = emptyDelta()
  for (const [name, declaration] of sets) if (!held.sets.has(name)) delta.addSets.set(name, declaration)
  for (const [name, chain] of chains) if (held.chains.get(name) !== stampOf(chain)) delta.writeChains.set(name, chain)
  return delta
}

/**
 * From what is applied to the candidates, undefined ones being Service ports that go; pure.
 * Work is proportional to the candidates. `asked` counts who asks for an element, as two
 * Service ports may have an address in common.
 */
export function portsDelta(
  held: HeldTable,
  applied: ReadonlyMap<string, Applied>,
  asked: ReadonlyMap<string, number>,
  candidates: ReadonlyMap<string, Applied | undefined>,
): PortsDelta {
  const delta = emptyDelta()
  const alive = new Set<string>()
  for (const next of candidates.values()) {
    for (const [name, chain] of next?.content.chains ?? []) {
      alive.add(name)
      if (held.chains.get(name) !== stampOf(chain)) delta.writeChains.set(name, chain)
    }
    for (const [name, declaration] of next?.content.sets ?? []) {
      alive.add(name)
      if (!held.sets.has(name)) delta.addSets.set(name, declaration)
    }
  }
  const unusedSets: string[] = []
  for (const id of candidates.keys()) {
    const before = applied.get(id)?.content
    for (const name of before?.chains.keys() ?? []) if (!alive.has(name)) delta.emptyChains.push(name)
    for (const name of before?.sets.keys() ?? []) if (!alive.has(name)) unusedSets.push(name)
  }
  const counts = changeElements(held, applied, asked, candidates, delta)
  return { delta, unusedSets, alive, asked: counts }
}

function changeElements(
  held: HeldTable,
  applied: ReadonlyMap<string, Applied>,
  asked: ReadonlyMap<string, number>,
  candidates: ReadonlyMap<string, Applied | undefined>,
  delta: MutableDelta,
): Map<string, number> {
  const touched = new Map<string, { element: Element; count: number }>()
  const ask = (element: Element, by: number) => {
    const key = elementKey(element)
    const before = touched.get(key)
    const count = (before?.count ?? asked.get(key) ?? 0) + by
    // Who asks for it now says where it leads.
    touched.set(key, { element: by > 0 ? element : (before?.element ?? element), count })
  }
  for (const id of candidates.keys()) for (const each of applied.get(id)?.content.elements ?? []) ask(each, -1)
  for (const next of candidates.values()) for (const each of next?.content.elements ?? []) ask(each, 1)
  for (const { element, count } of touched.values()) {
    const present = held.elements.get(element.container)?.get(element.key)
    if (present !== undefined && (count <= 0 || present !== element.verdict)) {
      delta.removeElements.push({ ...element, verdict: present })
    }
    if (count > 0 && present !== element.verdict) delta.addElements.push(element)
  }
  return new Map([...touched].map(([key, { count }]) => [key, Math.max(0, count)]))
}

/** What an earlier run left and nobody asks for; pure. */
export function straysDelta(
  held: HeldTable,
  applied: ReadonlyMap<string, Applied>,
  asked: ReadonlyMap<string, number>,
): PortsDelta {
  const delta = emptyDelta()
  for (const [container, elements] of held.elements) {
    for (const [key, verdict] of elements) {
      if (!asked.has(elementKey({ container, key }))) delta.removeElements.push({ container, key, verdict })
    }
  }
  const alive = new Set<string>()
  for (const { content } of applied.values()) {
    for (const name of content.chains.keys()) alive.add(name)
    for (const name of content.sets.keys()) alive.add(name)
  }
  const isStray = (name: string) => PORT_OBJECT.test(name) && !alive.has(name)
  delta.emptyChains.push(...[...held.chains.keys()].filter(isStray))
  return { delta, unusedSets: [...held.sets].filter(isStray), alive, asked: new Map() }
}

/** The candidate to which a line of a transaction belongs: by its chain, its set, or its element. */
export function ownerOfLine(line: string, candidates: ReadonlyMap<string, Applied | undefined>): string | undefined {
  const [, , , , name = ''] = line.split(' ')
  for (const [id, next] of candidates) {
    if (next === undefined) continue
    const { chains, sets, elements } = next.content
    if (chains.has(name) || sets.has(name)) return id
    if (elements.some(({ container, key }) => container === name && line.includes(`{ ${key}`))) return id
  }
  return undefined
}
