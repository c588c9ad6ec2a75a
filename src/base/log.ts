/** What stands beside a message: `revision=412`. Values are printed with `String` or as JSON. */
export type LogFields = Readonly<Record<string, unknown>>

/**
 * Where every part of the daemon writes. `message` is constant text, what varies goes
 * into `fields`. error: someone should act; warn: heals itself but is not normal; info:
 * what changed and how much; debug: single keys. An `error` field may hold an Error.
 */
export interface Logger {
  error(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  debug(message: string, fields?: LogFields): void
  /** A logger that adds `fields` to every line. */
  child(fields: LogFields): Logger
}

/** Drops every line: for tools and tests that have nothing to say. */
export const silentLogger: Logger = {
  error() {},
  warn() {},
  info() {},
  debug() {},
  child: () => silentLogger,
}
