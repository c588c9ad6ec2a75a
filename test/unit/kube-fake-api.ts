import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { PROTOBUF } from '../../src/k8s/kube-proto.js'
import { encodeEvent, encodeList } from './kube-proto-encode.js'

export interface RawObject {
  metadata: { name: string; namespace?: string; resourceVersion?: string; labels?: Record<string, string> }
  [field: string]: unknown
}

export interface FakeRequest {
  readonly path: string
  readonly watch: boolean
  readonly query: URLSearchParams
}

interface Change {
  readonly version: number
  readonly path: string
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: RawObject
}

interface Spec {
  readonly ports: readonly { readonly port: number }[]
}

interface OpenWatch {
  readonly path: string
  readonly response: ServerResponse
}

/** What an API server can do. */
export interface FakeAbilities {
  /** Answers in protobuf those who accept it. */
  readonly protobuf?: boolean
  /** Gives lists as streams (WatchList). */
  readonly streams?: boolean
}

export const servicesPath = '/api/v1/services'
export const slicesPath = '/apis/discovery.k8s.io/v1/endpointslices'
export const nodesPath = '/api/v1/nodes'

/**
 * An API server of three collections over plain HTTP, with the real one's rules for
 * resource versions, pages, watches and 410, and with a hook that may answer a request
 * in any wrong way instead.
 */
export class FakeApi {
  /** Everything asked, in order. */
  readonly requests: FakeRequest[] = []
  /** Answers a request itself and returns true, or leaves it to the rules. */
  fault: (request: FakeRequest, response: ServerResponse) => boolean = () => false
  readonly abilities: FakeAbilities
  readonly #server = createServer((request, response) => this.#answer(request, response))
  readonly #sockets = new Set<Socket>()
  readonly #objects = new Map<string, Map<string, RawObject>>()
  readonly #watches = new Set<OpenWatch>()
  /** By continue token: what is left of a list. */
  readonly #rests = new Map<string, { version: number; items: readonly RawObject[] }>()
  #log: Change[] = []
  #version = 100
  /** Changes up to here are forgotten. */
  #compacted = 100
  #muted = false

  constructor(abilities: FakeAbilities = {}) {
    this.abilities = abilities
  }

  async listen(port = 0): Promise<this> {
    this.#server.on('connection', socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    await new Promise<void>(resolve => this.#server.listen(port, '127.0.0.1', resolve))
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.reset()
    await new Promise(resolve => this.#server.close(resolve))
  }

  get openWatches(): number {
    return this.#watches.size
  }

  count(path: string, kind: 'list' | 'watch'): number {
    return this.requests.filter(request => request.path === path && request.watch === (kind === 'watch')).length
  }

  /** Names of what the collection holds, with its versions. */
  state(path: string): Map<string, string> {
    const entries = [...this.#collection(path)].map(([key, object]) => [key, object.metadata.resourceVersion ?? ''])
    return new Map(entries as [string, string][])
  }

  /** What the collection holds as sorted `name:port`. */
  ports(path: string): string[] {
    const objects = [...this.#collection(path).values()]
    return objects.map(({ metadata, spec }) => `${metadata.name}:${(spec as Spec).ports[0]?.port}`).sort()
  }

  put(path: string, object: RawObject): void {
    const key = keyOf(object)
    const type = this.#collection(path).has(key) ? 'MODIFIED' : 'ADDED'
    this.#change(path, type, object)
  }

  remove(path: string, key: string): void {
    const object = this.#collection(path).get(key)
    if (object) this.#change(path, 'DELETED', object)
  }

  /** Forgets the past: a watch from before gets 410, and so does a list that was not finished. */
  compact(): void {
    this.#log = []
    this.#compacted = this.#version
    this.#rests.clear()
  }

  /** Goes back to an empty past, as after a restore from an old backup. */
  rewind(version: number): void {
    this.compact()
    this.#version = version
    this.#compacted = version
  }

  /** Loses all objects without a trace in its log. */
  lose(path: string): void {
    this.#collection(path).clear()
    this.#version++
    this.compact()
  }

  bookmark(path: string): void {
    this.send(path, this.event(path, 'BOOKMARK', { metadata: { resourceVersion: String(this.#version) } }))
  }

  /** An event as it is on the wire. */
  event(path: string, type: string, object: unknown): Buffer {
    return this.abilities.protobuf ? encodeEvent(kindOf(path), type, object) : Buffer.from(line(type, object))
  }

  /** Tells the watches of a collection once more what it told them as the last but `back`. */
  repeat(path: string, back: number): void {
    const change = this.#log.filter(change => change.path === path).at(-1 - back)
    if (change !== undefined) this.send(path, this.event(path, change.type, change.object))
  }

  /** Sends bytes to the watches of a collection. */
  send(path: string, bytes: string | Buffer): void {
    for (const watch of this.#watches) if (watch.path === path) watch.response.write(bytes)
  }

  /** While muted, changes are made but told to no watch, as on a link that swallows packets. */
  mute(muted: boolean): void {
    this.#muted = muted
  }

  /** Ends all watches as a server does whose time limit is reached. */
  endWatches(): void {
    for (const watch of this.#watches) watch.response.end()
    this.#watches.clear()
  }

  /** Resets all connections. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
    this.#watches.clear()
  }

  /** Sends the first `bytes` of a change's line to the collection's watches, then resets all connections. */
  async putCut(path: string, object: RawObject, bytes: number): Promise<void> {
    this.mute(true)
    this.put(path, object)
    this.mute(false)
    const { type, object: stored } = this.#log.at(-1) as Change
    this.send(path, this.event(path, type, stored).subarray(0, bytes))
    // Two turns of the loop, so that the bytes are on their way before the reset.
    await new Promise(resolve => setTimeout(resolve, 2))
    this.reset()
  }

  #collection(path: string): Map<string, RawObject> {
    let collection = this.#objects.get(path)
    if (!collection) {
      collection = new Map()
      this.#objects.set(path, collection)
    }
    return collection
  }

  #change(path: string, type: Change['type'], object: RawObject): void {
    const version = ++this.#version
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } }
    if (type === 'DELETED') this.#collection(path).delete(keyOf(object))
    else this.#collection(path).set(keyOf(object), stored)
    this.#log.push({ version, path, type, object: stored })
    if (!this.#muted) this.send(path, this.event(path, type, stored))
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', this.url)
    const asked = { path: url.pathname, watch: url.searchParams.has('watch'), query: url.searchParams }
    if (!this.abilities.streams && asked.query.has('sendInitialEvents')) {
      sendStatus(response, 422, 'sendInitialEvents: Forbidden: unless the WatchList feature gate is enabled')
      return
    }
    this.requests.push(asked)
    if (this.fault(asked, response)) return
    if (asked.watch) this.#watch(asked, response)
    else this.#list(asked, response)
  }

  #list({ path, query }: FakeRequest, response: ServerResponse): void {
    const token = query.get('continue')
    const rest = token === null ? undefined : this.#rests.get(token)
    if (token !== null && !rest) {
      sendStatus(response, 410, 'The provided continue parameter is too old')
      return
    }
    const version = rest?.version ?? this.#version
    const items = rest?.items ?? [...this.#collection(path).values()]
    const limit = Number(query.get('limit') ?? 0) || items.length
    const metadata: Record<string, string> = { resourceVersion: String(version) }
    if (items.length > limit) {
      metadata.continue = `${path} ${this.requests.length}`
      this.#rests.set(metadata.continue, { version, items: items.slice(limit) })
    }
    this.sendList(path, response, metadata, items.slice(0, limit))
  }

  sendList(path: string, response: ServerResponse, metadata: Record<string, string>, items: readonly unknown[]): void {
    if (this.abilities.protobuf) {
      response.writeHead(200, { 'content-type': PROTOBUF })
      response.end(encodeList(kindOf(path), metadata, items))
    } else sendJson(response, 200, { kind: 'XList', metadata, items })
  }

  #watch({ path, query }: FakeRequest, response: ServerResponse): void {
    const initial = query.has('sendInitialEvents')
    const from = initial ? this.#version : Number(query.get('resourceVersion'))
    if (from < this.#compacted) {
      sendStatus(response, 410, `too old resource version: ${from}`)
      return
    }
    response.writeHead(200, {
      'content-type': this.abilities.protobuf ? `${PROTOBUF};stream=watch` : 'application/json',
    })
    response.flushHeaders()
    if (initial) {
      for (const object of this.#collection(path).values()) response.write(this.event(path, 'ADDED', object))
      response.write(this.event(path, 'BOOKMARK', initialEnd(this.#version)))
    }
    const watch = { path, response }
    this.#watches.add(watch)
    response.on('close', () => this.#watches.delete(watch))
    for (const change of this.#log) {
      if (change.path === path && change.version > from) response.write(this.event(path, change.type, change.object))
    }
  }
}

function kindOf(path: string): string {
  return { [servicesPath]: 'Service', [slicesPath]: 'EndpointSlice' }[path] ?? 'Node'
}

/** The bookmark behind the last object of a list as a stream. */
export function initialEnd(version: number): object {
  return { metadata: { resourceVersion: String(version), annotations: { 'k8s.io/initial-events-end': 'true' } } }
}

export function keyOf(object: RawObject): string {
  const { namespace, name } = object.metadata
  return namespace === undefined ? name : `${namespace}/${name}`
}

export function line(type: string, object: unknown): string {
  return `${JSON.stringify({ type, object })}\n`
}

/** The line of an ERROR event. */
export function errorLine(code: number, message: string): string {
  return line('ERROR', { kind: 'Status', status: 'Failure', code, message })
}

export function sendStatus(response: ServerResponse, code: number, message: string, headers = {}): void {
  sendJson(response, code, { kind: 'Status', status: 'Failure', code, message }, headers)
}

function sendJson(response: ServerResponse, code: number, body: unknown, headers = {}): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}

/** A Service as the API has it; `note` goes into an annotation that nobody reads. */
export function service(name: string, port = 80, note = ''): RawObject {
  return {
    metadata: { namespace: 'default', name, ...(note === '' ? {} : { annotations: { note } }) },
    spec: {
      type: 'ClusterIP',
      clusterIP: '172.30.0.1',
      clusterIPs: ['172.30.0.1'],
      ports: [{ name: '', protocol: 'TCP', port }],
    },
  }
}
