import { type Clock, systemClock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { formatEndpoint } from '../model/address.js'
import type {
  EndpointSliceObject,
  ObjectKey,
  Source,
  SourceEvent,
  WatchedKind,
  WatchedObject,
} from '../model/objects.js'
import { NOT_OURS } from './convert-fields.js'
import type { KubeAccess } from './kube-access.js'
import { defaultBackoff } from './kube-backoff.js'
import { KubeClient, type KubeClientOptions } from './kube-client.js'
import type { KubeError } from './kube-errors.js'
import { defaultFuse, type FuseLimits, Known } from './kube-known.js'
import { type Collection, Reflector, type ReflectorObserver, type ReflectorTiming } from './kube-reflector.js'

/** How one kind stands, for `/healthz` and metrics. */
export interface KindStatus {
  readonly kind: WatchedKind
  /** Its first full list was delivered. */
  readonly synced: boolean
  /** Objects delivered and not deleted since. */
  readonly objects: number
  /** Deletions that wait for a second list. */
  readonly held: number
  /** When the server was last heard of: a list, an event or a bookmark. */
  readonly lastEventAt: Date | undefined
  /** Lists and watches that failed since one was last answered; 0 = it goes well. */
  readonly failures: number
  /** Why the last of them failed. */
  readonly lastError: KubeError | undefined
}

export interface KubeSourceOptions extends KubeClientOptions {
  readonly access: KubeAccess
  /** The Node object to watch: our own. */
  readonly nodeName: string
  readonly log: Logger
  readonly observer?: ReflectorObserver
  /** Overrides, for tests and for unusual servers. */
  readonly timing?: Partial<Omit<ReflectorTiming, 'confirmMs'>>
  readonly fuse?: Partial<FuseLimits>
  readonly clock?: Clock
  readonly random?: () => number
}

const defaultTiming = { ...defaultBackoff, idleMs: 40_000, streamIdleMs: 10_000, watchSeconds: [300, 600] } as const

function collections(nodeName: string): readonly Collection[] {
  return [
    { kind: 'Service', path: '/api/v1/services', selector: { labelSelector: `!${NOT_OURS.Service}` } },
    {
      kind: 'EndpointSlice',
      path: '/apis/discovery.k8s.io/v1/endpointslices',
      selector: { labelSelector: `!${NOT_OURS.EndpointSlice}` },
    },
    { kind: 'Node', path: '/api/v1/nodes', selector: { fieldSelector: `metadata.name=${nodeName}` } },
  ]
}

/** A failure that goes on is logged again at every so many. */
const repeatLogAt = 20

/** Desired objects from the Kubernetes API: one reflector a kind, over one client. */
export class KubeSource implements Source {
  readonly name: string
  readonly #options: KubeSourceOptions
  readonly #clock: Clock
  readonly #client: KubeClient
  readonly #kinds = new Map<WatchedKind, { collection: Collection; known: Known; seen: Seen }>()
  readonly #stop = new AbortController()
  /** Endpoints of the API servers, by slice. */
  readonly #apiServers = new Map<string, readonly string[]>()
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: KubeSourceOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#client = new KubeClient(options.access, this.#clock, options)
    this.name = `kube:${this.#client.server}`
    for (const collection of collections(options.nodeName)) {
      const known = new Known(collection.kind, { ...defaultFuse, ...options.fuse })
      const seen: Seen = { lastEventAt: undefined, failures: 0, lastError: undefined }
      this.#kinds.set(collection.kind, { collection, known, seen })
    }
  }

  /** What is known by name makes a first list without it as suspicious as a later one. */
  restore(objects: readonly WatchedObject[], served: readonly ObjectKey[]): void {
    for (const [kind, { known }] of this.#kinds) {
      known.seed(objects.filter(object => object.kind === kind).map(keyOf))
      if (kind === 'Service') known.seed(served)
    }
    this.#learn(objects.map(object => ({ type: 'upsert', object })))
  }

  async start(sink: (events: readonly SourceEvent[]) => void): Promise<void> {
    const { timing, fuse, random } = this.#options
    const signal = this.#stop.signal
    const runs = [...this.#kinds.values()].map(({ collection, known }) =>
      new Reflector(collection, {
        client: this.#client,
        known,
        clock: this.#clock,
        random: random ?? Math.random,
        timing: { ...defaultTiming, ...timing, confirmMs: fuse?.confirmMs ?? defaultFuse.confirmMs },
        observer: this.#observer(),
        deliver: events => {
          if (signal.aborted) return
          if (collection.kind === 'EndpointSlice') this.#learn(events)
          sink(events)
        },
      }).run(signal),
    )
    this.#running = Promise.all(runs)
    this.#options.log.info('watching the API server', { server: this.#client.server, node: this.#options.nodeName })
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
    this.#client.close()
  }

  /** How each kind stands now. */
  status(): readonly KindStatus[] {
    return [...this.#kinds.values()].map(({ collection, known, seen }) => ({
      kind: collection.kind,
      synced: known.synced,
      objects: known.size,
      held: known.held,
      ...seen,
    }))
  }

  /** Remembers where the API servers are: the slices of the Service default/kubernetes. */
  #learn(events: readonly SourceEvent[]): void {
    let changed = false
    for (const event of events) {
      if (event.type === 'upsert' && event.object.kind === 'EndpointSlice' && isOfApiServers(event.object)) {
        this.#apiServers.set(keyOf(event.object), endpointsOf(event.object))
        changed = true
      }
      // What is gone is kept: a server that was there is worth a try when no other answers.
    }
    if (changed) this.#client.learn([...this.#apiServers.values()].flat())
  }

  /** Keeps the status, writes the log and passes everything on. */
  #observer(): ReflectorObserver {
    const { log, observer } = this.#options
    const heard = (kind: WatchedKind) => {
      const seen = this.#seen(kind)
      seen.lastEventAt = this.#clock.wall()
      if (seen.failures > 0) log.info('the API server answers again', { kind, failures: seen.failures })
      seen.failures = 0
      seen.lastError = undefined
    }
    return {
      onList: (kind, list) => {
        heard(kind)
        if (list.held > 0) {
          log.warn('a list lacks most of what was known: deletions wait for another list', { kind, ...list })
        } else log.info('listed', { kind, ...list })
        observer?.onList(kind, list)
      },
      onNoStream: (kind, error) => {
        log.info('the API server streams no lists; they are read in pages', { kind, error })
        observer?.onNoStream(kind, error)
      },
      onWatch: kind => {
        heard(kind)
        observer?.onWatch(kind)
      },
      onEvents: (kind, events) => {
        heard(kind)
        observer?.onEvents(kind, events)
      },
      onSilence: kind => {
        log.debug('a silent watch is begun anew', { kind })
        observer?.onSilence(kind)
      },
      onError: (kind, error, retryMs) => {
        const seen = this.#seen(kind)
        const again = seen.lastError?.code === error.code && seen.failures % repeatLogAt !== 0
        seen.failures++
        seen.lastError = error
        const level = again ? 'debug' : error.kind === 'denied' || error.kind === 'handler' ? 'error' : 'warn'
        log[level]('the API server cannot be read', { kind, error, failures: seen.failures, retryMs })
        observer?.onError(kind, error, retryMs)
      },
    }
  }

  #seen(kind: WatchedKind): Seen {
    return (this.#kinds.get(kind) as { seen: Seen }).seen
  }
}

function keyOf(object: WatchedObject): string {
  return object.kind === 'Node' ? object.name : `${object.namespace}/${object.name}`
}

function isOfApiServers(slice: EndpointSliceObject): boolean {
  return slice.namespace === 'default' && slice.service === 'kubernetes'
}

function endpointsOf({ endpoints, ports }: EndpointSliceObject): readonly string[] {
  const https = ports.filter(({ name, protocol }) => name === 'https' && protocol === 'TCP')
  return endpoints.flatMap(({ addresses }) =>
    addresses.flatMap(address => https.map(({ port }) => formatEndpoint(address, port))),
  )
}

interface Seen {
  lastEventAt: Date | undefined
  failures: number
  lastError: KubeError | undefined
}
