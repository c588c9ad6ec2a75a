import type { IncomingMessage } from 'node:http'
import type { Clock } from '../base/clock.js'
import type { SourceEvent, WatchedKind } from '../model/objects.js'
import { Backoff, type BackoffLimits, sleep } from './kube-backoff.js'
import type { KubeClient } from './kube-client.js'
import { errorOfStream, KubeError, type KubeErrorKind } from './kube-errors.js'
import { isOlder, type Known, type Relisted, record, versionOf } from './kube-known.js'
import { LineFramer } from './kube-lines.js'
import { type BodyEnd, errorOfEvent, parsePage, readChunks } from './kube-wire.js'

export interface ReflectorTiming extends BackoffLimits {
  /**
   * An answer without a byte for this long is given up, a watch up to half as much later.
   * Servers send bookmarks once a minute when there is anything to tell.
   */
  readonly idleMs: number
  /** A watch is asked to end after a random time between these, seconds. */
  readonly watchSeconds: readonly [number, number]
  /** Age of held deletions at which another list settles them, as in the fuse's limits. */
  readonly confirmMs: number
}

/** What a reflector tells those who count and report; each call is one occurrence. */
export interface ReflectorObserver {
  /** A full list was delivered; it took `ms`. */
  onList(kind: WatchedKind, list: { objects: number; upserts: number; deletes: number; held: number; ms: number }): void
  /** A watch was accepted. */
  onWatch(kind: WatchedKind): void
  /** Watch events were delivered; bookmarks count, too. */
  onEvents(kind: WatchedKind, events: number): void
  /** A watch was silent for too long and is begun anew; the server may just have had nothing to tell. */
  onSilence(kind: WatchedKind): void
  /** A list or watch failed; the next try comes in `retryMs`. */
  onError(kind: WatchedKind, error: KubeError, retryMs: number): void
}

export interface ReflectorParts {
  readonly client: KubeClient
  readonly known: Known
  readonly clock: Clock
  readonly random: () => number
  readonly timing: ReflectorTiming
  readonly observer: ReflectorObserver
  /** Receives each batch; may throw. */
  readonly deliver: (events: readonly SourceEvent[]) => void
}

/** Which objects: `path` of the collection, and what the server shall filter. */
export interface Collection {
  readonly kind: WatchedKind
  readonly path: string
  readonly selector: Readonly<Record<string, string>>
}

/** Objects a page; what the server's own clients use. */
const pageSize = 500

/** Watches in a row that failed without telling anything new; then the place to go on from is to blame. */
const fruitlessWatches = 3

/**
 * Keeps one collection in step with the server for as long as it runs: list, then watch
 * from there, resume where a watch ended, list again only when the server has forgotten
 * that place (410) or the watch leads nowhere.
 */
export class Reflector {
  readonly #collection: Collection
  readonly #parts: ReflectorParts
  readonly #backoff: Backoff
  /** Where the next watch goes on; undefined = a list is due. */
  #version: string | undefined
  /** The newest version seen, kept over a relist. */
  #newest = ''
  #fruitless = 0

  constructor(collection: Collection, parts: ReflectorParts) {
    this.#collection = collection
    this.#parts = parts
    this.#backoff = new Backoff(parts.timing, parts.random)
  }

  /** Runs until `signal` is aborted; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, observer } = this.#parts
    while (!signal.aborted) {
      let began = clock.monotonic()
      try {
        if (this.#version === undefined) {
          await this.#list(signal)
          began = clock.monotonic()
        }
        const ended = await this.#watch(signal)
        if (ended === 'silent') await this.#renew(signal)
        if (ended === 'over') {
          this.#version = undefined
          continue
        }
        // Servers end watches all the time; one that lived is gone on with at once.
        const livedMs = clock.monotonic() - began
        if (livedMs >= this.#parts.timing.healthyMs) this.#backoff.reset()
        else await sleep(clock, this.#backoff.next(livedMs), signal)
      } catch (thrown) {
        if (signal.aborted) return
        const error = errorOfStream(`read ${this.#collection.path}`, thrown)
        this.#learn(error)
        const retryMs = this.#backoff.next(clock.monotonic() - began, error.retryAfterMs)
        observer.onError(this.#collection.kind, error, retryMs)
        await sleep(clock, retryMs, signal)
      }
    }
  }

  /** Where to go on after an error. */
  #learn(error: KubeError): void {
    if (pointless.has(error.kind)) this.#fruitless++
    const lost = error.kind === 'handler' // the batch that was not taken over: tell everything again
    if (lost) this.#parts.known.distrust()
    if (lost || error.kind === 'expired' || this.#fruitless >= fruitlessWatches) this.#version = undefined
  }

  /**
   * After a silent watch. Silence need not mean a broken connection: a server has no
   * bookmarks to send for a collection in which nothing happened since the watch began.
   * A small request tells whether the server is there and still knows our version; if its
   * data were put back, a watch from the future would be silent for ever. It also makes a
   * server look how far it is, after which bookmarks come once a minute.
   */
  async #renew(signal: AbortSignal): Promise<void> {
    const { client, observer } = this.#parts
    observer.onSilence(this.#collection.kind)
    const what = `list one object of ${this.#collection.path}`
    const page = parsePage(what, await this.#body(what, await client.get(what, this.#url({ limit: '1' }), signal)))
    if (isOlder(page.version, this.#version ?? '')) this.#version = undefined
  }

  /** Delivers a full list, and sets the version from which to watch. */
  async #list(signal: AbortSignal): Promise<void> {
    const { clock, observer } = this.#parts
    const began = clock.monotonic()
    let list: { version: string; objects: number; result: Relisted }
    try {
      list = await this.#pages(pageSize, signal)
    } catch (error) {
      // A token to go on with lives for minutes only; in one piece there is none to expire.
      if (!(error instanceof KubeError) || error.kind !== 'expired') throw error
      list = await this.#pages(0, signal)
    }
    const { events, ...counts } = list.result
    this.#deliver(events)
    this.#version = list.version
    this.#newest = list.version
    this.#fruitless = 0
    observer.onList(this.#collection.kind, { ...counts, objects: list.objects, ms: clock.monotonic() - began })
  }

  /** Reads all pages of `limit` objects (0 = one page holds all). */
  async #pages(limit: number, signal: AbortSignal) {
    const { client, clock, known } = this.#parts
    const what = `list ${this.#collection.path}`
    let relist: ReturnType<Known['relist']> | undefined
    let objects = 0
    let token: string | undefined
    do {
      const query = { ...(limit > 0 ? { limit: String(limit) } : {}), ...(token ? { continue: token } : {}) }
      const response = await client.get(what, this.#url(query), signal)
      const page = parsePage(what, await this.#body(what, response))
      // Older than what we saw: the server's data was put back, and its versions are dealt out again.
      relist ??= known.relist(isOlder(page.version, this.#newest))
      try {
        relist.add(page.items)
      } catch (cause) {
        throw new KubeError('garbled', { what, cause })
      }
      objects += page.items.length
      token = page.token
      if (token === undefined) return { version: page.version, objects, result: relist.finish(clock.monotonic()) }
    } while (!signal.aborted)
    throw signal.reason
  }

  async #body(what: string, response: IncomingMessage): Promise<string> {
    const { clock, timing } = this.#parts
    const chunks: Buffer[] = []
    const ended = await readChunks(what, response, clock, { idleMs: timing.idleMs }, chunk => chunks.push(chunk))
    if (ended === 'silent') throw new KubeError('silent', { what, cause: `no byte for ${timing.idleMs} ms` })
    return Buffer.concat(chunks).toString('utf8')
  }

  /** Delivers events until the watch ends; `over` when another list is due to settle held deletions. */
  async #watch(signal: AbortSignal): Promise<BodyEnd> {
    const { client, clock, known, observer, random, timing } = this.#parts
    const what = `watch ${this.#collection.path}`
    const [least, most] = timing.watchSeconds
    const query = {
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#version ?? '',
      timeoutSeconds: String(Math.round(least + (most - least) * random())),
    }
    const response = await client.get(what, this.#url(query), signal)
    observer.onWatch(this.#collection.kind)
    const framer = new LineFramer()
    // Spread, so that agents which began together do not renew together.
    const idleMs = timing.idleMs * (1 + random() / 2)
    const limits = known.held > 0 ? { idleMs, lifeMs: timing.confirmMs } : { idleMs }
    const ended = await readChunks(what, response, clock, limits, chunk => {
      const { events, lines, error } = this.#read(what, framer, chunk)
      this.#deliver(events)
      if (lines > 0) {
        this.#fruitless = 0
        observer.onEvents(this.#collection.kind, lines)
      }
      if (error !== undefined) throw error
    })
    if (ended === 'over') client.rotate() // a second opinion, where there is one
    return ended
  }

  /** The events of one chunk, and the error that ends the watch; what came before the error counts. */
  #read(what: string, framer: LineFramer, chunk: Buffer) {
    const events: SourceEvent[] = []
    let lines = 0
    try {
      for (const line of framer.push(chunk)) {
        events.push(...this.#event(what, line))
        lines++
      }
    } catch (thrown) {
      const error = thrown instanceof KubeError ? thrown : new KubeError('garbled', { what, cause: thrown })
      return { events, lines, error }
    }
    return { events, lines, error: undefined }
  }

  #event(what: string, line: string): readonly SourceEvent[] {
    const { known } = this.#parts
    const { type, object } = record(JSON.parse(line)) ?? {}
    if (type === 'ERROR') throw errorOfEvent(what, object)
    const version = versionOf(object)
    if (isOlder(version, this.#version ?? '')) {
      const cause = `version ${version} after ${this.#version}: the server's history went back`
      throw new KubeError('expired', { what, cause })
    }
    let events: readonly SourceEvent[] = []
    if (type === 'ADDED' || type === 'MODIFIED') events = known.upsert(object)
    else if (type === 'DELETED') events = known.delete(object)
    else if (type !== 'BOOKMARK') throw new TypeError(`an event of type ${JSON.stringify(type)}`)
    if (version !== '') {
      this.#version = version
      this.#newest = version
    }
    return events
  }

  #deliver(events: readonly SourceEvent[]): void {
    if (events.length === 0) return
    try {
      this.#parts.deliver(events)
    } catch (cause) {
      throw new KubeError('handler', { what: `take over ${events.length} events of ${this.#collection.path}`, cause })
    }
  }

  #url(query: Readonly<Record<string, string>>): string {
    return `${this.#collection.path}?${new URLSearchParams({ ...this.#collection.selector, ...query })}`
  }
}

/** Failures of a watch that may come again and again as long as it starts at the same version. */
const pointless: ReadonlySet<KubeErrorKind> = new Set(['refused', 'garbled'])
