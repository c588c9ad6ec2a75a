import type {
  EndpointObject,
  EndpointSliceObject,
  NodeObject,
  ServiceObject,
  ServicePortObject,
  WatchedObject,
} from '../model/objects.js'

/**
 * The form of a checkpoint: lines of JSON, first a header, then an object each, then the
 * checksum of all before it. Readers take no other number than their own.
 */
export const CHECKPOINT_FORMAT = 1

/**
 * The fields of the objects in format 1. A field that comes or goes fails to compile here:
 * then CHECKPOINT_FORMAT is counted up, so that no agent reads objects of another shape.
 */
type Fields<T> = { readonly [K in keyof Required<T>]: 1 }
export const SHAPE: {
  readonly Service: Fields<ServiceObject>
  readonly EndpointSlice: Fields<EndpointSliceObject>
  readonly Node: Fields<NodeObject>
  readonly port: Fields<ServicePortObject>
  readonly endpoint: Fields<EndpointObject>
} = {
  Service: {
    kind: 1,
    namespace: 1,
    name: 1,
    type: 1,
    clusterIPs: 1,
    externalIPs: 1,
    loadBalancerIPs: 1,
    sourceRanges: 1,
    ports: 1,
    affinitySeconds: 1,
    internalLocal: 1,
    externalLocal: 1,
    healthCheckNodePort: 1,
    scheduler: 1,
    created: 1,
    uid: 1,
  },
  EndpointSlice: {
    kind: 1,
    namespace: 1,
    name: 1,
    service: 1,
    family: 1,
    weight: 1,
    triggered: 1,
    endpoints: 1,
    ports: 1,
  },
  Node: { kind: 1, name: 1, internalIPs: 1, podCIDRs: 1, zone: 1, leaving: 1 },
  port: { name: 1, protocol: 1, port: 1, nodePort: 1 },
  endpoint: { addresses: 1, ready: 1, serving: 1, terminating: 1, nodeName: 1, zones: 1, nodes: 1 },
}

/** Whose state a checkpoint holds. */
export interface CheckpointOwner {
  /** Name of the Node. */
  readonly node: string
  /** Name of the source, with the address of the API server. */
  readonly source: string
}

export interface CheckpointHeader extends CheckpointOwner {
  readonly checkpoint: typeof CHECKPOINT_FORMAT
  /** ISO 8601 */
  readonly written: string
  readonly objects: number
}

/** The first line. */
export function headerLine(owner: CheckpointOwner, written: Date, objects: number): string {
  const header: CheckpointHeader = { checkpoint: CHECKPOINT_FORMAT, ...owner, written: written.toISOString(), objects }
  return `${JSON.stringify(header)}\n`
}

export function objectLine(object: WatchedObject): string {
  return `${JSON.stringify(object)}\n`
}

/** The object of a line. JSON leaves out what is undefined; a source does not, and the two have to be equal. */
export function objectOfLine(line: string): WatchedObject {
  const object: WatchedObject = JSON.parse(line)
  if (object.kind === 'Service') return { ...object, scheduler: object.scheduler, created: object.created }
  if (object.kind === 'Node') return object
  return { ...object, endpoints: object.endpoints.map(each => ({ ...each, nodeName: each.nodeName })) }
}

/** The last line; `sum` is the SHA-256 of all before it, in hexadecimal. */
export function checksumLine(sum: string): string {
  return `${JSON.stringify({ sha256: sum })}\n`
}

/** Why a checkpoint cannot be used; for people. */
export class CheckpointUnusable extends Error {}

/**
 * Checks the frame of a checkpoint and returns its header and where the lines of objects
 * begin and end. `sumOf` gives the SHA-256 of the first so many bytes. Throws
 * CheckpointUnusable.
 */
export function openCheckpoint(
  body: Uint8Array,
  owner: CheckpointOwner,
  sumOf: (length: number) => string,
): { readonly header: CheckpointHeader; readonly start: number; readonly end: number } {
  const start = body.indexOf(NEWLINE) + 1
  const end = body.lastIndexOf(NEWLINE, body.length - 2) + 1
  if (start === 0 || end < start) throw new CheckpointUnusable('it is cut short')
  const header = lineOf(body, 0, start) as Partial<CheckpointHeader>
  if (header.checkpoint !== CHECKPOINT_FORMAT) {
    throw new CheckpointUnusable(`it is of format ${header.checkpoint}, and this version reads ${CHECKPOINT_FORMAT}`)
  }
  const { sha256 } = lineOf(body, end, body.length) as { sha256?: unknown }
  if (sha256 !== sumOf(end)) throw new CheckpointUnusable('its checksum is wrong')
  for (const field of ['node', 'source'] as const) {
    if (header[field] !== owner[field]) {
      throw new CheckpointUnusable(`it is of the ${field} ${header[field]}, not ${owner[field]}`)
    }
  }
  return { header: header as CheckpointHeader, start, end }
}

const NEWLINE = 0x0a

function lineOf(body: Uint8Array, start: number, end: number): object {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body.subarray(start, end)))
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // Said below.
  }
  throw new CheckpointUnusable('it is cut short or no checkpoint')
}
