import { parseAddress } from '../model/address.js'
import { type Cidr, parseCidr } from '../model/cidr.js'
import { formatPortRange, type PortRange, parsePortRange } from '../model/port-range.js'

/** What a raw value became, or why it is refused (a clause that follows "is"/the value). */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string }

/** How one kind of value is read from a flag, an environment variable or a YAML file. */
export interface ValueType<T> {
  /** Shown in help and in the reference: `duration`, `random|rr`. */
  readonly name: string
  /** True when a flag may be repeated and values are separated by commas. */
  readonly list: boolean
  /** `raw` is text, or what YAML made of it: number, boolean, list. */
  parse(raw: unknown): Parsed<T>
  /** Text that `parse` turns into the same value. */
  print(value: T): string
}

const accept = <T>(value: T): Parsed<T> => ({ ok: true, value })
const refuse = (problem: string): Parsed<never> => ({ ok: false, problem })

/** Scalars of YAML as the text that a flag would hold; undefined for lists and mappings. */
function asText(raw: unknown): string | undefined {
  if (typeof raw === 'string') return raw.trim()
  if (typeof raw === 'number' || typeof raw === 'boolean') return String(raw)
  return undefined
}

/** A type whose values are written as one piece of text. */
function scalar<T>(name: string, read: (text: string) => Parsed<T>, print: (value: T) => string): ValueType<T> {
  return {
    name,
    list: false,
    parse(raw) {
      const text = asText(raw)
      return text === undefined ? refuse(`must be one value of type ${name}`) : read(text)
    },
    print,
  }
}

/** Text that `pattern` matches; `problem` says what it must be. */
export function text(name: string, pattern: RegExp, problem: string): ValueType<string> {
  return scalar(
    name,
    value => (pattern.test(value) ? accept(value) : refuse(problem)),
    value => value,
  )
}

/** Any text. */
export const anyText = text('text', /^/, '')

/** A YAML mapping, or `a=b,c=d` in a flag; what is in it is not looked at. */
export const mapping: ValueType<unknown> = {
  name: 'mapping',
  list: false,
  parse: raw =>
    (typeof raw === 'object' && raw !== null && !Array.isArray(raw)) || typeof raw === 'string'
      ? accept(raw)
      : refuse('must be a mapping'),
  print: value => (typeof value === 'string' ? value : JSON.stringify(value)),
}

/** An absolute path. */
export const path = text('path', /^\/[^\0]*$/, 'must be an absolute path')

/** One of a few words. */
export function choice<const W extends string>(...words: readonly W[]): ValueType<W> {
  return scalar(
    words.join('|'),
    value => {
      const word = words.find(candidate => candidate === value)
      return word === undefined ? refuse(`must be one of ${words.join(', ')}`) : accept(word)
    },
    value => value,
  )
}

/** A whole number from `min` to `max`. */
export function integer(min: number, max: number): ValueType<number> {
  return scalar(
    'integer',
    value => {
      const number = Number(value)
      if (!/^-?[0-9]+$/.test(value) || number < min || number > max) {
        return refuse(`must be a whole number from ${min} to ${max}`)
      }
      return accept(number)
    },
    String,
  )
}

/** A power of two from `min` to `max`. */
export function powerOfTwo(min: number, max: number): ValueType<number> {
  const whole = integer(min, max)
  return {
    ...whole,
    name: 'power of two',
    parse(raw) {
      const parsed = whole.parse(raw)
      if (!parsed.ok || Number.isInteger(Math.log2(parsed.value))) return parsed
      return refuse(`must be a power of two, such as ${2 ** Math.ceil(Math.log2(parsed.value))}`)
    },
  }
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const

/** A duration in Go's notation (`1m30s`, `50ms`), kept in milliseconds. */
export function duration(minMs: number, maxMs: number): ValueType<number> {
  return scalar(
    'duration',
    value => {
      const parts = [...value.matchAll(/([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)/g)]
      if (value !== '0' && (parts.length === 0 || parts.map(part => part[0]).join('') !== value)) {
        return refuse('must be a duration with units, such as 50ms, 30s or 2h4m')
      }
      const ms = parts.reduce((sum, part) => sum + Number(part[1]) * UNITS[part[2] as keyof typeof UNITS], 0)
      if (ms < minMs || ms > maxMs) {
        return refuse(`must be from ${printDuration(minMs)} to ${printDuration(maxMs)}`)
      }
      return accept(ms)
    },
    printDuration,
  )
}

/** 7440000 -> `2h4m`, 50 -> `50ms`, 0 -> `0s`. */
export function printDuration(ms: number): string {
  const hours = Math.floor(ms / UNITS.h)
  const minutes = Math.floor((ms % UNITS.h) / UNITS.m)
  const seconds = Math.floor((ms % UNITS.m) / UNITS.s)
  const rest = ms % UNITS.s
  const text = [
    hours ? `${hours}h` : '',
    minutes ? `${minutes}m` : '',
    seconds ? `${seconds}s` : '',
    rest ? `${rest}ms` : '',
  ].join('')
  return text || '0s'
}

/** Where an HTTP server listens. */
export interface BindAddress {
  /** Canonical address, `0.0.0.0` and `::` for all. */
  readonly host: string
  readonly port: number
}

/** `ADDRESS`, `ADDRESS:PORT`, `[V6]:PORT`; kube-proxy's rule: a missing port is the default one. */
export function bindAddress(defaultPort: number): ValueType<BindAddress> {
  return scalar('address:port', value => parseBindAddress(value, defaultPort), printBindAddress)
}

function parseBindAddress(value: string, defaultPort: number): Parsed<BindAddress> {
  const bare = parseAddress(value.replace(/^\[(.*)\]$/, '$1'))
  if (bare !== undefined) return accept({ host: bare, port: defaultPort })
  const parts = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[^:]+)):(?<port>[0-9]{1,5})$/.exec(value)?.groups
  const host = parseAddress(parts?.v6 ?? parts?.v4 ?? '')
  const port = Number(parts?.port ?? 0)
  if (host === undefined)
    return refuse('must be an IP address with an optional port, such as 0.0.0.0:10256 or [::]:10256')
  if (port < 1 || port > 65535) return refuse('must have a port from 1 to 65535')
  return accept({ host, port })
}

/** The inverse of what {@link bindAddress} reads. */
export function printBindAddress(value: BindAddress): string {
  return value.host.includes(':') ? `[${value.host}]:${value.port}` : `${value.host}:${value.port}`
}

/** Where desired objects come from. */
export type SourceSpec = { readonly kind: 'kube' } | { readonly kind: 'dir'; readonly path: string }

export const sourceSpec = scalar<SourceSpec>(
  'dir:PATH|kube',
  value => {
    if (value === 'kube') return accept({ kind: 'kube' })
    const dir = /^dir:(.+)$/.exec(value)?.[1]
    return dir === undefined
      ? refuse('must be kube, or dir: and a directory of manifests')
      : accept({ kind: 'dir', path: dir })
  },
  value => (value.kind === 'kube' ? 'kube' : `dir:${value.path}`),
)

/** Several values of one kind: separated by commas in text, or a YAML list. */
export function list<T>(element: ValueType<T>): ValueType<readonly T[]> {
  return {
    name: `list of ${element.name}`,
    list: true,
    parse(raw) {
      const pieces = Array.isArray(raw) ? raw : (asText(raw)?.split(',') ?? [raw])
      const values: T[] = []
      for (const piece of pieces) {
        const parsed = element.parse(piece)
        if (!parsed.ok) return refuse(`${parsed.problem} (in element ${JSON.stringify(piece)})`)
        values.push(parsed.value)
      }
      return accept(Object.freeze(values))
    },
    print: values => values.map(value => element.print(value)).join(','),
  }
}

/** A network in canonical CIDR notation. */
export const cidr = scalar<Cidr>(
  'CIDR',
  value => {
    const canonical = parseCidr(value)
    return canonical === undefined
      ? refuse('must be a network in CIDR notation, such as 192.168.0.0/24')
      : accept(canonical)
  },
  value => value,
)

/** Ports: `1024-29999`, or one. */
export const portRange = scalar<PortRange>(
  'port range',
  value => {
    const range = parsePortRange(value)
    return range === undefined ? refuse('must be a range of ports, such as 1024-29999') : accept(range)
  },
  formatPortRange,
)

/** The same, or none at all. */
export const portRangeOrNone = scalar<PortRange | 'none'>(
  'port range|none',
  value => (value === 'none' ? accept(value) : portRange.parse(value)),
  value => (value === 'none' ? value : formatPortRange(value)),
)

/** true or false. */
export const bool = scalar<boolean>(
  'true|false',
  value => (value === 'true' || value === 'false' ? accept(value === 'true') : refuse('must be true or false')),
  String,
)

/** One of a few words, or else a value of another type. */
export function wordOr(words: readonly string[], other: ValueType<string>): ValueType<string> {
  return scalar(
    [...words, other.name].join('|'),
    value => (words.includes(value) ? accept(value) : other.parse(value)),
    value => value,
  )
}
