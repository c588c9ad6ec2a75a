import type { Config } from '../config/config.js'
import { LAYOUTS } from '../dataplane/iptables/profile.js'
import { render, TABLES } from '../dataplane/iptables/render.js'
import { NFTABLES_TABLE } from '../dataplane/nftables/cleanup.js'
import { renderTable } from '../dataplane/nftables/render-table.js'
import type { Family } from '../model/address.js'
import type { DesiredState } from '../model/desired.js'
import { planFromDir } from './offline.js'
import { ruleSettings } from './rule-settings.js'

/** The rules of one family. */
export interface RenderedFamily {
  readonly family: Family
  readonly tables: readonly RenderedTable[]
  /** The same as input of `iptables-restore --noflush` or `nft -f`. */
  readonly text: string
}

export interface RenderedTable {
  readonly table: string
  readonly chains: readonly { readonly chain: string; readonly rules: readonly string[] }[]
  /** iptables: rules in built-in chains that lead to those. */
  readonly jumps?: readonly string[]
  /** nftables: what sets and maps hold. */
  readonly elements?: readonly { readonly container: string; readonly key: string; readonly verdict: string }[]
}

/** The rules of `config.dataplane` for the manifests in a folder. @throws DaemonError when it cannot be read */
export async function renderFolder(path: string, config: Config, families: readonly Family[]) {
  const { state, problems } = await planFromDir(path, config)
  const rendered = families.map(family =>
    config.dataplane === 'nftables' ? nftables(state, config, family) : iptables(state, config, family),
  )
  return {
    rendered,
    problems,
  }
}

function iptables(state: DesiredState, config: Config, family: Family): RenderedFamily {
  const layout = LAYOUTS[config.iptablesProfile]
  const wanted = render(state, { ...ruleSettings(config), family, layout, randomFully: true, liberalConntrack: false })
  const tables = TABLES.map(table => {
    const { chains, jumps } = wanted[table]
    return { table, chains: [...chains].map(([chain, rules]) => ({ chain, rules })), jumps }
  })
  const text = tables.map(({ table, chains, jumps }) => {
    const declared = chains.map(({ chain }) => `:${chain} - [0:0]`)
    const rules = chains.flatMap(each => each.rules)
    return [`*${table}`, ...declared, ...jumps, ...rules, 'COMMIT', ''].join('\n')
  })
  return { family, tables, text: text.join('') }
}

function nftables(state: DesiredState, config: Config, family: Family): RenderedFamily {
  const { name, chains, elements, lines } = renderTable(state, { ...ruleSettings(config), family }, NFTABLES_TABLE)
  const listed = [...chains].map(([chain, { rules }]) => ({ chain, rules }))
  return { family, tables: [{ table: name, chains: listed, elements }], text: `${lines.join('\n')}\n` }
}
