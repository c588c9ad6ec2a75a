import { messageOf } from '../base/errors.js'
import type { WatchedKind } from '../model/objects.js'
import { KubeError } from './kube-errors.js'
import { LengthFramer } from './kube-frames.js'
import { metaOf, record, versionOf } from './kube-known.js'
import { LineFramer } from './kube-lines.js'
import {
  decodeMeta,
  decodeObject,
  decodeStatus,
  isProtobuf,
  PROTOBUF,
  splitList,
  unwrap,
  unwrapEvent,
} from './kube-proto.js'
import { Undecodable } from './kube-wire-object.js'

/** What we can read, the better first; a server that knows no protobuf answers in JSON. */
export const ACCEPT = {
  list: `${PROTOBUF}, application/json;q=0.9`,
  watch: `${PROTOBUF};stream=watch, application/json;q=0.9`,
} as const

/** A page of a list. */
export interface Page {
  readonly version: string
  /** Raw objects in the shape of JSON, or {@link Undecodable}; each is made when it is asked for. */
  readonly items: Iterable<unknown>
  /** Names the next page; undefined = this is the last. */
  readonly token: string | undefined
}

/** Reads a page in the form that the answer's content type says. Throws KubeError `garbled` when it is none. */
export function parsePage(what: string, kind: WatchedKind, contentType: string, body: Buffer): Page {
  try {
    const { metadata, items } = isProtobuf(contentType) ? protoPage(kind, body) : jsonPage(body)
    const version = versionOf({ metadata })
    if (version === '') throw new TypeError('not a list with a resourceVersion')
    const token = record(metadata)?.continue
    return { version, items, token: typeof token === 'string' && token !== '' ? token : undefined }
  } catch (cause) {
    throw new KubeError('garbled', { what, cause })
  }
}

function jsonPage(body: Buffer): { metadata: unknown; items: Iterable<unknown> } {
  const page = record(JSON.parse(body.toString('utf8')))
  const items = page?.items ?? []
  if (!Array.isArray(items)) throw new TypeError('not a list')
  return { metadata: page?.metadata, items }
}

function protoPage(kind: WatchedKind, body: Buffer): { metadata: unknown; items: Iterable<unknown> } {
  const { kind: sent, raw } = unwrap(body)
  if (sent !== `${kind}List`) throw new TypeError(`a ${sent === '' ? 'nameless kind' : sent}, not a ${kind}List`)
  const { metadata, items } = splitList(raw)
  return { metadata, items: objectsOf(kind, items) }
}

function* objectsOf(kind: WatchedKind, items: readonly Buffer[]): Generator<unknown> {
  for (const bytes of items) yield objectOf(kind, bytes)
}

/** An object, or what can be said of one that cannot be decoded. */
function objectOf(kind: WatchedKind, bytes: Buffer): unknown {
  try {
    return decodeObject(kind, bytes)
  } catch (error) {
    return undecodable(bytes, messageOf(error))
  }
}

function undecodable(bytes: Buffer, message: string): Undecodable {
  try {
    const { key, version } = metaOf(decodeMeta(bytes))
    return new Undecodable(key, version, message)
  } catch {
    return new Undecodable(undefined, '', message)
  }
}

/** An event of a watch. */
export interface WatchMessage {
  readonly type: string
  /** As an item of a page; a Status for ERROR, only metadata for BOOKMARK. */
  readonly object: unknown
}

/** Cuts the body of a watch into its events, in the form that the answer's content type says. */
export class WatchReader {
  readonly #kind: WatchedKind
  readonly #frames: LengthFramer | undefined
  readonly #lines = new LineFramer()

  constructor(kind: WatchedKind, contentType: string) {
    this.#kind = kind
    this.#frames = isProtobuf(contentType) ? new LengthFramer() : undefined
  }

  /** False while a part of an event has come and the rest has not. */
  get whole(): boolean {
    return this.#frames?.whole ?? this.#lines.whole
  }

  /** The events that `chunk` completes. Throws what is no event. */
  *push(chunk: Buffer): Generator<WatchMessage> {
    if (this.#frames === undefined) {
      for (const line of this.#lines.push(chunk)) {
        const { type, object } = record(JSON.parse(line)) ?? {}
        yield { type: String(type), object }
      }
      return
    }
    for (const frame of this.#frames.push(chunk)) yield this.#event(frame)
  }

  #event(frame: Buffer): WatchMessage {
    const { type, kind, raw } = unwrapEvent(frame)
    // The kind counts: an error may come in an event of any type.
    if (kind === 'Status') return { type: 'ERROR', object: decodeStatus(raw) }
    return { type, object: type === 'BOOKMARK' ? decodeMeta(raw) : objectOf(this.#kind, raw) }
  }
}
