import type { Clock } from '../base/clock.js'
import { messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { type HealthInput, serviceHealth } from '../health/health.js'
import { type Address, familyOf, formatEndpoint } from '../model/address.js'
import type { ObjectKey, ProblemEvent } from '../model/objects.js'
import type { HealthCheck } from '../plan/health-checks.js'
import { type HttpAnswer, HttpServer, json, plain } from './http-server.js'

export interface HealthCheckPortsOptions {
  readonly healthInput: () => HealthInput
  readonly clock: Clock
  readonly logger: Logger
  /** A port that cannot be had, or is had at last. */
  readonly onProblem: (service: ObjectKey, event: ProblemEvent) => void
}

/** One socket that listens. */
interface Listener {
  readonly server: HttpServer
  /** Whose port it is. */
  readonly owner: ObjectKey
}

/**
 * The servers of `healthCheckNodePort`: one for each Service that has one and each
 * address. They follow both; a port that is taken is reported and tried again.
 */
export class HealthCheckPorts {
  readonly #options: HealthCheckPortsOptions
  /** By `address:port`. */
  readonly #listeners = new Map<string, Listener>()
  /** By the same: sockets that are about to close, which the next one there waits for. */
  readonly #closing = new Map<string, Promise<void>>()
  #checks: ReadonlyMap<ObjectKey, HealthCheck> = new Map()

  constructor(options: HealthCheckPortsOptions) {
    this.#options = options
  }

  /** What is to be answered from now on, and where. Counts change without touching a socket. */
  set(checks: ReadonlyMap<ObjectKey, HealthCheck>, addresses: readonly Address[]): void {
    this.#checks = new Map(checks)
    const wanted = this.#wanted(addresses)
    for (const [place, { server, owner }] of this.#listeners) {
      if (wanted.get(place)?.owner === owner) continue
      this.#close(place, server)
      this.#options.onProblem(owner, { type: 'resolved', where: whereOf(owner, place) })
    }
    for (const [place, { owner, address, port }] of wanted) {
      if (!this.#listeners.has(place)) this.#open(place, owner, address, port)
    }
  }

  /** Closes everything. */
  stop(): void {
    for (const [place, { server }] of this.#listeners) this.#close(place, server)
  }

  #close(place: string, server: HttpServer): void {
    this.#listeners.delete(place)
    const closed = Promise.all([this.#closing.get(place), server.stop()]).then(() => {
      if (this.#closing.get(place) === closed) this.#closing.delete(place)
    })
    this.#closing.set(place, closed)
  }

  /** Each place with the Service that gets it: who has it, else the first by name. The API server lets no two ask for one port. */
  #wanted(addresses: readonly Address[]): Map<string, { owner: ObjectKey; address: Address; port: number }> {
    const wanted = new Map<string, { owner: ObjectKey; address: Address; port: number }>()
    for (const [owner, { port }] of [...this.#checks].sort(([a], [b]) => (a < b ? -1 : 1))) {
      for (const address of addresses) {
        const place = formatEndpoint(address, port)
        if (!wanted.has(place) || this.#listeners.get(place)?.owner === owner)
          wanted.set(place, { owner, address, port })
      }
    }
    return wanted
  }

  #open(place: string, owner: ObjectKey, address: Address, port: number): void {
    const { clock, logger, onProblem } = this.#options
    const where = whereOf(owner, place)
    const server = new HttpServer({
      name: `health check of ${owner}`,
      address: { host: address, port },
      ipv6Only: true,
      routes: new Map(),
      otherPaths: () => this.#answer(owner, address),
      clock,
      logger,
      onListening: error => {
        onProblem(owner, { type: 'resolved', where })
        if (error === undefined) return
        const message = `${messageOf(error)}; free the port, or give the Service another one; tried again every 5 s`
        onProblem(owner, { type: 'problem', where, field: 'spec.healthCheckNodePort', message })
      },
    })
    this.#listeners.set(place, { server, owner })
    void Promise.resolve(this.#closing.get(place)).then(() => server.start())
  }

  #answer(owner: ObjectKey, address: Address): HttpAnswer {
    const check = this.#checks.get(owner)
    if (check === undefined) return plain(503, 'the Service is gone\n')
    const answer = serviceHealth(check, check.localEndpoints[familyOf(address)], this.#options.healthInput())
    return { ...json(answer.code, answer.body), headers: answer.headers }
  }
}

function whereOf(owner: ObjectKey, place: string): string {
  return `Service ${owner} health check at ${place}`
}
