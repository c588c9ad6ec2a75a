import type { IncomingMessage } from 'node:http'
import type { Clock } from '../base/clock.js'
import type { SourceEvent, WatchedKind } from '../model/objects.js'
import { Backoff, type BackoffLimits, sleep } from './kube-backoff.js'
import type { KubeClient } from './kube-client.js'
import { errorOfStream, KubeError, type KubeErrorKind } from './kube-errors.js'
import { isOlder, type Known, type Relist, type Relisted, record, versionOf } from './kube-known.js'
import { ACCEPT, type Page, parsePage, type WatchMessage, WatchReader } from './kube-messages.js'
import { type BodyEnd, errorOfEvent, readChunks } from './kube-wire.js'
import { Turns } from './turns.js'

export interface ReflectorTiming extends BackoffLimits {
  /**
   * An answer without a byte for this long is given up, a watch up to half as much later.
   * Servers send bookmarks once a minute when there is anything to tell; a quiet watch is
   * asked about. A link that swallows packets is noticed sooner, by the kernel.
   */
  readonly idleMs: number
  /** A list as a stream that pauses for this long will not end. */
  readonly streamIdleMs: number
  /** A watch is asked to end after a random time between these, seconds. */
  readonly watchSeconds: readonly [number, number]
  /** Age of held deletions at which another list settles them, as in the fuse's limits. */
  readonly confirmMs: number
}

/** What a reflector tells those who count and report; each call is one occurrence. */
export interface ReflectorObserver {
  /** A full list was delivered; it took `ms`. */
  onList(kind: WatchedKind, list: { objects: number; upserts: number; deletes: number; held: number; ms: number }): void
  /** The server gives no list as a stream, so lists are read in pages from now on; why. */
  onNoStream(kind: WatchedKind, error: KubeError): void
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

/** Lists as a stream that broke off in a row; then pages are tried. */
const brokenStreams = 2

/** The annotation of the bookmark behind the last object of a list as a stream (KEP-3157). */
const INITIAL_END = 'k8s.io/initial-events-end'

/** Events delivered at once; what follows from more would keep the process from all else. */
const deliverAtOnce = 500

/**
 * Keeps one collection in step with the server for as long as it runs: list, then watch
 * from there, resume where a watch ended, list again only when the server has forgotten
 * that place (410) or the watch leads nowhere. A list is the beginning of a watch where
 * the server can do that (WatchList), and pages otherwise.
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
  /** The server can stream lists, as far as we know. */
  #streams = true
  #brokenStreams = 0

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
        if (this.#version === undefined && !this.#streams) {
          await this.#list(signal)
          began = clock.monotonic()
        }
        const ended = await this.#watch(signal)
        // The server took the request and knows no lists as streams.
        if (this.#version === undefined && ended !== 'over') continue
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
    this.#parts.observer.onSilence(this.#collection.kind)
    const page = await this.#page(`list one object of ${this.#collection.path}`, { limit: '1' }, signal)
    if (isOlder(page.version, this.#version ?? '')) this.#version = undefined
  }

  /** Delivers a full list, and sets the version from which to watch. */
  async #list(signal: AbortSignal): Promise<void> {
    const began = this.#parts.clock.monotonic()
    let list: { version: string; objects: number; relist: Relist }
    try {
      list = await this.#pages(pageSize, signal)
    } catch (error) {
      // A token to go on with lives for minutes only; in one piece there is none to expire.
      if (!(error instanceof KubeError) || error.kind !== 'expired') throw error
      list = await this.#pages(0, signal)
    }
    await this.#listed(list, began, signal)
  }

  /** Delivers what a full list comes to, in pieces. */
  async #listed(
    { version, objects, relist }: { version: string; objects: number; relist: Relist },
    began: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, observer } = this.#parts
    const { events, ...counts }: Relisted = relist.finish(clock.monotonic())
    const turns = new Turns(clock)
    for (let at = 0; at < events.length; at += deliverAtOnce) {
      if (signal.aborted) throw signal.reason
      this.#deliver(events.slice(at, at + deliverAtOnce))
      await turns.next()
    }
    this.#version = version
    this.#newest = version
    this.#fruitless = 0
    observer.onList(this.#collection.kind, { ...counts, objects, ms: clock.monotonic() - began })
  }

  /** Reads all pages of `limit` objects (0 = one page holds all). */
  async #pages(limit: number, signal: AbortSignal) {
    const { clock, known } = this.#parts
    const what = `list ${this.#collection.path}`
    const turns = new Turns(clock)
    let relist: Relist | undefined
    let objects = 0
    let token: string | undefined
    do {
      const query = { ...(limit > 0 ? { limit: String(limit) } : {}), ...(token ? { continue: token } : {}) }
      const page = await this.#page(what, query, signal)
      // Older than what we saw: the server's data was put back, and its versions are dealt out again.
      relist ??= known.relist(isOlder(page.version, this.#newest))
      for (const object of page.items) {
        relist.add(object)
        objects++
        await turns.next()
      }
      token = page.token
      if (token === undefined) return { version: page.version, objects, relist }
    } while (!signal.aborted)
    throw signal.reason
  }

  async #page(what: string, query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Page> {
    const { client, clock, timing } = this.#parts
    const response = await client.get(what, this.#url(query), ACCEPT.list, signal)
    const chunks: Buffer[] = []
    const ended = await readChunks(what, response, clock, { idleMs: () => timing.idleMs }, chunk => {
      chunks.push(chunk)
    })
    if (ended === 'silent') throw new KubeError('silent', { what, cause: `no byte for ${timing.idleMs} ms` })
    return parsePage(what, this.#collection.kind, contentTypeOf(response), Buffer.concat(chunks))
  }

  /**
   * Delivers events until the watch ends; `over` when another list is due to settle held
   * deletions. Without a version to begin at, the watch begins with a full list; it ends
   * without having set one where the server cannot do that.
   */
  async #watch(signal: AbortSignal): Promise<BodyEnd> {
    const { client, clock, known, observer, random, timing } = this.#parts
    const { kind, path } = this.#collection
    const initial = this.#version === undefined
    const what = initial ? `list ${path} as a stream` : `watch ${path}`
    let stream = initial ? { relist: known.relist(), objects: 0, began: clock.monotonic() } : undefined
    const response = await this.#open(what, initial, signal)
    if (response === undefined) return 'complete'
    if (!initial) observer.onWatch(kind)
    const reader = new WatchReader(kind, contentTypeOf(response))
    // Spread, so that agents which began together do not renew together.
    const idleMs = timing.idleMs * (1 + random() / 2)
    const ended = await readChunks(
      what,
      response,
      clock,
      {
        idleMs: () => (this.#version === undefined ? timing.streamIdleMs : idleMs),
        ...(known.held > 0 && !initial && { lifeMs: timing.confirmMs }),
      },
      async chunk => {
        const messages = reader.push(chunk)
        if (stream !== undefined) await this.#readList(what, messages, stream, signal)
        if (this.#version === undefined) return
        if (stream !== undefined) {
          stream = undefined
          observer.onWatch(kind)
          // From here on its life is limited: the next watch knows that.
          if (known.held > 0) response.destroy()
        }
        this.#readEvents(what, messages)
      },
    ).catch(thrown => {
      if (this.#version !== undefined) throw thrown
      return this.#streamBroke(errorOfStream(what, thrown), stream?.objects ?? 0)
    })
    if (ended === 'over') client.rotate() // a second opinion, where there is one
    if (this.#version === undefined) return this.#streams ? this.#streamEnded(what, ended) : ended
    if (ended === 'complete' && !reader.whole) throw new KubeError('cut', { what, cause: 'it ends within an event' })
    return ended
  }

  /** The accepted watch; undefined when the server refuses to begin it with a list. */
  async #open(what: string, initial: boolean, signal: AbortSignal): Promise<IncomingMessage | undefined> {
    const { client, observer, random, timing } = this.#parts
    const [least, most] = timing.watchSeconds
    const query = {
      watch: '1',
      allowWatchBookmarks: 'true',
      ...(initial
        ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }
        : { resourceVersion: this.#version ?? '' }),
      timeoutSeconds: String(Math.round(least + (most - least) * random())),
    }
    try {
      return await client.get(what, this.#url(query), ACCEPT.watch, signal)
    } catch (error) {
      if (!initial || !(error instanceof KubeError) || !streamsRefused.has(error.status ?? 0)) throw error
      this.#streams = false
      observer.onNoStream(this.#collection.kind, error)
      return undefined
    }
  }

  /** Takes messages of a list as a stream; after its last one the version is set, and what follows are changes. */
  async #readList(
    what: string,
    messages: Iterator<WatchMessage>,
    stream: { relist: Relist; objects: number; readonly began: number },
    signal: AbortSignal,
  ): Promise<void> {
    const turns = new Turns(this.#parts.clock)
    for (let next = nextMessage(what, messages); next !== undefined; next = nextMessage(what, messages)) {
      const { type, object } = next
      if (type === 'ERROR') throw errorOfEvent(what, object)
      if (type === 'BOOKMARK') {
        if (!isInitialEnd(object)) continue
        const version = versionOf(object)
        if (isOlder(version, this.#newest)) {
          // The server's data was put back: what looks known may be something else now.
          this.#parts.known.distrust()
          this.#newest = ''
          throw new KubeError('expired', { what, cause: `version ${version}: the server's history went back` })
        }
        this.#brokenStreams = 0
        return this.#listed({ ...stream, version }, stream.began, signal)
      }
      if (type === 'DELETED') stream.relist.remove(object)
      else if (type === 'ADDED' || type === 'MODIFIED') {
        stream.relist.add(object)
        stream.objects++
      } else throw new KubeError('garbled', { what, cause: `an event of type ${JSON.stringify(type)}` })
      await turns.next()
    }
  }

  /** A list as a stream ended before its last object. */
  #streamEnded(what: string, ended: BodyEnd): BodyEnd {
    if (ended === 'complete') {
      return this.#streamBroke(new KubeError('cut', { what, cause: 'it ends before its last object' }), 1)
    }
    this.#streams = false
    const cause = `no byte for ${this.#parts.timing.streamIdleMs} ms`
    this.#parts.observer.onNoStream(this.#collection.kind, new KubeError('silent', { what, cause }))
    return ended
  }

  /**
   * Goes on with pages where the server refuses in the stream itself (with an etcd before
   * 3.4.25, say), or when this happened twice; otherwise throws `error`.
   */
  #streamBroke(error: KubeError, objects: number): BodyEnd {
    if (error.kind === 'handler' || error.kind === 'expired') throw error
    const refused = error.kind === 'refused' && objects === 0
    if (!refused && ++this.#brokenStreams < brokenStreams) throw error
    this.#streams = false
    this.#parts.observer.onNoStream(this.#collection.kind, error)
    return 'complete'
  }

  /** Delivers the changes of one chunk; what came before an error counts. */
  #readEvents(what: string, messages: Iterator<WatchMessage>): void {
    const events: SourceEvent[] = []
    let count = 0
    let error: unknown
    try {
      for (let next = nextMessage(what, messages); next !== undefined; next = nextMessage(what, messages)) {
        events.push(...this.#event(what, next))
        count++
      }
    } catch (thrown) {
      error = thrown instanceof KubeError ? thrown : new KubeError('garbled', { what, cause: thrown })
    }
    this.#deliver(events)
    if (count > 0) {
      this.#fruitless = 0
      this.#parts.observer.onEvents(this.#collection.kind, count)
    }
    if (error !== undefined) throw error
  }

  #event(what: string, { type, object }: WatchMessage): readonly SourceEvent[] {
    const { known } = this.#parts
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

/** The next message; undefined = the chunk is used up. Throws KubeError `garbled` for bytes that are none. */
function nextMessage(what: string, messages: Iterator<WatchMessage>): WatchMessage | undefined {
  try {
    const { done, value } = messages.next()
    return done ? undefined : value
  } catch (cause) {
    throw new KubeError('garbled', { what, cause })
  }
}

function isInitialEnd(bookmark: unknown): boolean {
  return record(record(record(bookmark)?.metadata)?.annotations)?.[INITIAL_END] === 'true'
}

function contentTypeOf(response: IncomingMessage): string {
  return response.headers['content-type'] ?? ''
}

/** Failures of a watch that may come again and again as long as it starts at the same version. */
const pointless: ReadonlySet<KubeErrorKind> = new Set(['refused', 'garbled'])

/** How servers without WatchList answer: `Invalid`, and older or other ones `BadRequest`. */
const streamsRefused: ReadonlySet<number> = new Set([400, 422])
