import { PORT_CHAIN } from './names.js'
import { KUBELET_CHAINS, type WantedTable } from './render.js'
import { chainOf, type SavedTable, targetOf } from './save-text.js'

/** What is written for one table: lines of iptables-restore between `*table` and `COMMIT`. */
export interface TableChange {
  readonly table: string
  readonly lines: readonly string[]
  /** Rules and chains added, changed or removed. */
  readonly writes: number
  /** Chains that hold something else afterwards; undefined = gone. */
  readonly after: ReadonlyMap<string, readonly string[] | undefined>
}

/**
 * The lines that make a table hold what is wanted. A chain that differs is written whole,
 * in one transaction with all others, so that no packet meets half of it; chains that are
 * equal are not named. While `prune` is false nothing of what is there goes: rules of
 * Service ports that are not known yet stay, and so do their chains.
 */
export function tableChange(table: string, held: SavedTable, wanted: WantedTable, prune: boolean): TableChange {
  const declared: string[] = []
  const rules: string[] = []
  const removed: string[] = []
  const after = new Map<string, readonly string[] | undefined>()
  for (const [chain, lines] of wanted.chains) {
    const present = held.chains.get(chain)
    const keeps = present !== undefined && !prune && !PORT_CHAIN.test(chain)
    const next = keeps ? keepUnknown(present, lines) : lines
    if (present !== undefined && (KUBELET_CHAINS.has(chain) || sameLines(present, next))) continue
    declared.push(`:${chain} - [0:0]`)
    for (const line of next) rules.push(line)
    after.set(chain, next)
  }
  const jumps = wanted.jumps.filter(line => held.chains.get(chainOf(line))?.includes(line) !== true)
  if (prune) {
    for (const chain of held.chains.keys()) {
      if (!PORT_CHAIN.test(chain) || wanted.chains.has(chain)) continue
      declared.push(`:${chain} - [0:0]`)
      removed.push(`-X ${chain}`)
      after.set(chain, undefined)
    }
  }
  for (const line of jumps) {
    const chain = chainOf(line)
    after.set(chain, [line, ...(after.get(chain) ?? held.chains.get(chain) ?? [])])
  }
  const lines = [...declared, ...rules, ...jumps.map(line => line.replace(/^-A/, '-I')), ...removed]
  return { table, lines, writes: declared.length + rules.length + jumps.length, after }
}

/** Wanted rules, then those that are there and lead to a Service port that is not among them. */
function keepUnknown(present: readonly string[], wanted: readonly string[]): readonly string[] {
  const known = new Set(wanted.map(targetOf))
  const kept = present.filter(line => {
    const target = targetOf(line)
    return target !== undefined && PORT_CHAIN.test(target) && !known.has(target)
  })
  if (kept.length === 0) return wanted
  // The jump to the node ports has to stay behind all of them.
  const last = wanted.findIndex(line => targetOf(line) === 'KUBE-NODEPORTS')
  return last < 0 ? [...wanted, ...kept] : [...wanted.slice(0, last), ...kept, ...wanted.slice(last)]
}

function sameLines(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((line, i) => line === b[i]))
}

/** What takes everything of ours out of all tables, and the chains that go, as `table chain`. */
export function removals(tables: ReadonlyMap<string, SavedTable>): { text: string; chains: readonly string[] } {
  const gone: string[] = []
  let text = ''
  for (const [table, held] of tables) {
    const { lines, chains } = tableRemoval(held)
    if (lines.length > 0) text += block(table, lines)
    gone.push(...chains.map(chain => `${table} ${chain}`))
  }
  return { text, chains: gone }
}

function tableRemoval(held: SavedTable): { lines: readonly string[]; chains: readonly string[] } {
  const ours = new Set([...held.chains.keys()].filter(chain => PORT_CHAIN.test(chain) || OWN_CHAINS.has(chain)))
  const leading: string[] = []
  /** Chains that somebody else's rules lead to, such as the kubelet's to the mark. */
  const needed = new Set<string>()
  for (const [chain, lines] of held.chains) {
    if (ours.has(chain)) continue
    for (const line of lines) {
      const target = targetOf(line)
      if (target === undefined) continue
      if (JUMPED_TO.has(target) && !chain.startsWith('KUBE-')) leading.push(line.replace(/^-A/, '-D'))
      else needed.add(target)
    }
  }
  const gone = [...ours].filter(chain => !needed.has(chain))
  return {
    lines: [...gone.map(chain => `:${chain} - [0:0]`), ...leading, ...gone.map(chain => `-X ${chain}`)],
    chains: gone,
  }
}

/** Input of iptables-restore for one table. */
export function block(table: string, lines: readonly string[]): string {
  return `*${table}\n${lines.join('\n')}\nCOMMIT\n`
}

/** Chains that we lead to from built-in ones. */
const JUMPED_TO: ReadonlySet<string> = new Set([
  'KUBE-SERVICES',
  'KUBE-EXTERNAL-SERVICES',
  'KUBE-NODEPORTS',
  'KUBE-POSTROUTING',
  'KUBE-FORWARD',
  'KUBE-PROXY-FIREWALL',
])

/** KUBE-FIREWALL and KUBE-MARK-DROP are not here: they are the kubelet's, too. */
const OWN_CHAINS: ReadonlySet<string> = new Set([...JUMPED_TO, 'KUBE-MARK-MASQ', 'KUBE-PROXY-CANARY'])
