import type { DesiredState } from '../../model/desired.js'
import { localOf } from '../rules/local-match.js'
import type { Chain, Element } from './content.js'
import { type RenderOptions, skeleton } from './render.js'
import { renderPort, wordsOf } from './render-port.js'
import { transaction } from './transaction.js'

/** A whole table. */
export interface RenderedTable {
  /** `ip waggle` */
  readonly name: string
  readonly chains: ReadonlyMap<string, Chain>
  readonly elements: readonly Element[]
  /** Input of `nft -f` that makes it where there is none. */
  readonly lines: readonly string[]
}

/** The table for a desired state: what `waggle render` prints; pure. */
export function renderTable(state: DesiredState, options: RenderOptions, table: string): RenderedTable {
  const local = localOf(state, options)
  const { sets, chains } = skeleton(options, local)
  const allSets = new Map(sets)
  const allChains = new Map(chains)
  const elements = new Map<string, Element>()
  const ports = [...state.services.values()].filter(each => each.family === options.family)
  for (const port of ports.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const content = renderPort(port, local)
    for (const [name, declaration] of content.sets) allSets.set(name, declaration)
    for (const [name, chain] of content.chains) allChains.set(name, chain)
    for (const element of content.elements) elements.set(`${element.container} ${element.key}`, element)
  }
  const name = `${wordsOf(options.family).ip} ${table}`
  const lines = transaction(name, {
    addSets: allSets,
    writeChains: allChains,
    addElements: [...elements.values()],
    removeElements: [],
    emptyChains: [],
  })
  return { name, chains: allChains, elements: [...elements.values()], lines: [`add table ${name}`, ...lines] }
}
