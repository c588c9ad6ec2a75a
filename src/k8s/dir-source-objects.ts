import type { ProblemEvent, SourceEvent, WatchedKind, WatchedObject } from '../model/objects.js'
import type { Manifest, ManifestProblem } from './manifest.js'

/** An object as one file has it; `object` undefined = not for us. */
interface Claim {
  readonly kind: WatchedKind
  readonly key: string
  readonly object: WatchedObject | undefined
  readonly line: number
}

interface FileRecord {
  /** By `kind key`: the newest good state of each object in the file. */
  readonly claims: ReadonlyMap<string, Claim>
  readonly problems: readonly ManifestProblem[]
  /** Something in it was never readable, so it may have objects that nobody knows. */
  readonly incomplete: boolean
}

/** A file of which nothing is known yet. */
const NOTHING: FileRecord = { claims: new Map(), problems: [], incomplete: true }

/**
 * The objects of a folder of manifests, and who says them. Decides only: files go in,
 * source events come out. What a broken file said when it was good stays; an object that
 * stands in two files is taken from the first by name.
 */
export class DirObjects {
  readonly #root: string
  readonly #files = new Map<string, FileRecord>()
  /** By `kind key`: the files that have it. */
  readonly #claimants = new Map<string, Set<string>>()
  readonly #delivered = new Set<string>()
  /** By file and where: problems as reported. */
  readonly #reported = new Map<string, ReadonlyMap<string, readonly ProblemEvent[]>>()
  readonly #dirtyClaims = new Set<string>()
  readonly #dirtyFiles = new Set<string>()

  /** `root` stands before the file names in reports. */
  constructor(root: string) {
    this.#root = root
  }

  /** A file is new or has changed. The name is relative to the root; empty for the root itself. */
  set(file: string, manifest: Manifest): void {
    const before = this.#files.get(file) ?? NOTHING
    this.#dirtyFiles.add(file)
    if (manifest.broken.length > 0) {
      this.#files.set(file, { ...before, problems: manifest.broken })
      return
    }
    const after = read(manifest, before)
    this.#replace(file, before, after)
    this.#files.set(file, after)
  }

  /** A file is gone, and its objects with it. */
  remove(file: string): void {
    const before = this.#files.get(file)
    if (before === undefined) return
    this.#dirtyFiles.add(file)
    this.#replace(file, before, NOTHING)
    this.#files.delete(file)
  }

  /** Files (and the root) in which something was never readable: until they are mended, nothing may be pruned. */
  get incomplete(): boolean {
    return [...this.#files.values()].some(file => file.incomplete)
  }

  /** What changed since the last call. */
  flush(): SourceEvent[] {
    const events: SourceEvent[] = []
    for (const id of this.#dirtyClaims) this.#deliver(id, events)
    for (const file of this.#dirtyFiles) this.#report(file, events)
    this.#dirtyClaims.clear()
    this.#dirtyFiles.clear()
    return events
  }

  #replace(file: string, before: FileRecord, after: FileRecord): void {
    for (const id of before.claims.keys()) {
      this.#dirtyClaims.add(id)
      const files = this.#claimants.get(id)
      files?.delete(file)
      if (files?.size === 0) this.#claimants.delete(id)
    }
    for (const id of after.claims.keys()) {
      this.#dirtyClaims.add(id)
      this.#claimants.set(id, (this.#claimants.get(id) ?? new Set()).add(file))
    }
  }

  /** The file whose word counts for an object. */
  #winner(id: string): string | undefined {
    let first: string | undefined
    for (const file of this.#claimants.get(id) ?? []) if (first === undefined || file < first) first = file
    return first
  }

  #deliver(id: string, events: SourceEvent[]): void {
    for (const file of this.#claimants.get(id) ?? []) this.#dirtyFiles.add(file)
    const winner = this.#winner(id)
    const object = winner === undefined ? undefined : this.#files.get(winner)?.claims.get(id)?.object
    if (object !== undefined) {
      this.#delivered.add(id)
      events.push({ type: 'upsert', object })
    } else if (this.#delivered.delete(id)) {
      const [kind, key] = id.split(' ') as [WatchedKind, string]
      events.push({ type: 'delete', kind, key })
    }
  }

  #report(file: string, events: SourceEvent[]): void {
    const before = this.#reported.get(file) ?? new Map<string, readonly ProblemEvent[]>()
    const after = new Map<string, ProblemEvent[]>()
    for (const { line, field, message } of this.#problemsOf(file)) {
      const where = this.#where(file, line)
      after.set(where, [...(after.get(where) ?? []), { type: 'problem', where, field, message }])
    }
    for (const [where, problems] of before) {
      if (JSON.stringify(after.get(where)) !== JSON.stringify(problems)) events.push({ type: 'resolved', where })
    }
    for (const [where, problems] of after) {
      if (JSON.stringify(before.get(where)) !== JSON.stringify(problems)) events.push(...problems)
    }
    if (after.size === 0) this.#reported.delete(file)
    else this.#reported.set(file, after)
  }

  #problemsOf(file: string): ManifestProblem[] {
    const record = this.#files.get(file)
    if (record === undefined) return []
    const problems = [...record.problems]
    for (const [id, claim] of record.claims) {
      const winner = this.#winner(id)
      if (winner === undefined || winner === file) continue
      const other = this.#where(winner, this.#files.get(winner)?.claims.get(id)?.line ?? 0)
      const message = `${claim.kind} ${claim.key}: stands in ${other}, too, which counts; remove one of them`
      problems.push({ line: claim.line, field: 'metadata.name', message })
    }
    return problems
  }

  #where(file: string, line: number): string {
    const path = file === '' ? this.#root : `${this.#root}/${file}`
    return line === 0 ? path : `${path}:${line}`
  }
}

/** A readable file: an object that is refused keeps the last good state it had in this file. */
function read(manifest: Manifest, before: FileRecord): FileRecord {
  const claims = new Map<string, Claim>()
  const problems: ManifestProblem[] = []
  let incomplete = false
  for (const { kind, key, object, refused, line, problems: own } of manifest.entries) {
    const id = `${kind} ${key}`
    problems.push(...own)
    const first = claims.get(id)
    if (first !== undefined) {
      const message = `${kind} ${key}: stands in ${first.line === 0 ? 'this file' : `line ${first.line}`} before, which counts; remove one of them`
      problems.push({ line, field: 'metadata.name', message })
      continue
    }
    const last = before.claims.get(id)
    if (!refused) claims.set(id, { kind, key, object, line })
    else if (last !== undefined) claims.set(id, { ...last, line })
    else incomplete = true
  }
  return { claims, problems, incomplete }
}
