import type { DesiredState } from '../../model/desired.js'
import { type FamilyReport, type FamilyRules, familyReport } from '../rules/rules-dataplane.js'
import { RefusedLine, writeMost } from '../rules/write-most.js'
import { block, type TableChange, tableChange } from './change.js'
import type { PortContext } from './port-writer.js'
import { assemble, CANARY, portContext, type Rendered, type RenderOptions, TABLES } from './render.js'
import { renderPort } from './render-port.js'
import { readSave, type SavedTable } from './save-text.js'
import type { Iptables } from './tools.js'

const NOTHING: SavedTable = { chains: new Map() }
/** Tables with a canary besides those with rules. */
const MANGLE = 'mangle'

type Held = Map<string, { chains: Map<string, readonly string[]> }>

/**
 * The rules of one family: what the kernel holds of them, and the way to what is wanted.
 * One Service port that the kernel refuses does not keep the others back.
 */
export class IptablesFamily implements FamilyRules {
  readonly #iptables: Iptables
  readonly #options: RenderOptions
  /** Service ports whose rules are in the kernel, by id. */
  readonly #applied = new Map<string, Rendered>()
  /** Undefined: it has to be read. */
  #held: Held | undefined
  #context: PortContext | undefined

  constructor(iptables: Iptables, options: RenderOptions) {
    this.#iptables = iptables
    this.#options = options
  }

  /** Reads what the kernel holds anew before the next apply, and compares everything. */
  distrust(): void {
    this.#held = undefined
  }

  /** Whether somebody flushed our tables since they were written; true before the first apply. */
  async isLost(): Promise<boolean> {
    if (this.#held === undefined) return true
    const mangle = readSave(await this.#iptables.save(MANGLE))
    return mangle.get(MANGLE)?.chains.has(CANARY) !== true
  }

  /** Brings the ids `changed`, or all, to `state`. @throws ToolError when nothing could be written */
  async apply(state: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<FamilyReport> {
    const context = portContext(state, this.#options)
    const all = changed === undefined || this.#held === undefined || !sameContext(context, this.#context)
    this.#held ??= await this.#read()
    const ids = all ? new Set([...state.services.keys(), ...this.#applied.keys()]) : changed
    const candidates = new Map<string, Rendered | undefined>()
    for (const id of ids) {
      const port = state.services.get(id)
      const before = this.#applied.get(id)
      if (port?.family === this.#options.family) {
        if (!all && before?.port === port) continue
        candidates.set(id, { port, rules: renderPort(port, context) })
      } else if (before && port === undefined && prune) candidates.set(id, undefined)
    }
    // What changed is all of the other family: the tables need not be put together.
    if (!all && candidates.size === 0) return { writes: 0, services: 0, failed: [] }
    const failed = new Map<string, Error>()
    let writes: number
    try {
      writes = await writeMost(
        candidates,
        {
          write: part => this.#restore(part, prune, context),
          ownerOf: (line, part) => this.#ownerOf(line, part),
          // The legacy variant refuses a rule when it commits the table, and names no better line.
          isVague: line => line === 'COMMIT',
        },
        failed,
      )
    } catch (error) {
      this.#held = undefined
      throw error
    }
    this.#context = context
    const counts = { writes, services: candidates.size }
    return familyReport(counts, failed, state.revision, id => this.#applied.has(id))
  }

  async #read(): Promise<Held> {
    const tables = readSave(await this.#iptables.save())
    const held: Held = new Map()
    for (const name of [...TABLES, MANGLE]) held.set(name, { chains: new Map(tables.get(name)?.chains) })
    return held
  }

  #ownerOf(line: string, candidates: ReadonlyMap<string, Rendered | undefined>): string | undefined {
    for (const [id, rendered] of candidates) {
      if (rendered === undefined) continue
      const { chains, ...lists } = rendered.rules
      if ([...Object.values(lists), ...chains.values()].some(lines => lines.includes(line))) return id
    }
    return undefined
  }

  async #restore(
    candidates: ReadonlyMap<string, Rendered | undefined>,
    prune: boolean,
    context: PortContext,
  ): Promise<number> {
    const held = this.#held as Held
    const next = new Map(this.#applied)
    for (const [id, rendered] of candidates) {
      if (rendered === undefined) next.delete(id)
      else next.set(id, rendered)
    }
    const sorted = [...next.keys()].sort().map(id => next.get(id) as Rendered)
    const wanted = assemble(sorted, this.#options, context.local)
    const changes: TableChange[] = TABLES.map(table =>
      tableChange(table, held.get(table) ?? NOTHING, wanted[table], prune),
    )
    const canary = { chains: new Map([[CANARY, []]]), jumps: [] }
    changes.push(tableChange(MANGLE, held.get(MANGLE) ?? NOTHING, canary, false))
    const text = changes.map(({ table, lines }) => (lines.length === 0 ? '' : block(table, lines))).join('')
    if (text !== '') await this.#run(text)
    for (const { table, after } of changes) {
      const chains = held.get(table)?.chains
      for (const [chain, lines] of after) {
        if (lines === undefined) chains?.delete(chain)
        else chains?.set(chain, lines)
      }
    }
    for (const [id, rendered] of candidates) {
      if (rendered === undefined) this.#applied.delete(id)
      else this.#applied.set(id, rendered)
    }
    return changes.reduce((sum, each) => sum + each.writes, 0)
  }

  async #run(text: string): Promise<void> {
    try {
      await this.#iptables.restore(text)
    } catch (error) {
      throw RefusedLine.of(error, text)
    }
  }
}

function sameContext(a: PortContext, b: PortContext | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}
