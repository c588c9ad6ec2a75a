import { type FSWatcher, promises as fs, watch } from 'node:fs'
import type { Source, SourceEvent, WatchedKind } from '../model/objects.js'
import { DirObjects } from './dir-source-objects.js'
import { QUIET_MS, settleMs } from './dir-source-settle.js'
import { type FoundFile, look, walk } from './dir-source-walk.js'
import { type Manifest, parseManifest } from './manifest.js'

const KINDS: readonly WatchedKind[] = ['Service', 'EndpointSlice', 'Node']

/** Safety net where no notification comes (network file systems, links to elsewhere). */
const RESCAN_MS = 500
/** Notifications come in bursts: one look serves them all. */
const BURST_MS = 20
/** Longest file of which the last good text is kept, to see whether a new one is its beginning. */
const KEEP_TEXT = 1 << 20

interface KnownFile {
  /** Signature of the content that was read last; undefined = not read yet. */
  read: string | undefined
  /** Signature seen last, and since when (monotonic, milliseconds). */
  seen: string
  since: number
  /** Text of the last good content, if short. */
  text: string | undefined
  /** Objects in it of kinds that we do not watch. */
  ignored: number
}

/**
 * A folder of manifests as the source of desired objects, followed as it changes. An edit
 * is applied within a second of its last write. A broken file is reported and what it
 * said before stays; so does everything while the folder itself cannot be read.
 */
export class DirSource implements Source {
  readonly name: string
  readonly #root: string
  readonly #objects: DirObjects
  readonly #known = new Map<string, KnownFile>()
  readonly #watchers = new Map<string, { readonly inode: string; readonly watcher: FSWatcher }>()
  #sink: ((events: readonly SourceEvent[]) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #timerAt = 0
  #scanning: Promise<void> | undefined
  /** Something changed during a look. */
  #again = false
  #synced = false

  constructor(path: string) {
    this.#root = path.length > 1 ? path.replace(/\/+$/, '') : path
    this.name = `dir:${this.#root}`
    this.#objects = new DirObjects(this.#root)
  }

  /** Objects of kinds that are not ours (Pods, Deployments), for debugging. */
  get ignored(): number {
    let sum = 0
    for (const file of this.#known.values()) sum += file.ignored
    return sum
  }

  async start(sink: (events: readonly SourceEvent[]) => void): Promise<void> {
    this.#sink = sink
    await this.#scan()
  }

  async stop(): Promise<void> {
    this.#sink = undefined
    clearTimeout(this.#timer)
    for (const { watcher } of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
    await this.#scanning
  }

  /** Looks at everything once, delivers what changed and arranges the next look. Never rejects. */
  async #scan(): Promise<void> {
    this.#again = false
    this.#scanning = this.#look().then(
      wait => this.#deliver(wait),
      error => {
        // Nothing in a look should throw; if it does, traffic goes on as it is and the next look follows.
        this.#objects.set('', broken(`cannot be read: ${error instanceof Error ? error.message : String(error)}`))
        this.#deliver(RESCAN_MS)
      },
    )
    await this.#scanning
  }

  #deliver(wait: number): void {
    const events = this.#objects.flush()
    const unread = [...this.#known.values()].some(file => file.read === undefined)
    if (!this.#synced && !unread && !this.#objects.incomplete) {
      this.#synced = true
      for (const kind of KINDS) events.push({ type: 'synced', kind })
    }
    this.#scanning = undefined
    if (this.#sink === undefined) return
    if (events.length > 0) this.#sink(events)
    this.#schedule(this.#again ? BURST_MS : wait)
  }

  /** The next look in `ms`, or earlier if one is due. One look at a time: what changes during one is seen by the next. */
  #schedule(ms: number): void {
    if (this.#scanning !== undefined) {
      this.#again = true
      return
    }
    const at = performance.now() + ms
    if (this.#sink === undefined || (this.#timer !== undefined && this.#timerAt <= at)) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#scan()
    }, ms)
  }

  /** Returns after how many milliseconds to look again. */
  async #look(): Promise<number> {
    const { files, folders, unreadable } = await walk(this.#root)
    this.#watch(folders)
    for (const [name, error] of unreadable) {
      this.#objects.set(name, broken(`${reason(error)}; what it said before stays`))
    }
    for (const name of folders.keys()) this.#objects.remove(name)

    let wait = RESCAN_MS
    for (const file of files.values()) wait = Math.min(wait, await this.#file(file))
    for (const [name, known] of this.#known) {
      if (files.has(name) || [...unreadable.keys()].some(folder => isWithin(name, folder))) continue
      wait = Math.min(wait, this.#missing(name, known))
    }
    return wait
  }

  async #file(file: FoundFile): Promise<number> {
    const now = performance.now()
    const known = this.#known.get(file.name) ?? { read: undefined, seen: '', since: 0, text: undefined, ignored: 0 }
    this.#known.set(file.name, known)
    if (known.seen !== file.signature) {
      known.seen = file.signature
      known.since = now
    }
    if (known.read === file.signature) return RESCAN_MS
    const quiet = Math.max(now - known.since, Date.now() - file.modifiedMs)
    if (quiet < QUIET_MS) return QUIET_MS - quiet

    let text: string
    try {
      text = await fs.readFile(file.path, 'utf8')
    } catch (error) {
      this.#objects.set(file.name, broken(`${reason(error as NodeJS.ErrnoException)}; what it said before stays`))
      return RESCAN_MS
    }
    const again = await look(file.path, file.name)
    if (typeof again !== 'object' || again.signature !== file.signature) return QUIET_MS
    const needed = settleMs(text, known.text)
    if (quiet < needed) return needed - quiet

    const manifest = parseManifest(text)
    known.read = file.signature
    known.ignored = manifest.ignored
    if (manifest.broken.length === 0) known.text = text.length <= KEEP_TEXT ? text : undefined
    this.#objects.set(file.name, manifest)
    return RESCAN_MS
  }

  /** Editors remove a file and write it anew: it must be gone for a while. */
  #missing(name: string, known: KnownFile): number {
    const now = performance.now()
    if (known.seen !== '') {
      known.seen = ''
      known.since = now
    }
    if (now - known.since < QUIET_MS) return QUIET_MS
    this.#known.delete(name)
    this.#objects.remove(name)
    return RESCAN_MS
  }

  /** Without a watch (out of inotify instances, say) the regular look still finds every change. */
  #watch(folders: ReadonlyMap<string, { readonly path: string; readonly inode: string }>): void {
    for (const [name, { inode, watcher }] of this.#watchers) {
      if (folders.get(name)?.inode === inode) continue
      watcher.close()
      this.#watchers.delete(name)
    }
    for (const [name, { path, inode }] of folders) {
      if (this.#watchers.has(name) || this.#sink === undefined) continue
      try {
        const watcher = watch(path, () => this.#schedule(BURST_MS))
        watcher.on('error', () => {
          watcher.close()
          this.#watchers.delete(name)
        })
        this.#watchers.set(name, { inode, watcher })
      } catch {}
    }
  }
}

function broken(message: string): Manifest {
  return { broken: [{ line: 0, field: 'file', message }], entries: [], ignored: 0 }
}

function isWithin(name: string, folder: string): boolean {
  return folder === '' || name.startsWith(`${folder}/`)
}

/** Why a file or folder could not be read, and what to do. */
function reason(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return 'does not exist; create it'
  if (error.code === 'ENOTDIR') return 'is not a folder; name one that holds manifests'
  if (error.code === 'EACCES' || error.code === 'EPERM') return 'may not be read; change its permissions'
  return `cannot be read (${error.message})`
}
