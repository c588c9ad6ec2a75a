import type { DesiredState, ServicePort } from '../../model/desired.js'
import { type FamilyReport, type FamilyRules, familyReport } from '../rules/rules-dataplane.js'
import { type RunTool, ToolError } from '../rules/run-tool.js'
import { RefusedLine, writeMost } from '../rules/write-most.js'
import type { Chain, Declaration, Element, PortContent } from './content.js'
import { type ListedTable, readTable } from './list-text.js'
import { PORT_OBJECT } from './names.js'
import { localOf, type RenderOptions, skeleton } from './render.js'
import { type LocalMatch, renderPort, wordsOf } from './render-port.js'
import { deletions, type HeldTable, stampOf, type TableDelta, transaction, writesOf } from './transaction.js'

/** Until emptied chains are deleted. */
const DYING_MS = 1000

interface Applied {
  readonly port: ServicePort
  readonly content: PortContent
}

/**
 * The table of one family: what the kernel holds of it, and the way to what is wanted,
 * one transaction for each apply. Work and transaction are proportional to the change.
 */
export class NftablesFamily implements FamilyRules {
  readonly #run: RunTool
  readonly #options: RenderOptions
  /** `ip waggle` */
  readonly #table: string
  readonly #applied = new Map<string, Applied>()
  /** How many Service ports ask for an element, by container and key. */
  readonly #asked = new Map<string, number>()
  /** Undefined: it has to be read. */
  #held: HeldTable | undefined
  #local: LocalMatch | undefined
  /** Emptied chains, and sets that nothing uses any more. */
  #dying: { readonly chains: Set<string>; readonly sets: Set<string>; at: number } | undefined

  constructor(run: RunTool, options: RenderOptions, name: string) {
    this.#run = run
    this.#options = options
    this.#table = `${wordsOf(options.family).ip} ${name}`
  }

  /** Reads what the kernel holds anew before the next apply, and compares everything. */
  distrust(): void {
    this.#held = undefined
  }

  /** Whether somebody flushed the table since it was written; true before the first apply. */
  async isLost(): Promise<boolean> {
    if (this.#held === undefined) return true
    const chain = await this.#list(['list', 'chain', ...this.#table.split(' '), 'services'])
    return chain === undefined || readTable(chain).chains.get('services') === ''
  }

  /** Brings the ids `changed`, or all, to `state`. @throws ToolError when nothing could be written */
  async apply(
    state: DesiredState,
    changed: ReadonlySet<string> | undefined,
    prune: boolean,
    now: number,
  ): Promise<FamilyReport> {
    const local = localOf(state, this.#options)
    const all = this.#held === undefined || JSON.stringify(local) !== JSON.stringify(this.#local)
    this.#local = local
    let writes = 0
    try {
      if (all) writes += await this.#begin(local)
      const candidates = this.#candidates(state, all ? undefined : changed, prune, all)
      const failed = new Map<string, Error>()
      writes += await writeMost(
        candidates,
        {
          write: part => this.#write(part, now),
          ownerOf: (line, part) => ownerOf(line, part),
          isVague: () => false,
        },
        failed,
      )
      if (all && prune) writes += await this.#removeStrays(now)
      const counts = { writes, services: candidates.size }
      return familyReport(counts, failed, state.revision, id => this.#applied.has(id))
    } catch (error) {
      this.distrust()
      throw error
    }
  }

  /** Deletes what was emptied a while ago; resolves when nothing is due. @throws ToolError */
  async bury(now: number): Promise<void> {
    const dying = this.#dying
    if (dying === undefined || now - dying.at < DYING_MS) return
    this.#dying = undefined
    for (const name of dying.chains) this.#held?.chains.delete(name)
    for (const name of dying.sets) this.#held?.sets.delete(name)
    await this.#load(deletions(this.#table, [...dying.chains], [...dying.sets]))
  }

  /** Reads the table, and writes the skeleton where it differs. */
  async #begin(local: LocalMatch | undefined): Promise<number> {
    const wanted = skeleton(this.#options, local)
    const text = this.#held === undefined ? await this.#list(['list', 'table', ...this.#table.split(' ')]) : undefined
    const lines: string[] = []
    if (this.#held === undefined) {
      let listed: ListedTable | undefined = text === undefined ? undefined : readTable(text)
      if (listed !== undefined && !sameHooks(listed, wanted.chains)) {
        // Of another version: nothing of it can be kept, and no packet meets the time between.
        lines.push(`delete table ${this.#table}`)
        listed = undefined
      }
      if (listed === undefined) lines.push(`add table ${this.#table}`)
      this.#held = listed ?? { sets: new Set(), chains: new Map(), elements: new Map() }
      this.#applied.clear()
      this.#asked.clear()
      this.#dying = undefined
    }
    const held = this.#held
    const delta = emptyDelta()
    for (const [name, declaration] of wanted.sets) if (!held.sets.has(name)) delta.addSets.set(name, declaration)
    for (const [name, chain] of wanted.chains) {
      if (held.chains.get(name) !== stampOf(chain)) delta.writeChains.set(name, chain)
    }
    lines.push(...transaction(this.#table, delta))
    await this.#load(lines)
    this.#note(delta)
    return writesOf(delta)
  }

  #candidates(
    state: DesiredState,
    changed: ReadonlySet<string> | undefined,
    prune: boolean,
    anew: boolean,
  ): Map<string, Applied | undefined> {
    const candidates = new Map<string, Applied | undefined>()
    for (const id of changed ?? new Set([...state.services.keys(), ...this.#applied.keys()])) {
      const port = state.services.get(id)
      const before = this.#applied.get(id)
      if (port?.family === this.#options.family) {
        if (!anew && before?.port === port) continue
        candidates.set(id, { port, content: renderPort(port, this.#local) })
      } else if (before && port === undefined && prune) candidates.set(id, undefined)
    }
    return candidates
  }

  async #write(candidates: ReadonlyMap<string, Applied | undefined>, now: number): Promise<number> {
    const held = this.#held as HeldTable
    const delta = emptyDelta()
    const asked = new Map<string, { element: Element; count: number }>()
    const ask = (element: Element, by: number) => {
      const key = keyOf(element)
      const count = (asked.get(key)?.count ?? this.#asked.get(key) ?? 0) + by
      // Who asks for it now says where it leads.
      asked.set(key, { element: by > 0 ? element : (asked.get(key)?.element ?? element), count })
    }
    const kept = new Set<string>()
    for (const [id, next] of candidates) {
      const before = this.#applied.get(id)?.content
      for (const element of before?.elements ?? []) ask(element, -1)
      for (const [name, chain] of next?.content.chains ?? []) {
        kept.add(name)
        if (held.chains.get(name) !== stampOf(chain) || !held.chains.has(name)) delta.writeChains.set(name, chain)
      }
      for (const [name, declaration] of next?.content.sets ?? []) {
        kept.add(name)
        if (!held.sets.has(name)) delta.addSets.set(name, declaration)
      }
    }
    for (const next of candidates.values()) for (const element of next?.content.elements ?? []) ask(element, 1)
    const unused: string[] = []
    for (const id of candidates.keys()) {
      const before = this.#applied.get(id)?.content
      for (const name of before?.chains.keys() ?? []) if (!kept.has(name)) delta.emptyChains.push(name)
      for (const name of before?.sets.keys() ?? []) if (!kept.has(name)) unused.push(name)
    }
    for (const { element, count } of asked.values()) {
      const present = held.elements.get(element.container)?.get(element.key)
      if (present !== undefined && (count <= 0 || present !== element.verdict)) {
        delta.removeElements.push({ ...element, verdict: present })
      }
      if (count > 0 && present !== element.verdict) delta.addElements.push(element)
    }
    await this.#load(transaction(this.#table, delta))
    this.#note(delta)
    for (const [key, { count }] of asked) {
      if (count > 0) this.#asked.set(key, count)
      else this.#asked.delete(key)
    }
    for (const [id, next] of candidates) {
      if (next === undefined) this.#applied.delete(id)
      else this.#applied.set(id, next)
    }
    this.#die(delta.emptyChains, unused, kept, now)
    return writesOf(delta)
  }

  /** What an earlier run left and nobody wants. */
  async #removeStrays(now: number): Promise<number> {
    const held = this.#held as HeldTable
    const delta = emptyDelta()
    for (const [container, elements] of held.elements) {
      for (const [key, verdict] of elements) {
        if (!this.#asked.has(keyOf({ container, key }))) delta.removeElements.push({ container, key, verdict })
      }
    }
    const used = new Set(
      [...this.#applied.values()].flatMap(({ content }) => [...content.chains.keys(), ...content.sets.keys()]),
    )
    const stray = (name: string) => PORT_OBJECT.test(name) && !used.has(name)
    delta.emptyChains.push(...[...held.chains.keys()].filter(stray))
    await this.#load(transaction(this.#table, delta))
    this.#note(delta)
    this.#die(delta.emptyChains, [...held.sets].filter(stray), used, now)
    return writesOf(delta)
  }

  #die(chains: readonly string[], sets: readonly string[], alive: ReadonlySet<string>, now: number): void {
    for (const name of alive) {
      this.#dying?.chains.delete(name)
      this.#dying?.sets.delete(name)
    }
    if (chains.length === 0 && sets.length === 0) return
    this.#dying ??= { chains: new Set(), sets: new Set(), at: now }
    this.#dying.at = now
    for (const name of chains) this.#dying.chains.add(name)
    for (const name of sets) this.#dying.sets.add(name)
  }

  /** The kernel has taken the delta. */
  #note(delta: Delta): void {
    const held = this.#held as HeldTable
    for (const name of delta.addSets.keys()) held.sets.add(name)
    for (const [name, chain] of delta.writeChains) held.chains.set(name, stampOf(chain))
    for (const name of delta.emptyChains) held.chains.set(name, '')
    for (const { container, key } of delta.removeElements) held.elements.get(container)?.delete(key)
    for (const { container, key, verdict } of delta.addElements) {
      const elements = held.elements.get(container) ?? new Map<string, string>()
      held.elements.set(container, elements.set(key, verdict))
    }
  }

  async #load(lines: readonly string[]): Promise<void> {
    if (lines.length === 0) return
    const text = `${lines.join('\n')}\n`
    try {
      await this.#run('nft', ['-f', '-'], text)
    } catch (error) {
      throw RefusedLine.of(error, text)
    }
  }

  /** Undefined when the kernel does not have it. */
  async #list(args: readonly string[]): Promise<string | undefined> {
    try {
      return await this.#run('nft', ['-j', ...args])
    } catch (error) {
      if (error instanceof ToolError && error.message.includes('No such file or directory')) return undefined
      throw error
    }
  }
}

interface Delta extends TableDelta {
  readonly addSets: Map<string, Declaration>
  readonly writeChains: Map<string, Chain>
  readonly addElements: Element[]
  readonly removeElements: Element[]
  readonly emptyChains: string[]
}

function emptyDelta(): Delta {
  return { addSets: new Map(), writeChains: new Map(), addElements: [], removeElements: [], emptyChains: [] }
}

function keyOf({ container, key }: Pick<Element, 'container' | 'key'>): string {
  return `${container} ${key}`
}

/** Base chains cannot be moved to another hook or priority. */
function sameHooks(listed: ListedTable, wanted: ReadonlyMap<string, Chain>): boolean {
  for (const [name, { hook }] of wanted) {
    const { type, at, priority } =
      /type (?<type>\S+) hook (?<at>\S+) priority (?<priority>\S+)/.exec(hook)?.groups ?? {}
    const there = listed.hooks.get(name)
    if (there !== undefined && there !== `${type} ${at} ${priority}`) return false
    if (there === undefined && hook !== '' && listed.chains.has(name)) return false
  }
  return true
}

/** The Service port to which a line of a transaction belongs: by its chain, its set, or its element. */
function ownerOf(line: string, candidates: ReadonlyMap<string, Applied | undefined>): string | undefined {
  const [, , , , name = ''] = line.split(' ')
  for (const [id, next] of candidates) {
    if (next === undefined) continue
    const { chains, sets, elements } = next.content
    if (chains.has(name) || sets.has(name)) return id
    if (elements.some(({ container, key }) => container === name && line.includes(`{ ${key}`))) return id
  }
  return undefined
}
