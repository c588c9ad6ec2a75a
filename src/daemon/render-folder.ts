import type { Config } from '../config/config.js'
import { LAYOUTS } from '../dataplane/iptables/profile.js'
import { type RenderOptions, render, TABLES, type WantedTables } from '../dataplane/iptables/render.js'
import type { Family } from '../model/address.js'
import { planFromDir } from './offline.js'

/** The rules of one family. */
export interface RenderedFamily {
  readonly family: Family
  readonly tables: readonly {
    readonly table: string
    /** Rules in built-in chains that lead to those. */
    readonly jumps: readonly string[]
    readonly chains: readonly { readonly chain: string; readonly rules: readonly string[] }[]
  }[]
  /** The same as input of `iptables-restore --noflush`. */
  readonly text: string
}

/** The rules of the iptables dataplane for the manifests in a folder. @throws DaemonError when it cannot be read */
export async function renderFolder(path: string, config: Config, families: readonly Family[]) {
  const { state, problems } = await planFromDir(path, config)
  const rendered = families.map((family): RenderedFamily => {
    const options: RenderOptions = {
      family,
      layout: LAYOUTS[config.iptablesProfile],
      masqueradeAll: config.masqueradeAll,
      randomFully: true,
      anyNodeAddress: config.nodePortAddresses.includes('all'),
      localhostNodePorts: config.localhostNodePorts,
      liberalConntrack: false,
    }
    return renderedFamily(family, render(state, options))
  })
  return {
    rendered,
    problems: problems.flatMap(each => (each.type === 'problem' ? `${each.where} ${each.field}: ${each.message}` : [])),
  }
}

function renderedFamily(family: Family, wanted: WantedTables): RenderedFamily {
  const tables = TABLES.map(table => {
    const { chains, jumps } = wanted[table]
    return { table, chains: [...chains].map(([chain, rules]) => ({ chain, rules })), jumps }
  })
  const text = tables.map(({ table, chains, jumps }) => {
    const declared = chains.map(({ chain }) => `:${chain} - [0:0]`)
    const rules = chains.flatMap(each => each.rules)
    return [`*${table}`, ...declared, ...jumps, ...rules, 'COMMIT', ''].join('\n')
  })
  return {
    family,
    tables,
    text: text.join(''),
  }
}
