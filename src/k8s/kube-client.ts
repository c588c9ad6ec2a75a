import { createHash } from 'node:crypto'
import http, { type IncomingMessage } from 'node:http'
import https, { type RequestOptions } from 'node:https'
import type { Clock } from '../base/clock.js'
import { codeOf } from '../base/errors.js'
import type { KubeAccess } from './kube-access.js'
import { errorOfStatus, errorOfStream, KubeError, parseRetryAfter } from './kube-errors.js'
import { decodeStatus, isProtobuf, unwrap } from './kube-proto.js'

export interface KubeClientOptions {
  /**
   * Base URLs to try, in this order, instead of the one of the configuration. They must
   * be served by the same cluster, with certificates that fit.
   */
  readonly servers?: readonly string[]
  /** Time for connection and TLS handshake with one server, milliseconds. */
  readonly connectMs?: number
  /** Time until the head of an answer, milliseconds. */
  readonly answerMs?: number
}

/** Error texts are short; a page of HTML from something in between need not be read whole. */
const maxErrorBytes = 64 * 1024
const errorTextMs = 5_000

/** Silence after which the kernel asks whether the server is there. */
const keepAliveMs = 10_000

/**
 * GET requests to whichever API server answers. One agent and so one connection pool,
 * made anew when certificates change; a server that cannot be reached makes way for the
 * next one in the same request, and the one that answered stays first.
 */
export class KubeClient {
  readonly #access: KubeAccess
  readonly #clock: Clock
  readonly #configured: readonly string[]
  #servers: readonly string[]
  readonly #connectMs: number
  readonly #answerMs: number
  #current = 0
  #agent: http.Agent | undefined
  #agentFor = ''

  constructor(access: KubeAccess, clock: Clock, options: KubeClientOptions = {}) {
    this.#access = access
    this.#clock = clock
    const servers = options.servers?.length ? options.servers : [access.server]
    this.#configured = servers.map(server => server.replace(/\/+$/, ''))
    this.#servers = this.#configured
    for (const server of this.#servers) {
      if (!/^https?:$/.test(new URL(server).protocol)) throw new TypeError(`not an http or https URL: ${server}`)
    }
    this.#connectMs = options.connectMs ?? 10_000
    this.#answerMs = options.answerMs ?? 30_000
  }

  /** Base URL of the server that is asked first. */
  get server(): string {
    return this.#servers[this.#current] as string
  }

  /** Asks another server next time, if there is another. */
  rotate(): void {
    this.#current = (this.#current + 1) % this.#servers.length
  }

  /**
   * Endpoints of the API server as the cluster knows them, `address:port`, to be asked when
   * no configured server answers. They get our credentials, so they count only where TLS
   * says who they are.
   */
  learn(endpoints: readonly string[]): void {
    const current = this.server
    const secure = this.#configured.every(server => server.startsWith('https:'))
    const learned = secure ? endpoints.map(endpoint => `https://${endpoint}`) : []
    this.#servers = [...new Set([...this.#configured, ...learned])]
    this.#current = Math.max(0, this.#servers.indexOf(current))
  }

  /** Closes idle connections. */
  close(): void {
    this.#agent?.destroy()
  }

  /**
   * The answer to GET `path` with status 200, its body still to be read in one of the media
   * types of `accept`. `what` says in errors what was tried. Throws KubeError; when
   * `signal` is aborted, anything.
   */
  async get(what: string, path: string, accept: string, signal: AbortSignal): Promise<IncomingMessage> {
    const options = await this.#access.options()
    let unreachable: KubeError | undefined
    // Who does not check certificates would give a learned address our token on trust.
    const many = options.rejectUnauthorized === false ? this.#configured.length : this.#servers.length
    for (let tries = 0; tries < many; tries++) {
      if (this.#current >= many) this.#current = 0
      const server = this.server
      const asked = this.#current
      try {
        return await this.#ask(what, server, path, withAccept(options, accept), signal)
      } catch (error) {
        if (!(error instanceof KubeError) || signal.aborted) throw error
        // Others share this client: move on only if nobody did meanwhile.
        if (error.kind === 'unreachable' || (error.status ?? 0) >= 500) {
          if (this.#current === asked) this.rotate()
        }
        if (error.kind !== 'unreachable') throw error
        unreachable = error
      }
    }
    throw unreachable as KubeError
  }

  async #ask(
    what: string,
    server: string,
    path: string,
    options: RequestOptions,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const response = await this.#head(`${what} from ${server}`, new URL(server + path), options, signal)
    if (response.statusCode === 200) return response
    const message = await errorText(response, this.#clock)
    const retryAfterMs = parseRetryAfter(response.headers['retry-after'], this.#clock.wall())
    throw errorOfStatus(`${what} from ${server}`, response.statusCode ?? 0, message, retryAfterMs)
  }

  #head(what: string, url: URL, options: RequestOptions, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const secure = url.protocol === 'https:'
      const request = (secure ? https : http).request(url, {
        ...(options.auth ? { auth: options.auth } : {}),
        headers: { ...options.headers, 'User-Agent': 'waggle' },
        agent: options.agent ?? this.#agentOf(secure, options),
        signal,
      })
      let connected = false
      let answered = false
      const tooLate = (kind: 'unreachable' | 'silent', waited: string) => () =>
        request.destroy(new KubeError(kind, { what, cause: waited }))
      let cancel = this.#clock.after(
        this.#connectMs,
        tooLate('unreachable', `no connection within ${this.#connectMs} ms`),
      )
      request.on('socket', socket => {
        const ready = () => {
          connected = true
          cancel()
          cancel = this.#clock.after(this.#answerMs, tooLate('silent', `no answer within ${this.#answerMs} ms`))
          // A quiet watch on a link that swallows packets is given up by the kernel after this
          // time and ten probes, one a second (libuv's choice).
          socket.setKeepAlive(true, keepAliveMs)
        }
        if (socket.connecting) socket.once(secure ? 'secureConnect' : 'connect', ready)
        else ready()
      })
      request.on('response', response => {
        answered = true
        cancel()
        resolve(response)
      })
      request.on('error', error => {
        cancel()
        // A reset while the body is read comes here as well as to the body's reader.
        if (answered) return
        if (request.reusedSocket && codeOf(error) === 'ECONNRESET' && !signal.aborted) {
          // The server had closed the idle connection; each such try uses one up.
          this.#head(what, url, options, signal).then(resolve, reject)
        } else if (connected) reject(errorOfStream(what, error))
        else reject(error instanceof KubeError ? error : new KubeError('unreachable', { what, cause: reason(error) }))
      })
      request.end()
    })
  }

  #agentOf(secure: boolean, options: RequestOptions): http.Agent {
    const { ca, cert, key, passphrase, pfx, servername, rejectUnauthorized } = options
    const tls = { ca, cert, key, passphrase, pfx, servername, rejectUnauthorized }
    const wanted = `${secure} ${createHash('sha256').update(JSON.stringify(tls)).digest('hex')}`
    if (this.#agent === undefined || wanted !== this.#agentFor) {
      // The old agent is left to its running watches: they end within ten minutes anyway.
      const given = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
      this.#agent = secure ? new https.Agent({ ...given, keepAlive: true }) : new http.Agent({ keepAlive: true })
      this.#agentFor = wanted
    }
    return this.#agent
  }
}

function withAccept(options: RequestOptions, accept: string): RequestOptions {
  return { ...options, headers: { ...(options.headers as Record<string, string>), Accept: accept } }
}

/** Why no connection came to be; several addresses of one name fail with an AggregateError without text. */
function reason(error: Error): unknown {
  const first = error instanceof AggregateError ? error.errors[0] : error
  return first instanceof Error && first.message !== '' ? first : (codeOf(error) ?? error)
}

/** The message of a Status object, or the beginning of whatever else came. */
async function errorText(response: IncomingMessage, clock: Clock): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  const cancel = clock.after(errorTextMs, () => response.destroy())
  try {
    for await (const chunk of response) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxErrorBytes) break
    }
  } catch {
    // The status alone says enough.
  } finally {
    cancel()
  }
  const body = Buffer.concat(chunks)
  const text = body.toString('utf8')
  try {
    const status = isProtobuf(response.headers['content-type']) ? decodeStatus(unwrap(body).raw) : JSON.parse(text)
    if (typeof status?.message === 'string') return status.message
  } catch {
    // Not from an API server: show it as it is.
  }
  return text.replace(/\s+/g, ' ').slice(0, 200).trim()
}
