import { type RunTool, ToolError } from '../rules/run-tool.js'
import { type HeldTable, stampIn } from './transaction.js'

/** Hooks of base chains beside it, for a look whether they are ours: `nat prerouting -100`. */
export interface ListedTable extends HeldTable {
  readonly hooks: ReadonlyMap<string, string>
}

type Json = Record<string, unknown>

/** A table such as `ip waggle` as `nft -j` lists it; undefined when the kernel does not have it. @throws ToolError */
export async function listTable(run: RunTool, table: string): Promise<string | undefined> {
  return list(run, ['list', 'table', ...table.split(' ')])
}

/** The same of one chain. */
export async function listChain(run: RunTool, table: string, chain: string): Promise<string | undefined> {
  return list(run, ['list', 'chain', ...table.split(' '), chain])
}

async function list(run: RunTool, args: readonly string[]): Promise<string | undefined> {
  try {
    return await run('nft', ['-j', ...args])
  } catch (error) {
    if (error instanceof ToolError && error.message.includes('No such file or directory')) return undefined
    throw error
  }
}

/** Reads `nft -j list table`. */
export function readTable(text: string): ListedTable {
  const held: ListedTable = { sets: new Set(), chains: new Map(), elements: new Map(), hooks: new Map() }
  const hooks = held.hooks as Map<string, string>
  for (const entry of (JSON.parse(text) as { nftables: Json[] }).nftables) {
    const [[kind, value] = ['', {}]] = Object.entries(entry) as [string, Json][]
    if (kind === 'chain') {
      const name = String(value.name)
      held.chains.set(name, '')
      if (value.hook !== undefined) hooks.set(name, `${value.type} ${value.hook} ${value.prio}`)
    } else if (kind === 'rule') {
      // The first rule of a chain has the stamp of all; listed in their order.
      const stamp = stampIn(String(value.comment ?? ''))
      if (stamp !== '') held.chains.set(String(value.chain), stamp)
    } else if (kind === 'set' || kind === 'map') {
      held.sets.add(String(value.name))
      const dynamic = (value.flags as string[] | undefined)?.includes('timeout') === true
      if (!dynamic) held.elements.set(String(value.name), new Map(elementsOf(value.elem)))
    }
  }
  return held
}

function* elementsOf(elements: unknown): Generator<[string, string]> {
  if (!Array.isArray(elements)) return
  for (const element of elements) {
    if (Array.isArray(element)) yield [keyText(element[0]), verdictText(element[1])]
    else yield [keyText(element), '']
  }
}

function keyText(key: unknown): string {
  const parts = typeof key === 'object' ? ((key as { concat?: unknown[] }).concat ?? [key]) : [key]
  return parts.map(String).join(' . ')
}

function verdictText(verdict: unknown): string {
  const [[word, detail] = ['', null]] = Object.entries(verdict as Json)
  const target = (detail as { target?: string } | null)?.target
  return target === undefined ? word : `${word} ${target}`
}
