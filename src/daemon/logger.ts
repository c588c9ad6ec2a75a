import pino from 'pino'
import type { LogFields, Logger } from '../base/log.js'

export type LogLevel = 'error' | 'warn' | 'info' | 'debug'

/** Where finished lines go, each with its line end. */
export interface LineSink {
  write(line: string): unknown
}

const RANK: Readonly<Record<LogLevel, number>> = { error: 0, warn: 1, info: 2, debug: 3 }

/** Standard error, written at once: the last line before a crash counts most. Losing it is no reason to die. */
export function stderrSink(): LineSink {
  const sink = pino.destination({ fd: 2, sync: true })
  sink.on('error', () => {})
  return sink
}

/** One JSON object a line: `level`, `time`, `msg` and the fields. */
export function jsonLogger(level: LogLevel, sink: LineSink): Logger {
  const root = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
      serializers: { error: pino.stdSerializers.errWithCause },
    },
    { write: line => void sink.write(line) },
  )
  return wrap(root)
}

function wrap(logger: pino.Logger): Logger {
  return {
    error: (message, fields) => logger.error(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    info: (message, fields) => logger.info(fields ?? {}, message),
    debug: (message, fields) => logger.debug(fields ?? {}, message),
    child: fields => wrap(logger.child(fields)),
  }
}

/** For people: `2026-01-01T00:00:00.000Z INFO  applied revision=412 services=3 writes=9 ms=4`. */
export function textLogger(level: LogLevel, sink: LineSink, now: () => Date, bound: LogFields = {}): Logger {
  const at = (line: LogLevel) => (message: string, fields?: LogFields) => {
    if (RANK[line] > RANK[level]) return
    const all = { ...bound, ...fields }
    const pairs = Object.entries(all).filter(([, value]) => value !== undefined)
    const text = pairs.map(([key, value]) => ` ${key}=${printValue(value)}`).join('')
    sink.write(`${now().toISOString()} ${line.toUpperCase().padEnd(5)} ${message}${text}\n${appendix(all)}`)
  }
  return {
    error: at('error'),
    warn: at('warn'),
    info: at('info'),
    debug: at('debug'),
    child: fields => textLogger(level, sink, now, { ...bound, ...fields }),
  }
}

/** Bare where nothing can be misread, else as JSON: names from the API may hold anything. */
function printValue(value: unknown): string {
  const text =
    value instanceof Error ? value.message : typeof value === 'object' ? JSON.stringify(value) : String(value)
  return /^[\w.:/@+,[\]()-]+$/.test(text) ? text : JSON.stringify(text)
}

/** What libbpf or the verifier said to an error or one of its causes, line by line, indented. */
function appendix(fields: LogFields): string {
  const lines: string[] = []
  for (let error = fields.error; error instanceof Error; error = error.cause) {
    if ('log' in error && typeof error.log === 'string') lines.push(...error.log.split('\n').filter(Boolean))
  }
  return lines.map(line => `    ${line}\n`).join('')
}
