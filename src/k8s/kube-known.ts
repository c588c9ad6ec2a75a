import type { ObjectKey, SourceEvent, WatchedKind } from '../model/objects.js'
import { type Converted, convert } from './convert.js'
import { isRecord } from './convert-report.js'
import { Undecodable } from './kube-wire-object.js'

/** What every API object has; `undefined` in a field = it does not say. */
export interface Meta {
  readonly key: ObjectKey
  readonly version: string
}

export interface FuseLimits {
  /** Below this many known objects no deletion is suspicious. */
  readonly atLeast: number
  /** A full list in which more than this share (0-1) of them is missing is not believed at once. */
  readonly share: number
  /** A second list this much later, milliseconds, settles it. */
  readonly confirmMs: number
}

export const defaultFuse: FuseLimits = { atLeast: 20, share: 0.5, confirmMs: 60_000 }

/** What a full list comes to. */
export interface Relisted {
  readonly events: readonly SourceEvent[]
  readonly upserts: number
  readonly deletes: number
  /** Objects that are missing in the list and kept until another list confirms it. */
  readonly held: number
}

/** A full list that is being read. */
export interface Relist {
  add(raw: unknown): void
  /** What was added is gone again; throws TypeError when it has no name. */
  remove(raw: unknown): void
  finish(now: number): Relisted
}

interface Entry {
  /** resourceVersion of what was seen last; '' = deliver it again whatever comes. */
  version: string
  /** An upsert was delivered and no delete since. */
  delivered: boolean
  /** A problem was reported and not resolved since. */
  problem: boolean
}

interface Change {
  readonly key: ObjectKey
  readonly version: string
  /** undefined = known in this version. */
  readonly converted: Converted | undefined
}

/**
 * What we know of the objects of one kind: key and version, never the object itself.
 * Turns lists and watch events into source events; decides only, so time is an argument.
 */
export class Known {
  readonly #kind: WatchedKind
  readonly #fuse: FuseLimits
  readonly #entries = new Map<ObjectKey, Entry>()
  /** Missing in a list that was not believed: since when. */
  #held = new Map<ObjectKey, number>()
  #delivered = 0
  #synced = false
  /** The problem of a list with an object without a name was reported and not resolved since. */
  #nameless = false

  constructor(kind: WatchedKind, fuse: FuseLimits = defaultFuse) {
    this.#kind = kind
    this.#fuse = fuse
  }

  /** Objects delivered and not deleted since. */
  get size(): number {
    return this.#delivered
  }

  /**
   * Takes over what an earlier run had delivered, before the first list, so that a first
   * list that lacks most of it is as suspicious as a later one.
   */
  seed(keys: Iterable<ObjectKey>): void {
    for (const key of keys) {
      if (this.#entries.has(key)) continue
      this.#entries.set(key, { version: '', delivered: true, problem: false })
      this.#delivered++
    }
  }

  /** A first full list was delivered and believed. */
  get synced(): boolean {
    return this.#synced
  }

  /** How many deletions wait for a second list. */
  get held(): number {
    return this.#held.size
  }

  /** The next list delivers every object again: the receiver may have missed some. */
  distrust(): void {
    for (const entry of this.#entries.values()) entry.version = ''
  }

  /** Events for an object that was added or modified. Throws TypeError when it has no name. */
  upsert(raw: unknown): SourceEvent[] {
    const change = this.#look(raw)
    this.#held.delete(change.key)
    return this.#take(change)
  }

  /** Events for an object that is gone. Throws TypeError when it has no name. */
  delete(raw: unknown): SourceEvent[] {
    return this.#forget(metaOf(raw).key)
  }

  /**
   * Begins a full list. Its objects are added one by one, and nothing is changed before
   * `finish`: a list that breaks off is simply dropped. `all` = deliver known versions,
   * too, since they may mean something else now. An object without a name is reported,
   * and nothing is deleted on the word of such a list: it may be the one that is missing.
   */
  relist(all = false): Relist {
    const changes = new Map<ObjectKey, Change>()
    let nameless: string | undefined
    return {
      add: raw => {
        try {
          const change = this.#look(raw, all)
          changes.set(change.key, change)
        } catch (error) {
          if (!(error instanceof TypeError)) throw error
          nameless = error.message
        }
      },
      remove: raw => changes.delete(metaOf(raw).key),
      finish: now => this.#finish([...changes.values()], nameless, now),
    }
  }

  /** Reads and converts an object, so that it need not be kept; changes nothing. */
  #look(raw: unknown, all = false): Change {
    if (raw instanceof Undecodable) return undecoded(raw)
    const { key, version } = metaOf(raw)
    // A resumed watch and a list may tell the same thing twice.
    const same = !all && version !== '' && this.#entries.get(key)?.version === version
    return { key, version, converted: same ? undefined : convert(this.#kind, raw) }
  }

  #finish(changes: readonly Change[], nameless: string | undefined, now: number): Relisted {
    const seen = new Set(changes.map(change => change.key))
    const events = changes.flatMap(change => this.#take(change))
    const missing = [...this.#entries.keys()].filter(key => !seen.has(key))
    const { gone, held } = this.#believe(missing, nameless !== undefined, now)
    this.#held = held
    for (const key of gone) events.push(...this.#forget(key))
    events.push(...this.#aboutList(nameless))
    // A first list that is not believed yet is none: nothing of an earlier run may be removed on its word.
    if (!this.#synced && held.size === 0) {
      this.#synced = true
      events.push({ type: 'synced', kind: this.#kind })
    }
    const count = (type: SourceEvent['type']) => events.filter(event => event.type === type).length
    return { events, upserts: count('upsert'), deletes: count('delete'), held: held.size }
  }

  /**
   * Which of the missing objects are gone. A list that lacks most of what was there a
   * moment ago may come from a server that lost its data: traffic to what it forgot goes
   * on until a second list, a while later, lacks it as well.
   */
  #believe(
    missing: readonly ObjectKey[],
    doubtful: boolean,
    now: number,
  ): { gone: ObjectKey[]; held: Map<ObjectKey, number> } {
    const { atLeast, share, confirmMs } = this.#fuse
    const lost = missing.filter(key => this.#entries.get(key)?.delivered).length
    const suspicious = this.#delivered >= atLeast && lost > this.#delivered * share
    const gone: ObjectKey[] = []
    const held = new Map<ObjectKey, number>()
    for (const key of missing) {
      const since = this.#held.get(key)
      if (doubtful || (since === undefined ? suspicious : now - since < confirmMs)) held.set(key, since ?? now)
      else gone.push(key)
    }
    return { gone, held }
  }

  /** Whether the last list had an object that nobody can name. */
  #aboutList(nameless: string | undefined): SourceEvent[] {
    const where = `list of every ${this.#kind}`
    const events: SourceEvent[] = []
    if (this.#nameless) events.push({ type: 'resolved', where })
    this.#nameless = nameless !== undefined
    const message = `has ${nameless}: it is left out, and nothing is removed that this list lacks`
    if (this.#nameless) events.push({ type: 'problem', where, field: 'items', message })
    return events
  }

  #take({ key, version, converted }: Change): SourceEvent[] {
    if (converted === undefined) return []
    const { object, problems } = converted
    const entry = this.#entries.get(key) ?? { version, delivered: false, problem: false }
    this.#entries.set(key, entry)
    entry.version = version
    const where = `${this.#kind} ${key}`
    const events: SourceEvent[] = []
    // It takes back all that was said of the object; what is still wrong is said again.
    if (entry.problem) events.push({ type: 'resolved', where })
    entry.problem = problems.length > 0
    for (const { field, message } of problems) events.push({ type: 'problem', where, field, message })
    if (object !== undefined) {
      if (!entry.delivered) this.#delivered++
      entry.delivered = true
      events.push({ type: 'upsert', object })
    } else if (problems.length === 0 && entry.delivered) {
      // Not for us any more, e.g. it became headless. A refused object keeps its last good state.
      entry.delivered = false
      this.#delivered--
      events.push({ type: 'delete', kind: this.#kind, key })
    }
    return events
  }

  #forget(key: ObjectKey): SourceEvent[] {
    const entry = this.#entries.get(key)
    this.#held.delete(key)
    if (entry === undefined) return []
    this.#entries.delete(key)
    const events: SourceEvent[] = []
    if (entry.problem) events.push({ type: 'resolved', where: `${this.#kind} ${key}` })
    if (entry.delivered) {
      this.#delivered--
      events.push({ type: 'delete', kind: this.#kind, key })
    }
    return events
  }
}

/** Such an object keeps its last good state, and is read again with the next list. */
function undecoded({ key, message }: Undecodable): Change {
  if (key === undefined) throw new TypeError(`an object that cannot be decoded: ${message}`)
  const problem = { path: [], field: 'object', message: `cannot be decoded (${message}); its last good state stays` }
  return { key, version: '', converted: { key, object: undefined, problems: [problem] } }
}

/** Key and version of a raw object; throws TypeError when it has no name. */
export function metaOf(raw: unknown): Meta {
  if (raw instanceof Undecodable) return { key: undecoded(raw).key, version: raw.version }
  const meta = record(record(raw)?.metadata)
  const name = meta?.name
  if (typeof name !== 'string' || name === '') throw new TypeError('an object without metadata.name')
  const namespace = meta?.namespace
  const key = typeof namespace === 'string' && namespace !== '' ? `${namespace}/${name}` : name
  return { key, version: versionOf(raw) }
}

/** metadata.resourceVersion of an object, list or bookmark; '' when it has none. */
export function versionOf(raw: unknown): string {
  if (raw instanceof Undecodable) return raw.version
  const version = record(record(raw)?.metadata)?.resourceVersion
  return typeof version === 'string' ? version : ''
}

/**
 * Whether resource version `a` is older than `b`. They are decimal numbers of up to 64
 * bits; where they are not, none is older.
 */
export function isOlder(a: string, b: string): boolean {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return false
  return BigInt(a) < BigInt(b)
}

/** A JSON object, or undefined for anything else. */
export function record(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return isRecord(value) ? value : undefined
}
