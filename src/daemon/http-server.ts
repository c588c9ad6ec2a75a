import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Cancel, Clock } from '../base/clock.js'
import { messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { type BindAddress, printBindAddress } from '../config/types.js'

export interface HttpAnswer {
  readonly code: number
  readonly type: string
  readonly text: string
  readonly headers?: Readonly<Record<string, string>>
}

export type HttpRoute = () => HttpAnswer | Promise<HttpAnswer>

export interface HttpServerOptions {
  /** For the log: `health`, `metrics`. */
  readonly name: string
  readonly address: BindAddress
  readonly routes: ReadonlyMap<string, HttpRoute>
  /** Answers every path that `routes` lacks; unset means 404. */
  readonly otherPaths?: HttpRoute
  /** A wildcard IPv6 address does not stand for IPv4, too. */
  readonly ipv6Only?: boolean
  /** Called when listening failed, once for each reason, and with undefined when it works. */
  readonly onListening?: (error: unknown) => void
  readonly clock: Clock
  readonly logger: Logger
}

/** Milliseconds until a taken port is tried again. */
const RETRY_MS = 5000

/**
 * Answers GET and HEAD on a few paths. A port that is taken is no reason to stop serving
 * Services: it is logged and tried again until it is free.
 */
export class HttpServer {
  readonly #options: HttpServerOptions
  #server: Server | undefined
  #starting: Promise<void> = Promise.resolve()
  #cancel: Cancel | undefined
  #stopped = false
  #complaint: string | undefined

  constructor(options: HttpServerOptions) {
    this.#options = options
  }

  /** Resolves after the first try, successful or not. */
  start(): Promise<void> {
    if (!this.#stopped) this.#starting = this.#start()
    return this.#starting
  }

  async #start(): Promise<void> {
    const { address, clock, logger, name, ipv6Only = false, onListening = () => {} } = this.#options
    const server = createServer((request, response) => void this.#answer(request, response))
    server.headersTimeout = 5000
    server.requestTimeout = 5000
    server.keepAliveTimeout = 5000
    server.maxConnections = 100
    try {
      await listen(server, address, ipv6Only)
    } catch (error) {
      if (this.#stopped) return
      if (this.#complaint !== messageOf(error)) {
        logger.error('cannot listen; trying again', { server: name, address: printBindAddress(address), error })
        onListening(error)
      }
      this.#complaint = messageOf(error)
      this.#cancel = clock.after(RETRY_MS, () => void this.start())
      return
    }
    if (this.#stopped) {
      server.close()
      return
    }
    this.#server = server
    server.on('error', error => logger.error('server failed', { server: name, error }))
    logger.info('listening', { server: name, address: printBindAddress(address) })
    onListening(undefined)
  }

  get address(): BindAddress {
    return this.#options.address
  }

  /** The port is had. */
  get listening(): boolean {
    return this.#server !== undefined
  }

  /** Stops listening and ends open connections. Resolves when the port is free. */
  stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    this.#server?.close()
    this.#server?.closeAllConnections()
    return this.#starting
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    const route = this.#options.routes.get(path) ?? this.#options.otherPaths
    let answer: HttpAnswer
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      answer = plain(405, 'only GET and HEAD\n')
    } else if (route === undefined) {
      answer = plain(404, `not found; known paths: ${[...this.#options.routes.keys()].join(' ')}\n`)
    } else {
      try {
        answer = await route()
      } catch (error) {
        this.#options.logger.error('cannot answer', { path, error })
        answer = plain(500, `${messageOf(error)}\n`)
      }
    }
    response.writeHead(answer.code, {
      'Content-Type': answer.type,
      'Content-Length': Buffer.byteLength(answer.text),
      'X-Content-Type-Options': 'nosniff',
      ...answer.headers,
    })
    response.end(request.method === 'HEAD' ? undefined : answer.text)
  }
}

/** An answer of plain text. */
export function plain(code: number, text: string): HttpAnswer {
  return { code, type: 'text/plain; charset=utf-8', text }
}

/** An answer of JSON, with a line end for people who use curl. */
export function json(code: number, body: unknown): HttpAnswer {
  return { code, type: 'application/json', text: `${JSON.stringify(body)}\n` }
}

function listen(server: Server, { host, port }: BindAddress, ipv6Only: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, ipv6Only }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
