import type { DesiredState } from '../../model/desired.js'
import { type LocalMatch, localOf } from '../rules/local-match.js'
import { type FamilyReport, type FamilyRules, familyReport } from '../rules/rules-dataplane.js'
import type { RunTool } from '../rules/run-tool.js'
import { RefusedLine, writeMost } from '../rules/write-most.js'
import type { Chain } from './content.js'
import { type Applied, ownerOfLine, type PortsDelta, portsDelta, skeletonDelta, straysDelta } from './delta.js'
import { type ListedTable, listChain, listTable, readTable } from './list-text.js'
import { type RenderOptions, skeleton } from './render.js'
import { renderPort, wordsOf } from './render-port.js'
import { deletions, type HeldTable, stampOf, type TableDelta, transaction, writesOf } from './transaction.js'

/** Until emptied chains are deleted. */
const DYING_MS = 1000

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
    const chain = await listChain(this.#run, this.#table, 'services')
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
          ownerOf: ownerOfLine,
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
    const text = this.#held === undefined ? await listTable(this.#run, this.#table) : undefined
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
    const delta = skeletonDelta(this.#held, wanted)
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
    const change = portsDelta(this.#heldTable, this.#applied, this.#asked, candidates)
    await this.#change(change, now)
    for (const [key, count] of change.asked) {
      if (count > 0) this.#asked.set(key, count)
      else this.#asked.delete(key)
    }
    for (const [id, next] of candidates) {
      if (next === undefined) this.#applied.delete(id)
      else this.#applied.set(id, next)
    }
    return writesOf(change.delta)
  }

  async #removeStrays(now: number): Promise<number> {
    const change = straysDelta(this.#heldTable, this.#applied, this.#asked)
    await this.#change(change, now)
    return writesOf(change.delta)
  }

  async #change({ delta, unusedSets, alive }: PortsDelta, now: number): Promise<void> {
    await this.#load(transaction(this.#table, delta))
    this.#note(delta)
    this.#die(delta.emptyChains, unusedSets, alive, now)
  }

  get #heldTable(): HeldTable {
    if (this.#held === undefined) throw new TypeError('the table has not been read')
    return this.#held
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
  #note(delta: TableDelta): void {
    const held = this.#heldTable
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
