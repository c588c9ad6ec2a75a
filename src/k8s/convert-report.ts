import type { ObjectKey, WatchedObject } from '../model/objects.js'
import type { Converted } from './convert.js'

/** Path of a field inside an object: `['spec', 'ports', 1, 'port']`. */
export type Path = readonly (string | number)[]

/** What is wrong with one field, and what to write instead. */
export interface FieldProblem {
  readonly path: Path
  /** The path as text: `spec.ports[1].port`. */
  readonly field: string
  readonly message: string
}

/** `spec.ports[1].port`, and keys that are no plain words in brackets: `metadata.labels["a.b/c"]`. */
export function fieldText(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[A-Za-z0-9_-]+$/.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(step)}]`
  }
  return text === '' ? 'object' : text
}

/** A value as it stands in a message: JSON with control and format characters escaped, cut short. */
export function show(value: unknown): string {
  const text = json(value).replace(INVISIBLE, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** What JSON leaves as it is and no terminal should get. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

function json(value: unknown): string {
  try {
    return JSON.stringify(value ?? undefined) ?? 'missing'
  } catch {
    // YAML aliases can make a value that contains itself.
    return `a ${typeof value}`
  }
}

/** Collects what is wrong with one object while it is converted. */
export class Report {
  readonly problems: FieldProblem[] = []
  #refused = false

  /** The outcome: `object`, unless something refused it. */
  result(key: ObjectKey | undefined, object: WatchedObject | undefined): Converted {
    return { key, object: this.#refused ? undefined : object, problems: this.problems }
  }

  /**
   * One element is left out, or a default used; the rest goes on. A path of what stands a
   * hundred thousand times in a cluster may be a function, called when there is something to say.
   */
  warn(where: Path | (() => Path), message: string): void {
    const path = typeof where === 'function' ? where() : where
    this.problems.push({ path, field: fieldText(path), message })
  }

  /** The whole object cannot be used. */
  refuse(path: Path, message: string): void {
    this.#refused = true
    this.warn(path, message)
  }

  /** The mapping at `path`; unset means empty, anything else than a mapping refuses the object. */
  record(value: unknown, path: Path): Readonly<Record<string, unknown>> {
    if (value === undefined || value === null) return {}
    if (isRecord(value)) return value
    this.refuse(path, `is ${show(value)}; write a mapping`)
    return {}
  }

  /** The list at `path`; unset means empty, anything else than a list refuses the object. */
  list(value: unknown, path: Path): readonly unknown[] {
    if (value === undefined || value === null) return []
    if (Array.isArray(value)) return value
    this.refuse(path, `is ${show(value)}; write a list`)
    return []
  }

  /** One of `allowed`, or `unset` when there is no value; anything else refuses the object. */
  oneOf<T extends string>(value: unknown, path: Path, allowed: readonly T[], unset: T): T {
    if (value === undefined || value === null || value === '') return unset
    const found = allowed.find(word => word === value)
    if (found !== undefined) return found
    this.refuse(path, `is ${show(value)}; write ${allowed.join(' or ')}`)
    return unset
  }
}

/** A plain mapping. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
