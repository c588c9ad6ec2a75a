import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { Family } from '../../model/address.js'
import { formatEndpoint, parseAddress } from '../../model/address.js'
import type { DesiredState } from '../../model/desired.js'
import { type RunTool, ToolError } from './run-tool.js'

/** A UDP exchange that the kernel tracks: as its packets came, and where its answers come from. */
export interface TrackedFlow {
  readonly client: string
  readonly clientPort: number
  readonly frontend: string
  readonly frontendPort: number
  readonly backend: string
  readonly backendPort: number
}

/** Reads `conntrack -L -p udp`. */
export function readTracked(text: string): TrackedFlow[] {
  const flows: TrackedFlow[] = []
  for (const line of text.split('\n')) {
    const values = (name: string) => [...line.matchAll(new RegExp(`\\b${name}=(\\S+)`, 'g'))].map(each => each[1] ?? '')
    const [client, backend] = values('src')
    const [frontend] = values('dst')
    const [clientPort, backendPort] = values('sport')
    const [frontendPort] = values('dport')
    if (client === undefined || backend === undefined || frontend === undefined) continue
    flows.push({
      client,
      clientPort: Number(clientPort),
      frontend,
      frontendPort: Number(frontendPort),
      backend,
      backendPort: Number(backendPort),
    })
  }
  return flows
}

/**
 * Those whose frontend is a UDP Service port's and whose answers come from none of its
 * backends: to a backend that is gone, or past the Service from before it had one. They
 * would live as long as the client sends. Backends that end but still serve keep theirs.
 */
export function staleFlows(tracked: readonly TrackedFlow[], state: DesiredState, family: Family): TrackedFlow[] {
  const byFrontend = new Map<string, ReadonlySet<string>>()
  for (const port of state.services.values()) {
    if (port.protocol !== 'UDP' || port.family !== family) continue
    const backends = new Set(port.backends.map(each => formatEndpoint(each.address, each.port)))
    for (const { kind, address, port: number } of port.frontends) {
      byFrontend.set(kind === 'NodePort' ? `:${number}` : formatEndpoint(address, number), backends)
    }
  }
  return tracked.filter(flow => {
    const backends =
      byFrontend.get(endpoint(flow.frontend, flow.frontendPort)) ?? byFrontend.get(`:${flow.frontendPort}`)
    return backends !== undefined && !backends.has(endpoint(flow.backend, flow.backendPort))
  })
}

function endpoint(text: string, port: number): string {
  const address = parseAddress(text)
  return address === undefined ? '' : formatEndpoint(address, port)
}

/** Ends what {@link staleFlows} finds, after changes that may have made some. */
export class StaleUdp {
  readonly #logger: Logger
  readonly #run: RunTool
  /** Whether a look is due; the first one is for what an earlier run left. */
  #due = true
  #failure: string | undefined

  constructor(logger: Logger, run: RunTool) {
    this.#logger = logger
    this.#run = run
  }

  /** Takes note of what was applied. */
  applied(state: DesiredState, changed: ReadonlySet<string> | undefined): void {
    for (const id of changed ?? []) this.#due ||= state.services.get(id)?.protocol !== 'TCP'
  }

  /** Looks if that is due. A failure is logged once, and the look repeated with the next change. */
  async end(state: DesiredState, families: Iterable<Family>): Promise<void> {
    if (!this.#due) return
    try {
      for (const family of families) {
        const ended = await this.#endOf(state, family)
        if (ended > 0) this.#logger.info('ended UDP flows to backends that are gone', { family, flows: ended })
      }
      this.#due = false
      this.#failure = undefined
    } catch (error) {
      const reason = messageOf(error)
      if (reason !== this.#failure) {
        this.#logger.error('cannot end UDP flows to backends that are gone; install conntrack', { error: reason })
      }
      this.#failure = reason
    }
  }

  async #endOf(state: DesiredState, family: Family): Promise<number> {
    const name = family === 'IPv6' ? 'ipv6' : 'ipv4'
    const tracked = readTracked(await this.#run('conntrack', ['-L', '-f', name, '-p', 'udp']))
    const stale = staleFlows(tracked, state, family)
    for (const flow of stale) {
      const tuple = ['-s', flow.client, '-d', flow.frontend, '-p', 'udp']
      const ports = ['--sport', String(flow.clientPort), '--dport', String(flow.frontendPort)]
      try {
        await this.#run('conntrack', ['-D', '-f', name, ...tuple, ...ports])
      } catch (error) {
        // It ended by itself in between.
        if (!(error instanceof ToolError) || !error.message.includes('0 flow entries')) throw error
      }
    }
    return stale.length
  }
}
