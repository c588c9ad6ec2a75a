import { parseManifest } from '../../src/k8s/manifest.js'
import { SCHEDULERS, type Scheduler } from '../../src/model/desired.js'
import type { ProblemEvent, SourceEvent, WatchedKind, WatchedObject } from '../../src/model/objects.js'
import { type Plan, Planner } from '../../src/plan/planner.js'
import { type Change, Store } from '../../src/state/store.js'
import { renderDesired } from './render-desired.js'
import type { Command, Script } from './script.js'

/** What `expect KIND` compares: the text of the present state. */
export type Dump = (run: ScriptRun) => string | Promise<string>

/** What a dataplane adds to a script. */
export interface Extension {
  /** Called after each command that changed objects, with what plan made of it. */
  readonly onPlan?: (plan: Plan, synced: boolean) => Promise<void>
  /** Further kinds of `expect`, e.g. `maps`. An `expect` of a kind that nobody dumps is passed over. */
  readonly dumps?: Readonly<Record<string, Dump>>
}

/** An `expect` that did not find what it wanted. */
export interface Mismatch {
  readonly line: number
  /** The file with the wanted text; undefined when the command itself says it. */
  readonly file: string | undefined
  readonly want: string
  readonly got: string
}

/** Kinds of `expect` that need an extension. */
const EXTENDED = ['maps']

/**
 * Carries out a script on the real control plane, from manifests to desired state:
 *
 *   option NAME VALUE       before the first objects: node-name, node-port-addresses, scheduler
 *   add FILE...             the objects of these files come or change, in one batch
 *   update FILE...          the same; an object that is not there yet is an error
 *   delete FILE...          they leave
 *   synced                  every kind has delivered its first list
 *   expect desired FILE     the whole desired state, as text; `empty` for none
 *   expect changed ID...    what the last command changed; `nothing` for none
 *   expect problems FILE    what the last command brought to light or settled; `none`
 *   expect maps FILE        the kernel's maps, where a dataplane runs the script
 */
export class ScriptRun {
  readonly store = new Store()
  readonly #script: Script
  readonly #extension: Extension
  readonly #options = {
    nodeName: 'node-a',
    nodePortAddresses: [] as string[],
    defaultScheduler: 'random' as Scheduler,
  }
  readonly #known = new Set<string>()
  #planner: Planner | undefined
  #plan: Plan | undefined
  #problems: ProblemEvent[] = []

  constructor(script: Script, extension: Extension = {}) {
    this.#script = script
    this.#extension = extension
  }

  /** The newest plan. */
  get plan(): Plan {
    this.#plan ??= this.planner.update(this.store, this.store.apply([]))
    return this.#plan
  }

  get planner(): Planner {
    this.#planner ??= new Planner(this.#options)
    return this.#planner
  }

  /** Throws for a command that makes no sense; returns what was expected in vain. */
  async run(): Promise<Mismatch[]> {
    const mismatches: Mismatch[] = []
    for (const command of this.#script.commands) {
      const [verb, ...args] = command.words
      if (verb === 'expect') {
        const mismatch = await this.#expect(command, args)
        if (mismatch !== undefined) mismatches.push(mismatch)
      } else if (verb === 'option') this.#option(command, args)
      else if (verb === 'synced') await this.#apply(SYNCED)
      else if (verb === 'add' || verb === 'update' || verb === 'delete') {
        await this.#apply(args.flatMap(file => this.#events(command, verb, file)))
      } else throw misuse(command, `unknown command ${verb}`)
    }
    return mismatches
  }

  #option(command: Command, [name, ...values]: readonly string[]): void {
    if (this.#planner !== undefined) throw misuse(command, 'options stand before objects')
    const [value = ''] = values
    if (name === 'node-name') this.#options.nodeName = value
    else if (name === 'node-port-addresses') this.#options.nodePortAddresses = [...values]
    else if (name === 'scheduler' && isScheduler(value)) this.#options.defaultScheduler = value
    else throw misuse(command, `unknown option ${name} ${value}`)
  }

  #file(command: Command, name: string | undefined): string {
    const text = this.#script.files.get(name ?? '')
    if (text === undefined) throw misuse(command, `there is no file ${name}`)
    return text
  }

  #events(command: Command, verb: 'add' | 'update' | 'delete', file: string): SourceEvent[] {
    const { broken, entries } = parseManifest(this.#file(command, file))
    if (broken[0] !== undefined)
      throw misuse(command, `${file}:${broken[0].line} ${broken[0].field} ${broken[0].message}`)
    return entries.flatMap(({ kind, key, object, refused, problems }): SourceEvent[] => {
      const id = `${kind} ${key}`
      if (verb === 'update' && !this.#known.has(id)) throw misuse(command, `${id} is not there yet`)
      if (verb === 'delete' && !this.#known.has(id)) throw misuse(command, `${id} is not there`)
      if (verb === 'delete') this.#known.delete(id)
      else this.#known.add(id)
      const settled = { type: 'resolved', where: id } as const
      if (verb === 'delete') return [settled, become(undefined, kind, key)]
      // The manifest reader names the object in each message, since `where` is a line there.
      const news = problems.map(({ field, message }) => {
        return { type: 'problem', where: id, field, message: message.slice(`${id}: `.length) } as const
      })
      return [settled, ...news, ...(refused ? [] : [become(object, kind, key)])]
    })
  }

  async #apply(events: readonly SourceEvent[]): Promise<void> {
    const change: Change = this.store.apply(events)
    this.#plan = this.planner.update(this.store, change)
    this.#problems = [...change.problems, ...this.#plan.problems]
    await this.#extension.onPlan?.(this.#plan, change.synced)
  }

  async #expect(command: Command, [kind = '', ...args]: readonly string[]): Promise<Mismatch | undefined> {
    if (kind === 'changed') {
      const want = args.filter(arg => arg !== 'nothing').sort()
      return mismatch(command, undefined, want.join('\n'), [...this.plan.changed].sort().join('\n'))
    }
    const dump = this.#dump(kind)
    if (dump === undefined) {
      if (EXTENDED.includes(kind)) return undefined
      throw misuse(command, `nothing to expect is called ${kind}`)
    }
    const [file] = args
    const none = file === 'empty' || file === 'none'
    const want = none ? '' : this.#file(command, file)
    return mismatch(command, none ? undefined : file, want.trim(), (await dump(this)).trim())
  }

  #dump(kind: string): Dump | undefined {
    if (kind === 'desired') return () => renderDesired(this.plan.state)
    if (kind === 'problems') return () => this.#problems.map(renderProblem).sort().join('\n')
    return this.#extension.dumps?.[kind]
  }
}

function isScheduler(name: string): name is Scheduler {
  return (SCHEDULERS as readonly string[]).includes(name)
}

const SYNCED: readonly SourceEvent[] = (['Service', 'EndpointSlice', 'Node'] as const).map(kind => ({
  type: 'synced',
  kind,
}))

function become(object: WatchedObject | undefined, kind: WatchedKind, key: string): SourceEvent {
  return object === undefined ? { type: 'delete', kind, key } : { type: 'upsert', object }
}

function renderProblem(event: ProblemEvent): string {
  return event.type === 'resolved' ? `settled ${event.where}` : `${event.where}: ${event.field} ${event.message}`
}

function mismatch(command: Command, file: string | undefined, want: string, got: string): Mismatch | undefined {
  return want === got ? undefined : { line: command.line, file, want, got }
}

function misuse(command: Command, message: string): TypeError {
  return new TypeError(`line ${command.line}: ${message}`)
}
