import { type MessageName, messageType } from '../../src/k8s/kube-schema.js'

/** The API's objects as a server writes them in protobuf: the inverse of src/k8s/kube-proto. */

type Json = Readonly<Record<string, unknown>>

/** The bytes of an object of `kind`. */
export function encodeObject(kind: string, object: unknown): Buffer {
  const { metadata, ...rest } = object as { metadata?: Json }
  return encode(kind as MessageName, { ...rest, ...(metadata && { metadata: withTimes(metadata) }) })
}

/** The body of a list. */
export function encodeList(kind: string, metadata: Json, items: readonly unknown[]): Buffer {
  const parts = [field(1, encode('ListMeta', metadata)), ...items.map(item => field(2, encodeObject(kind, item)))]
  return envelope(`${kind}List`, Buffer.concat(parts))
}

export function encodeStatus(status: Json): Buffer {
  return envelope('Status', encode('Status', status))
}

/** A frame of a watch. An object with the kind Status goes out as that, a buffer as it is. */
export function encodeEvent(kind: string, type: string, object: unknown): Buffer {
  const isStatus = (object as { kind?: string }).kind === 'Status'
  const inner = Buffer.isBuffer(object)
    ? object
    : isStatus
      ? encode('Status', object as Json)
      : encodeObject(kind, object)
  const raw = envelope(isStatus ? 'Status' : kind, inner)
  return frame(encode('WatchEvent', { type, object: { raw } }))
}

export function frame(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** A length-delimited field. */
export function field(number: number, bytes: Buffer): Buffer {
  const head = [number * 8 + 2]
  let length = bytes.length
  for (; length > 127; length = Math.floor(length / 128)) head.push((length % 128) + 128)
  return Buffer.concat([Buffer.from([...head, length]), bytes])
}

function envelope(kind: string, raw: Buffer): Buffer {
  const unknown = encode('Unknown', { typeMeta: { apiVersion: 'x', kind }, raw, contentEncoding: '' })
  return Buffer.concat([Buffer.from('k8s\0', 'latin1'), unknown])
}

function encode(name: MessageName, object: Json): Buffer {
  const type = messageType(name)
  return Buffer.from(type.encode(type.fromObject(object)).finish())
}

/** Times are messages in protobuf; a missing creation time is an empty one. */
function withTimes(metadata: Json): Json {
  const time = (value: unknown) => (typeof value === 'string' ? { seconds: Math.floor(Date.parse(value) / 1000) } : {})
  const { creationTimestamp, deletionTimestamp, ...rest } = metadata
  return {
    ...rest,
    creationTimestamp: time(creationTimestamp),
    ...(deletionTimestamp !== undefined && { deletionTimestamp: time(deletionTimestamp) }),
  }
}
