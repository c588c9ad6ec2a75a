import { PORT_CHAIN } from './names.js'
import type { Rendered, Table, WantedTables } from './render.js'
import { TABLES } from './render.js'
import { type SavedTable, targetOf } from './save-text.js'

/** Rules of one side by Service port; those of none have an empty id. */
export type RulesByPort = ReadonlyMap<string, ReadonlySet<string>>

/**
 * Wanted rules and those that the kernel holds in chains of ours, each as `TABLE RULE`, by
 * the Service port that they belong to. What the kernel has alone belongs to the Service port
 * whose chain it is in or leads to, if that is still known; pure.
 */
export function rulesByPort(
  held: ReadonlyMap<string, SavedTable>,
  wanted: WantedTables,
  ports: readonly Rendered[],
): { readonly wanted: RulesByPort; readonly held: RulesByPort } {
  const ownerOfLine = new Map<string, string>()
  const ownerOfChain = new Map<string, string>()
  for (const { port, rules } of ports) {
    const { chains, services, nodePorts, ...filter } = rules
    const own = (table: Table, lines: readonly string[]) => {
      for (const line of lines) ownerOfLine.set(`${table} ${line}`, port.id)
    }
    for (const [chain, lines] of chains) {
      ownerOfChain.set(chain, port.id)
      own('nat', lines)
    }
    own('nat', [...services, ...nodePorts])
    own('filter', Object.values(filter).flat())
  }
  const sort = (pick: (table: Table) => Iterable<readonly [string, readonly string[]]>) => {
    const facts = new Map<string, Set<string>>()
    for (const table of TABLES) {
      for (const [chain, lines] of pick(table)) {
        for (const line of lines) {
          const known = ownerOfLine.get(`${table} ${line}`)
          const owner = known ?? ownerOfChain.get(chain) ?? ownerOfChain.get(targetOf(line) ?? '') ?? ''
          const rules = facts.get(owner) ?? new Set<string>()
          facts.set(owner, rules.add(`${table} ${line}`))
        }
      }
    }
    return facts
  }
  const isOurs = (table: Table, chain: string) => PORT_CHAIN.test(chain) || wanted[table].chains.has(chain)
  const isJump = (table: Table, line: string) => wanted[table].jumps.includes(line)
  return {
    wanted: sort(table => [...wanted[table].chains, ['', wanted[table].jumps]]),
    held: sort(table =>
      [...(held.get(table)?.chains ?? [])].map(([chain, lines]) =>
        isOurs(table, chain) ? ([chain, lines] as const) : (['', lines.filter(line => isJump(table, line))] as const),
      ),
    ),
  }
}
