import { createServer, type ServerResponse } from 'node:http'
import { loadNative } from '../../src/ebpf/load-native.js'
import { PROTOBUF } from '../../src/k8s/kube-proto.js'
import { encodeList } from '../unit/kube-proto-encode.js'
import { apiNode, apiService, apiSlice } from './generate.js'

export const SLICES_PATH = '/apis/discovery.k8s.io/v1/endpointslices'

/** Objects a page, as clients ask for. */
const PAGE = 500

/**
 * Answers in protobuf, as an API server does to one client that lists in pages and watches,
 * from bytes that were made before: what is measured is the client.
 */
export class FixtureApi {
  readonly #pages: ReadonlyMap<string, readonly Buffer[]>
  readonly #watches = new Map<string, ServerResponse>()
  readonly #server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://fixture')
    if (url.searchParams.has('sendInitialEvents')) {
      response.statusCode = 422
      response.end()
      return
    }
    const isWatch = url.searchParams.has('watch')
    response.setHeader('content-type', isWatch ? `${PROTOBUF};stream=watch` : PROTOBUF)
    if (isWatch) {
      response.flushHeaders()
      response.socket?.setNoDelay(true)
      this.#watches.set(url.pathname, response)
      return
    }
    const page = Number(url.searchParams.get('continue') ?? 0)
    const body = this.#pages.get(url.pathname)?.[page]
    response.statusCode = body === undefined ? 404 : 200
    response.end(body)
  })

  constructor(services: number, endpoints: number) {
    const indexes = Array.from({ length: services }, (_, i) => i)
    this.#pages = new Map([
      ['/api/v1/services', pagesOf('Service', indexes.map(apiService))],
      [
        SLICES_PATH,
        pagesOf(
          'EndpointSlice',
          indexes.map(i => apiSlice(i, endpoints)),
        ),
      ],
      ['/api/v1/nodes', pagesOf('Node', [apiNode()])],
    ])
  }

  /** Listens on the loopback of a network namespace; returns the URL. */
  listen(netns: string): string {
    // Without a host name the socket is made within the call.
    loadNative().inNetns(netns, () => this.#server.listen(0))
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new TypeError('the server has no port')
    return `http://127.0.0.1:${address.port}`
  }

  /** Whether the collection's watch is there. */
  isWatched(path: string): boolean {
    return this.#watches.get(path)?.destroyed === false
  }

  /** Sends events to the watch of a collection; they are with the kernel when it returns. */
  send(path: string, events: Buffer): void {
    // As a chunk of our own: the response would hold it back until the next turn of the event loop.
    const head = `${events.length.toString(16)}\r\n`
    this.#watches.get(path)?.socket?.write(Buffer.concat([Buffer.from(head), events, Buffer.from('\r\n')]))
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

function pagesOf(kind: string, items: readonly object[]): readonly Buffer[] {
  const pages: Buffer[] = []
  for (let at = 0; at === 0 || at < items.length; at += PAGE) {
    const rest = at + PAGE < items.length ? { continue: String(pages.length + 1) } : {}
    pages.push(encodeList(kind, { resourceVersion: '500000', ...rest }, items.slice(at, at + PAGE)))
  }
  return pages
}
