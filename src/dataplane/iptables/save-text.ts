/** One table as `iptables-save` prints it. */
export interface SavedTable {
  /** Rules by chain, built-in chains included, each as `-A CHAIN …`. */
  readonly chains: ReadonlyMap<string, readonly string[]>
}

/** Reads `iptables-save`; counters and comments are left out. */
export function readSave(text: string): ReadonlyMap<string, SavedTable> {
  const tables = new Map<string, SavedTable>()
  let chains = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      chains = new Map()
      tables.set(line.slice(1), { chains })
    } else if (line.startsWith(':')) chains.set(line.slice(1, line.indexOf(' ')), [])
    else if (line.startsWith('-A ')) chains.get(chainOf(line))?.push(line.trimEnd())
  }
  return tables
}

/** The chain that a rule is in. */
export function chainOf(rule: string): string {
  return rule.slice(3, rule.indexOf(' ', 3))
}

/** The chain that a rule leads to, if it is one of Kubernetes. */
export function targetOf(rule: string): string | undefined {
  return / -j (KUBE-[A-Z0-9-]+)$/.exec(rule)?.[1]
}
