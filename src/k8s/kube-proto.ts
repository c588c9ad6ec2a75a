import type { Message } from 'protobufjs'
import type { WatchedKind } from '../model/objects.js'
import { ProtoBytes } from './kube-bytes.js'
import { decodeSlice } from './kube-proto-slice.js'
import { type MessageName, messageType } from './kube-schema.js'

/** Media types, for Accept; JSON stands beside them, for servers that cannot. */
export const PROTOBUF = 'application/vnd.kubernetes.protobuf'

/** Whether an answer of that content type is protobuf. */
export function isProtobuf(contentType: string | undefined): boolean {
  return contentType?.includes(PROTOBUF) === true
}

/** How each protobuf answer begins: `k8s` and a zero byte. */
const MAGIC = Buffer.from('k8s\0', 'latin1')

const UNKNOWN = messageType('Unknown')
const WATCH_EVENT = messageType('WatchEvent')

/** What is inside of the envelope (runtime.Unknown), and of what kind it is. Throws when it is none. */
export function unwrap(body: Buffer): { readonly kind: string; readonly raw: Buffer } {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC)) throw new TypeError('not the beginning of a protobuf object')
  const envelope = plain(UNKNOWN.decode(body.subarray(MAGIC.length)), 'Unknown')
  if (envelope.contentEncoding) throw new TypeError(`an object in the encoding ${envelope.contentEncoding}`)
  const raw = envelope.raw as Uint8Array | undefined
  return {
    kind: String((envelope.typeMeta as { kind?: string } | undefined)?.kind ?? ''),
    raw: raw === undefined ? Buffer.alloc(0) : Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength),
  }
}

/** An event of a watch: its type and the object as {@link unwrap} gives it. */
export function unwrapEvent(frame: Buffer): { readonly type: string; readonly kind: string; readonly raw: Buffer } {
  const event = plain(WATCH_EVENT.decode(frame), 'WatchEvent')
  const raw = (event.object as { raw?: Uint8Array } | undefined)?.raw ?? new Uint8Array()
  return { type: String(event.type ?? ''), ...unwrap(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength)) }
}

/** The parts of a list: its metadata in the shape of JSON, and each item's bytes. */
export function splitList(raw: Buffer): { readonly metadata: unknown; readonly items: readonly Buffer[] } {
  const items: Buffer[] = []
  let metadata: unknown = {}
  const list = new ProtoBytes(raw)
  while (list.next()) {
    if (list.field === 1) metadata = decode('ListMeta', list.bytes())
    else if (list.field === 2) items.push(list.bytes())
    else list.skip()
  }
  return { metadata, items }
}

/** An object in the shape that it has in JSON, with the fields that we read. Throws when the bytes are no such object. */
export function decodeObject(kind: WatchedKind, bytes: Buffer): unknown {
  return kind === 'EndpointSlice' ? decodeSlice(bytes) : withDates(decode(kind, bytes))
}

/** The same without the faster decoder of EndpointSlices, as its oracle. */
export function decodeByLibrary(kind: WatchedKind, bytes: Buffer): unknown {
  return withDates(decode(kind, bytes))
}

/** Only metadata: of a bookmark, and to name an object that cannot be decoded. */
export function decodeMeta(bytes: Buffer): unknown {
  return withDates(decode('Meta', bytes))
}

export function decodeStatus(bytes: Buffer): Plain {
  return decode('Status', bytes)
}

type Plain = Record<string, unknown>

function decode(name: MessageName, bytes: Buffer): Plain {
  return plain(messageType(name).decode(bytes), name)
}

/** Own fields only: what was not sent is absent, as in JSON. */
function plain(message: object, name: MessageName): Plain {
  return messageType(name).toObject(message as Message, { longs: Number })
}

/** The API writes the zero time as an empty message. */
function withDates(object: Plain): Plain {
  const metadata = object.metadata as { creationTimestamp?: unknown } | undefined
  const seconds = (metadata?.creationTimestamp as { seconds?: number } | undefined)?.seconds
  if (metadata?.creationTimestamp !== undefined) {
    metadata.creationTimestamp = seconds === undefined ? undefined : new Date(seconds * 1000)
  }
  return object
}
