import { type Document, LineCounter, parseAllDocuments } from 'yaml'
import type { ObjectKey, WatchedKind, WatchedObject } from '../model/objects.js'
import { type Converted, convert } from './convert.js'
import { fieldText, isRecord, type Path, show } from './convert-report.js'
import { lineOf } from './manifest-lines.js'

export interface ManifestProblem {
  /** 1-based; 0 = the file as a whole. */
  readonly line: number
  readonly field: string
  readonly message: string
}

/** One object of a kind we watch. */
export interface ManifestEntry {
  readonly kind: WatchedKind
  readonly key: ObjectKey
  /** undefined = refused, or not for us. */
  readonly object: WatchedObject | undefined
  /** Invalid as a whole: its last good state stays. */
  readonly refused: boolean
  /** Of its name; 0 = not known. */
  readonly line: number
  readonly problems: readonly ManifestProblem[]
}

/** What a manifest file says. */
export interface Manifest {
  /**
   * Why nobody can tell which objects the file has: bad syntax, or an object without
   * kind or name. Not empty = the last good state of everything in the file stays.
   */
  readonly broken: readonly ManifestProblem[]
  readonly entries: readonly ManifestEntry[]
  /** Objects of kinds that we do not watch. */
  readonly ignored: number
}

const API_VERSION: Readonly<Record<WatchedKind, string>> = {
  Service: 'v1',
  EndpointSlice: 'discovery.k8s.io/v1',
  Node: 'v1',
}

/** A document as plain data, and where its fields stand. */
interface Parsed {
  readonly value: unknown
  readonly line: (path: Path) => number
  /** The same for names, which are asked for when nothing is wrong, too. */
  readonly nameLine: (path: Path) => number
}

/** Longer JSON is not parsed a second time just to tell in which line a name stands. */
const LOCATED_JSON = 1 << 16

/** Reads YAML (several documents) or JSON, with lists flattened. Never throws. */
export function parseManifest(text: string): Manifest {
  const broken: ManifestProblem[] = []
  if (text.trim() === '') {
    const message = 'the file is empty; remove it to delete its objects'
    return { broken: [{ line: 0, field: 'file', message }], entries: [], ignored: 0 }
  }
  const reader = new Reader(broken)
  for (const document of text.trimStart().startsWith('{') ? parseJson(text, broken) : parseYaml(text, broken)) {
    reader.document(document)
  }
  return broken.length > 0
    ? { broken, entries: [], ignored: 0 }
    : { broken, entries: reader.entries, ignored: reader.ignored }
}

/** JSON.parse is many times faster than a YAML parser; lines are looked up only when something is wrong. */
function parseJson(text: string, broken: ManifestProblem[]): readonly Parsed[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // A YAML document may begin with a brace, too; its parser also says where the mistake is.
    return parseYaml(text, broken)
  }
  let located: Parsed | undefined
  const line = (path: Path): number => {
    located ??= parseYaml(text, [])[0]
    return located?.line(path) ?? 1
  }
  return [{ value, line, nameLine: text.length <= LOCATED_JSON ? line : () => 0 }]
}

function parseYaml(text: string, broken: ManifestProblem[]): readonly Parsed[] {
  const lines = new LineCounter()
  const parsed: Parsed[] = []
  // What is missing at the end is reported in the last line that says something.
  const end = text.trimEnd().length
  // `merge` as the API's own YAML reader has it; prettyErrors would quote the file in the message.
  for (const doc of parseAllDocuments(text, { lineCounter: lines, merge: true, prettyErrors: false })) {
    for (const error of doc.errors) {
      const message = `${error.message}; correct the syntax`
      broken.push({ line: lines.linePos(Math.min(error.pos[0], end)).line, field: 'syntax', message })
    }
    if (doc.errors.length > 0 || doc.contents === null) continue
    const line = (path: Path) => lineOf(doc as Document, path, lines)
    try {
      parsed.push({ value: doc.toJS(), line, nameLine: line })
    } catch (error) {
      // Aliases that expand without end.
      broken.push({ line: line([]), field: 'syntax', message: error instanceof Error ? error.message : String(error) })
    }
  }
  return parsed
}

/** Sorts objects by kind and converts those that we watch. */
class Reader {
  readonly entries: ManifestEntry[] = []
  ignored = 0
  readonly #broken: ManifestProblem[]

  constructor(broken: ManifestProblem[]) {
    this.#broken = broken
  }

  document(parsed: Parsed): void {
    if (parsed.value !== null && parsed.value !== undefined) this.#object(parsed.value, [], parsed, undefined)
  }

  /** `inherit`: what an item of a typed list takes from it. */
  #object(value: unknown, at: Path, doc: Parsed, inherit: { kind: string; apiVersion: unknown } | undefined): void {
    if (!isRecord(value)) {
      this.#unknown(doc.line(at), at, `is ${show(value)}; write a Kubernetes object`)
      return
    }
    const kind = value.kind ?? inherit?.kind
    const apiVersion = value.apiVersion ?? inherit?.apiVersion
    if (typeof kind !== 'string') {
      this.#unknown(doc.line([...at, 'kind']), [...at, 'kind'], `is ${show(kind)}; write the kind of the object`)
    } else if (kind.endsWith('List')) {
      this.#list(value, at, doc, kind, apiVersion)
    } else if (isWatched(kind) && isOurGroup(kind, apiVersion)) {
      this.#watched(kind, apiVersion, value, at, doc)
    } else {
      this.ignored++
    }
  }

  #list(value: Readonly<Record<string, unknown>>, at: Path, doc: Parsed, kind: string, apiVersion: unknown): void {
    const items = value.items ?? []
    if (!Array.isArray(items)) {
      this.#unknown(doc.line([...at, 'items']), [...at, 'items'], `is ${show(items)}; write a list of objects`)
      return
    }
    const inherit = kind === 'List' ? undefined : { kind: kind.slice(0, -'List'.length), apiVersion }
    for (const [i, item] of items.entries()) this.#object(item, [...at, 'items', i], doc, inherit)
  }

  #watched(kind: WatchedKind, apiVersion: unknown, value: unknown, at: Path, doc: Parsed): void {
    const { key, object, problems } = checkVersion(kind, apiVersion, convert(kind, value))
    if (key === undefined) {
      for (const { path, message } of problems) this.#unknown(doc.line([...at, ...path]), path, `${kind}: ${message}`)
      return
    }
    this.entries.push({
      kind,
      key,
      object,
      refused: object === undefined && problems.length > 0,
      line: doc.nameLine([...at, 'metadata', 'name']),
      problems: problems.map(({ path, field, message }) => ({
        line: doc.line([...at, ...path]),
        field,
        message: `${kind} ${key}: ${message}`,
      })),
    })
  }

  #unknown(line: number, path: Path, message: string): void {
    this.#broken.push({ line, field: fieldText(path), message })
  }
}

function isWatched(kind: string): kind is WatchedKind {
  return Object.hasOwn(API_VERSION, kind)
}

/** Another group may have a kind of the same name (Knative's Service): not ours. */
function isOurGroup(kind: WatchedKind, apiVersion: unknown): boolean {
  if (typeof apiVersion !== 'string') return true
  return groupOf(apiVersion) === groupOf(API_VERSION[kind])
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : ''
}

function checkVersion(kind: WatchedKind, apiVersion: unknown, converted: Converted): Converted {
  if (apiVersion === API_VERSION[kind] || converted.key === undefined) return converted
  const message = `is ${show(apiVersion)}; write ${API_VERSION[kind]}`
  return { key: converted.key, object: undefined, problems: [{ path: ['apiVersion'], field: 'apiVersion', message }] }
}
