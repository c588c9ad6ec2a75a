import { createServer, type ServerResponse } from 'node:http'
import { loadNative } from '../../src/ebpf/load-native.js'
import { apiNode, apiService, apiSlice, listPages } from './generate.js'

export const SLICES_PATH = '/apis/discovery.k8s.io/v1/endpointslices'

/** Objects a page, as clients ask for. */
const PAGE = 500

/**
 * Answers as an API server does to one client that lists and watches, from texts that were
 * made before: what is measured is the client.
 */
export class FixtureApi {
  readonly #pages: ReadonlyMap<string, readonly Buffer[]>
  readonly #watches = new Map<string, ServerResponse>()
  readonly #server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://fixture')
    response.setHeader('content-type', 'application/json')
    if (url.searchParams.has('watch')) {
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
    const pages = (kind: string, apiVersion: string, items: readonly object[]) =>
      listPages(kind, apiVersion, items, PAGE).map(text => Buffer.from(text))
    this.#pages = new Map([
      ['/api/v1/services', pages('Service', 'v1', indexes.map(apiService))],
      [
        SLICES_PATH,
        pages(
          'EndpointSlice',
          'discovery.k8s.io/v1',
          indexes.map(i => apiSlice(i, endpoints)),
        ),
      ],
      ['/api/v1/nodes', pages('Node', 'v1', [apiNode()])],
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

  /** Sends lines of events to the watch of a collection; they are with the kernel when it returns. */
  send(path: string, lines: string): void {
    // As a chunk of our own: the response would hold it back until the next turn of the event loop.
    const length = Buffer.byteLength(lines).toString(16)
    this.#watches.get(path)?.socket?.write(`${length}\r\n${lines}\r\n`)
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
