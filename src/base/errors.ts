/** The parts of an error's text: `CODE: what: cause; remedy`. */
export interface ErrorParts {
  /** What was tried, and on what: `update 10.96.0.10:53/UDP in frontends`. */
  readonly what: string
  /** What the reader can do about it. */
  readonly remedy?: string
  readonly cause?: unknown
}

/**
 * An error that somebody outside the code is meant to read. `code` is stable and has an
 * entry in the reference; each layer has its own subclass.
 */
export class WaggleError extends Error {
  readonly code: string
  readonly what: string
  readonly remedy: string | undefined

  constructor(code: string, parts: ErrorParts) {
    const cause = parts.cause === undefined ? '' : `: ${messageOf(parts.cause)}`
    const remedy = parts.remedy === undefined ? '' : `; ${parts.remedy}`
    super(`${code}: ${parts.what}${cause}${remedy}`, parts.cause === undefined ? undefined : { cause: parts.cause })
    this.name = new.target.name
    this.code = code
    this.what = parts.what
    this.remedy = parts.remedy
  }
}

/** One line about anything that was thrown. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message || thrown.name
  return String(thrown)
}

/** The errno name (`ENOENT`) or stable code of an error, if it has one. */
export function codeOf(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined
  return typeof thrown.code === 'string' ? thrown.code : undefined
}
