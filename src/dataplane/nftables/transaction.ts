import { nameHash } from '../rules/name-hash.js'
import type { Chain, Declaration, Element } from './content.js'

/** What the kernel holds of a table, as far as it is compared. */
export interface HeldTable {
  /** Names of sets and maps. */
  readonly sets: Set<string>
  /** Chains and the stamp of their rules; empty for a chain without rules or of unknown origin. */
  readonly chains: Map<string, string>
  /** Verdict by key, by container; an empty verdict in a set. */
  readonly elements: Map<string, Map<string, string>>
}

/** What is to change in a table. Removals name things that the kernel holds. */
export interface TableDelta {
  readonly addSets: ReadonlyMap<string, Declaration>
  /** Chains that are written whole. */
  readonly writeChains: ReadonlyMap<string, Chain>
  readonly addElements: readonly Element[]
  readonly removeElements: readonly Element[]
  /** Emptied at once; deleted by a later transaction, see {@link deletions}. */
  readonly emptyChains: readonly string[]
}

/** Characters of the hash with which a chain's first rule stamps them all. */
const STAMP_LENGTH = 10

/** Says by one word what a chain holds, so that a later run knows it without reading rules back. */
export function stampOf(chain: Chain): string {
  return chain.rules.length === 0 ? '' : nameHash(`${chain.hook}\n${chain.rules.join('\n')}`, STAMP_LENGTH)
}

/** The stamp in a comment that {@link stamped} wrote. */
export function stampIn(comment: string): string {
  return / ?#([A-Z2-7]{10})$/.exec(comment)?.[1] ?? ''
}

function stamped(rule: string, stamp: string): string {
  const found = /^(.*) comment "([^"]*)"$/.exec(rule)
  if (found === null) return `${rule} comment "#${stamp}"`
  const MAX_COMMENT = 128
  const room = MAX_COMMENT - stamp.length - 2
  return `${found[1]} comment "${(found[2] ?? '').slice(0, room)} #${stamp}"`
}

/** Input of `nft -f` for a change of the table `ip waggle`; one transaction. */
export function transaction(table: string, delta: TableDelta): string[] {
  const lines: string[] = []
  for (const [name, { kind, text }] of delta.addSets) lines.push(`add ${kind} ${table} ${name} ${text}`)
  for (const [name, { hook }] of delta.writeChains) lines.push(`add chain ${table} ${name}${hook && ` ${hook}`}`)
  for (const name of delta.writeChains.keys()) lines.push(`flush chain ${table} ${name}`)
  for (const [name, chain] of delta.writeChains) {
    const stamp = stampOf(chain)
    chain.rules.forEach((rule, i) => {
      lines.push(`add rule ${table} ${name} ${i === 0 ? stamped(rule, stamp) : rule}`)
    })
  }
  for (const { container, key } of delta.removeElements) lines.push(`delete element ${table} ${container} { ${key} }`)
  for (const { container, key, verdict } of delta.addElements) {
    lines.push(`add element ${table} ${container} { ${key}${verdict && ` : ${verdict}`} }`)
  }
  for (const name of delta.emptyChains) lines.push(`flush chain ${table} ${name}`)
  return lines
}

/**
 * Input of `nft -f` that deletes emptied chains and then sets that only they used. Some
 * time after they were emptied: before Linux 6.2 a chain that a map leads to until the
 * same transaction, or just before it, can be busy.
 */
export function deletions(table: string, chains: readonly string[], sets: readonly string[]): string[] {
  return [...chains.map(name => `delete chain ${table} ${name}`), ...sets.map(name => `delete set ${table} ${name}`)]
}

/** Chains, rules, sets and elements that a delta adds, changes or removes. */
export function writesOf(delta: TableDelta): number {
  let writes = delta.addSets.size + delta.addElements.length + delta.removeElements.length + delta.emptyChains.length
  for (const { rules } of delta.writeChains.values()) writes += 1 + rules.length
  return writes
}
