import http from 'node:http'
import https from 'node:https'
import type { Cancel, Clock } from '../base/clock.js'
import { messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { KubeAccess } from './kube-access.js'
import { eventOf, type KubeEvent, type ServiceNotice } from './kube-event.js'

export interface KubeEventsOptions {
  readonly access: KubeAccess
  /** Base URLs to try instead of the one of the configuration. */
  readonly servers: readonly string[]
  readonly nodeName: string
  readonly clock: Clock
  readonly logger: Logger
}

/** What became of events, for metrics. */
export interface EventCounts {
  /** Created by this agent. */
  readonly sent: number
  /** Another node, or an earlier run, had said the same. */
  readonly known: number
  /** Left out by the limits, or given up. */
  readonly dropped: number
}

/** A burst for each Service, and a token in so many milliseconds, as in client-go's spam filter. */
const BURST = 25
const TOKEN_MS = 300_000
/** Between two requests. */
const PACE_MS = 200
/** Most that wait at a time. */
const WAITING_MAX = 200
/** As long as an API server keeps an event. */
const REMEMBER_MS = 3_600_000
const RETRY_MS = 10_000
const TRIES = 6
const ANSWER_MS = 10_000

interface Waiting {
  readonly event: KubeEvent
  tries: number
}

/**
 * Writes events at Services, never more than the limits allow and never in anybody's way:
 * one request at a time, what cannot be written is tried for a minute and then dropped.
 */
export class KubeEvents {
  readonly #options: KubeEventsOptions
  readonly #waiting: Waiting[] = []
  /** When an event of that name was told; the oldest first. */
  readonly #told = new Map<string, number>()
  readonly #buckets = new Map<string, { tokens: number; at: number }>()
  readonly #counts = { sent: 0, known: 0, dropped: 0 }
  #cancel: Cancel | undefined
  #busy = false
  #stopped = false
  #complaint: string | undefined

  constructor(options: KubeEventsOptions) {
    this.#options = options
  }

  get counts(): EventCounts {
    return { ...this.#counts }
  }

  /** Takes a notice; `here` are this node's addresses, see {@link eventOf}. */
  tell(notice: ServiceNotice, here: readonly string[]): void {
    const { clock, nodeName } = this.#options
    const event = eventOf(notice, nodeName, here, clock.wall())
    const id = `${event.metadata.namespace}/${event.metadata.name}`
    const now = clock.monotonic()
    this.#forget(now)
    if (this.#stopped || this.#told.has(id)) return
    if (this.#waiting.length >= WAITING_MAX || !this.#mayTell(`${notice.namespace}/${notice.name}`, now)) {
      this.#counts.dropped++
      return
    }
    this.#told.set(id, now)
    this.#waiting.push({ event, tries: 0 })
    this.#arm(0)
  }

  /** What still waits is dropped. */
  stop(): void {
    this.#stopped = true
    this.#cancel?.()
    this.#waiting.length = 0
  }

  #forget(now: number): void {
    for (const [id, at] of this.#told) {
      if (now - at < REMEMBER_MS) break
      this.#told.delete(id)
    }
    for (const [service, { at }] of this.#buckets) {
      if (now - at < BURST * TOKEN_MS) break
      this.#buckets.delete(service)
    }
  }

  #mayTell(service: string, now: number): boolean {
    const { tokens, at } = this.#buckets.get(service) ?? { tokens: BURST, at: now }
    const full = Math.min(BURST, tokens + (now - at) / TOKEN_MS)
    // Last used, last in order.
    this.#buckets.delete(service)
    this.#buckets.set(service, { tokens: full >= 1 ? full - 1 : full, at: now })
    return full >= 1
  }

  #arm(ms: number): void {
    if (this.#stopped || this.#busy || this.#waiting.length === 0) return
    this.#cancel?.()
    this.#cancel = this.#options.clock.after(ms, () => {
      this.#busy = true
      void this.#sendFirst().then(pause => {
        this.#busy = false
        this.#arm(pause)
      })
    })
  }

  /** Resolves with the milliseconds until the next one. */
  async #sendFirst(): Promise<number> {
    const { logger } = this.#options
    const first = this.#waiting.shift()
    if (first === undefined) return 0
    try {
      const status = await this.#post(first.event)
      if (status === 409) this.#counts.known++
      else if (status >= 200 && status < 300) this.#counts.sent++
      else
        throw new Error(
          `status ${status}${status === 403 ? '; the role must allow create of events.events.k8s.io' : ''}`,
        )
      this.#complaint = undefined
      return PACE_MS
    } catch (error) {
      if (this.#complaint !== messageOf(error)) logger.warn('cannot write an event', { error: messageOf(error) })
      this.#complaint = messageOf(error)
      if (++first.tries < TRIES) this.#waiting.push(first)
      else this.#counts.dropped++
      return RETRY_MS
    }
  }

  /** The status of the first server that answers. Rejects when none does. */
  async #post(event: KubeEvent): Promise<number> {
    const { access, servers } = this.#options
    const options = await access.options()
    const path = `/apis/events.k8s.io/v1/namespaces/${event.metadata.namespace}/events`
    let unreachable: unknown
    for (const server of servers.length > 0 ? servers : [access.server]) {
      try {
        return await post(new URL(server.replace(/\/+$/, '') + path), options, JSON.stringify(event))
      } catch (error) {
        unreachable = error
      }
    }
    throw unreachable
  }
}

function post(url: URL, options: https.RequestOptions, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? https : http).request(
      url,
      {
        ...options,
        method: 'POST',
        signal: AbortSignal.timeout(ANSWER_MS),
        headers: {
          ...options.headers,
          ...{ Accept: 'application/json', 'Content-Type': 'application/json', 'User-Agent': 'waggle' },
          'Content-Length': Buffer.byteLength(body),
        },
      },
      response => {
        response.resume()
        resolve(response.statusCode ?? 0)
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}
