import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { type Config, printConfig } from '../config/config.js'
import { printBindAddress } from '../config/types.js'
import type { Dataplane } from '../dataplane/dataplane.js'
import type { Inspection } from '../dataplane/inspection.js'
import { type HealthAnswer, type HealthInput, healthz, livez, readyz } from '../health/health.js'
import { type Device, ownAddresses } from '../host/devices.js'
import type { NetworkFacts } from '../host/facts.js'
import { type HostNetwork, HostWatch } from '../host/watch.js'
import type { ServiceNotice } from '../k8s/kube-event.js'
import type { EventCounts } from '../k8s/kube-events.js'
import { Metrics, type WatchRow } from '../metrics/metrics.js'
import type { Address } from '../model/address.js'
import type { ObjectKey, Source, SourceEvent, WatchedKind } from '../model/objects.js'
import { HealthChecks } from '../plan/health-checks.js'
import { healthCheckAddresses } from '../plan/node-addresses.js'
import { Planner } from '../plan/planner.js'
import { type Problem, Problems } from '../state/problems.js'
import { type Change, Store } from '../state/store.js'
import type { Checkpoint } from './checkpoint.js'
import { DaemonError } from './errors.js'
import { HealthCheckPorts } from './health-check-ports.js'
import { type HttpRoute, HttpServer, json, plain } from './http-server.js'
import { plannerOptions } from './planner-options.js'
import { Serial } from './serial.js'
import { type Readiness, SyncLoop } from './sync-loop.js'
import { Ticker } from './ticker.js'

/** A dataplane that runs in this process, with what the agent needs beyond the common interface. */
export interface AgentDataplane extends Dataplane {
  setDevices(devices: readonly Device[], addresses: readonly Address[]): void
  /** About once a second. Returns the programs that somebody had detached and that are attached again. */
  housekeep(): Promise<readonly string[]>
  counters(): KernelCounters
  /** Ids of the Service ports that the kernel has; undefined = this dataplane cannot tell. */
  readonly served?: readonly string[]
}

/** What the packet path counts, and how full its maps are. */
export type KernelCounters = Pick<Inspection, 'outcomes' | 'maps' | 'flowCounts'>

export interface AgentParts {
  readonly config: Config
  readonly source: Source
  readonly dataplane: AgentDataplane
  readonly readFacts: () => NetworkFacts
  /** Calls back when devices, addresses or default routes may have changed; see {@link HostWatch}. */
  readonly listenToNetwork: (onChange: () => void) => { close(): void }
  readonly clock: Clock
  readonly logger: Logger
  readonly random: () => number
  readonly version: string
  /** Asked once a second; false ends the agent, see {@link Agent.failed}. */
  readonly lockIsHeld: () => boolean
  /** Where the objects are kept for the next boot; undefined = nowhere. */
  readonly checkpoint?: Pick<Checkpoint, 'read' | 'changed' | 'stop'>
  /** How each kind's watch stands, where the source has watches. */
  readonly watches?: () => readonly WatchRow[]
  /** Where people of a Service are told, where the source has such a place. */
  readonly events?: EventSink
}

/** Tells the people of a Service. */
export interface EventSink {
  /** `here` are this node's addresses, which do not make a notice another one. */
  tell(notice: ServiceNotice, here: readonly string[]): void
  readonly counts: EventCounts
  stop(): void
}

const HOUSEKEEPING_MS = 1000
/** Metrics that several gauges read in one scrape come from one reading of the maps. */
const COUNTERS_AGE_MS = 1000

/** The agent of one node: source, store, plan, sync loop, dataplane, and the servers that tell about them. */
export class Agent {
  readonly #parts: AgentParts
  readonly #store = new Store()
  readonly #planner: Planner
  /** Of the plan and of health check ports; the store has those of the source. */
  readonly #ownProblems = new Problems()
  readonly #healthChecks: HealthChecks
  readonly #healthCheckPorts: HealthCheckPorts
  /** Health checks or their addresses changed since the servers were told. */
  #healthChecksChanged = false
  readonly #serial = new Serial()
  readonly #loop: SyncLoop
  readonly #metrics: Metrics
  readonly #host: HostWatch
  readonly #housekeeping: Ticker
  readonly #servers: readonly HttpServer[]
  readonly #ended: Promise<DaemonError>
  #fail: (error: DaemonError) => void = () => {}
  #nodeSeen = false
  /** Objects of an earlier run are served although lists are missing. */
  #restored = false
  /** Milliseconds since the epoch. */
  readonly #startedAt: number
  #read: { readonly at: number; readonly counters: KernelCounters } | undefined

  constructor(parts: AgentParts) {
    this.#parts = parts
    const { config, dataplane, clock, logger, random } = parts
    this.#startedAt = clock.wall().getTime()
    this.#ended = new Promise(resolve => {
      this.#fail = resolve
    })
    this.#planner = new Planner(plannerOptions(config))
    this.#healthChecks = new HealthChecks(config.nodeName)
    this.#healthCheckPorts = new HealthCheckPorts({
      healthInput: () => this.#healthInput(),
      clock,
      logger,
      onProblem: (service, event) =>
        this.#tell(this.#ownProblems.apply([event]), () => ({
          ...{ service, reason: 'FailedToStartServiceHealthcheck', action: 'Listen', ofThisNode: true },
        })),
    })
    this.#loop = new SyncLoop({
      dataplane: { apply: (...args) => this.#serial.run(() => dataplane.apply(...args)) },
      clock,
      logger,
      random,
      minPeriodMs: config.minSyncPeriod,
      fullPeriodMs: config.syncPeriod,
      onApplied: applied => {
        this.#metrics.applied({ ...applied, writes: applied.report.writes })
        this.#tellHealthChecks()
      },
      onFailed: () => this.#metrics.applyFailed(),
    })
    this.#metrics = new Metrics({
      desired: () => this.#planner.state,
      appliedRevision: () => this.#loop.status.appliedRevision,
      synced: () => this.#loop.status.synced,
      failedServices: () => this.#loop.status.failed.size,
      problems: () => this.#store.problems.length + this.#ownProblems.list().length,
      kernel: () => this.#readCounters(),
      version: parts.version,
      watches: parts.watches ?? (() => []),
      events: () => parts.events?.counts,
    })
    this.#host = new HostWatch({
      readFacts: parts.readFacts,
      listen: parts.listenToNetwork,
      patterns: config.devices,
      onChange: network => this.#setNetwork(network),
      clock,
      logger,
    })
    this.#housekeeping = new Ticker('housekeeping', HOUSEKEEPING_MS, () => this.#housekeep(), clock, logger)
    this.#servers = [
      new HttpServer({
        name: 'health',
        address: config.healthzBindAddress,
        routes: this.#healthRoutes(),
        clock,
        logger,
      }),
      new HttpServer({
        name: 'metrics',
        address: config.metricsBindAddress,
        routes: this.#metricsRoutes(),
        clock,
        logger,
      }),
    ]
  }

  /** Resolves when the agent cannot go on by itself; the kernel goes on in any case. */
  get failed(): Promise<DaemonError> {
    return this.#ended
  }

  /**
   * Adopts what the kernel holds, then follows the source.
   *
   * @throws DaemonError PROBE when this machine lacks something, BIND when it has to have
   * the addresses of its servers and cannot
   */
  async start(): Promise<void> {
    const { config, dataplane, source, readFacts, logger } = this.#parts
    const missing = await dataplane.probe()
    if (missing.length > 0) {
      throw new DaemonError('PROBE', {
        what: `start the dataplane ${dataplane.name}: ${missing.map(({ what, remedy }) => `${what} (${remedy})`).join('; ')}`,
      })
    }
    await dataplane.start()
    if (!config.devices.includes('auto')) this.#host.start()
    this.#housekeeping.start()
    await this.#startServers()
    // Before the first plan: node ports of an earlier run must not be missed for a moment.
    this.#planner.setHostAddresses(ownAddresses(readFacts()))
    await this.#restore()
    await source.start(events => this.#take(events))
    logger.info('started', { source: source.name, dataplane: dataplane.name })
  }

  /**
   * Takes over what an earlier run knew. Objects from the disk are served at once where the
   * kernel has nothing, as after a boot; what the kernel has is newer than they are. In both
   * cases the source is told, so that a first list that lacks most of it is not believed.
   */
  async #restore(): Promise<void> {
    const { checkpoint, dataplane, source, logger } = this.#parts
    const objects = (await checkpoint?.read()) ?? []
    const ids = dataplane.served ?? []
    source.restore?.(objects, [...new Set(ids.map(id => id.slice(0, id.indexOf(':'))))])
    if (objects.length === 0 || ids.length > 0) return
    this.#restored = true
    logger.info('serving what the checkpoint has until the source answers', { objects: objects.length })
    const change = this.#store.apply(objects.map(object => ({ type: 'upsert', object })))
    this.#plan(change)
    this.#followNode()
  }

  async #startServers(): Promise<void> {
    for (const server of this.#servers) {
      await server.start()
      if (server.listening || !this.#parts.config.bindAddressHardFail) continue
      await this.stop()
      throw new DaemonError('BIND', {
        what: `listen on ${printBindAddress(server.address)}, as --bind-address-hard-fail demands`,
        remedy: 'free the port, choose another address, or leave that setting out',
      })
    }
  }

  /** Lets go of everything; what the kernel holds stays, and traffic goes on. */
  async stop(): Promise<void> {
    const { source, dataplane } = this.#parts
    await source.stop()
    await this.#parts.checkpoint?.stop()
    this.#host.stop()
    this.#housekeeping.stop()
    for (const server of this.#servers) void server.stop()
    await this.#loop.stop()
    this.#healthCheckPorts.stop()
    this.#parts.events?.stop()
    await this.#serial.run(() => dataplane.stop())
  }

  #take(events: readonly SourceEvent[]): void {
    const { clock, checkpoint } = this.#parts
    const change = this.#store.apply(events)
    this.#metrics.reported(events, this.#triggersOf(events, change), clock.wall(), clock.monotonic())
    this.#tell(change.problems, ({ where }) => {
      const service = /^Service (\S+)$/.exec(where)?.[1]
      return service === undefined ? undefined : { service, reason: 'InvalidField', action: 'Read', ofThisNode: false }
    })
    this.#plan(change)
    this.#followNode()
    if (change.synced && changesObjects(events)) checkpoint?.changed(() => this.#store.objects())
  }

  #followNode(): void {
    const node = this.#store.node(this.#parts.config.nodeName)
    if (node !== undefined) {
      this.#nodeSeen = true
      this.#host.setInternalIPs(node.internalIPs)
    }
    // Not before the InternalIPs are known: a device that only they select would lose the
    // programs that an earlier run left there, for as long as the list takes.
    if (node !== undefined || !this.#store.awaited.includes('Node')) this.#host.start()
  }

  #plan(change: Pick<Change, 'services' | 'nodes'>): void {
    const { awaited } = this.#store
    const serving = this.#planner.nodePortAddresses
    const plan = this.#planner.update(this.#store, { ...change, synced: awaited.length === 0 })
    this.#tell(this.#ownProblems.apply(plan.problems), ({ where, field }) => {
      const service = field === 'frontends' ? where.split(':')[0] : undefined
      return service === undefined
        ? undefined
        : { service, reason: 'FrontendRefused', action: 'Plan', ofThisNode: false }
    })
    if (this.#healthChecks.update(this.#store, change.services)) this.#healthChecksChanged = true
    if (this.#planner.nodePortAddresses !== serving) this.#healthChecksChanged = true
    this.#loop.submit(plan.state, plan.changed, readinessOf(awaited, this.#restored))
    // What the kernel need not know, such as another port for health checks, waits for no apply.
    if (this.#loop.status.pendingSince === undefined) {
      this.#metrics.nothingToApply()
      this.#tellHealthChecks()
    }
  }

  /**
   * When what changed slices follow happened. Not from before this agent, whose kernel may
   * have had it long before; nor of slices that came as they were.
   */
  #triggersOf(events: readonly SourceEvent[], { services }: Pick<Change, 'services'>): number[] {
    return events.flatMap(event => {
      if (event.type !== 'upsert' || event.object.kind !== 'EndpointSlice') return []
      const { namespace, service, triggered = 0 } = event.object
      return services.has(`${namespace}/${service}`) && triggered > this.#startedAt ? [triggered] : []
    })
  }

  /** Load balancers hear of endpoints when the kernel knows them, and of nothing before the lists are in. */
  #tellHealthChecks(): void {
    if (!this.#healthChecksChanged || this.#loop.status.readiness === 'waiting') return
    this.#healthChecksChanged = false
    const { nodePortAddresses } = this.#parts.config
    this.#healthCheckPorts.set(
      this.#healthChecks.all,
      healthCheckAddresses(this.#planner.nodePortAddresses, nodePortAddresses),
    )
  }

  /**
   * New problems, each once: in the log, and where it is a Service's own as an event there.
   * All that stand are counted in the metrics.
   */
  #tell(problems: readonly Problem[], about: (problem: Problem) => About | undefined): void {
    const { logger, events } = this.#parts
    for (const problem of problems) {
      const { where, field, message } = problem
      logger.warn('input problem', { where, field, problem: message })
      const said = about(problem)
      if (said === undefined || events === undefined) continue
      const [namespace = '', name = ''] = said.service.split('/')
      const { reason, action, ofThisNode } = said
      const uid = this.#store.service(said.service)?.uid
      const note = `${field}: ${message}`
      events.tell({ namespace, name, uid, reason, action, note, ofThisNode }, this.#planner.nodePortAddresses)
    }
  }

  #setNetwork({ devices, addresses }: HostNetwork): void {
    const { dataplane, logger } = this.#parts
    const names = devices.map(({ name }) => name).join(',')
    if (devices.length === 0) logger.warn('no device serves packets from outside; see --devices')
    else logger.info('serving devices', { devices: names })
    this.#serial
      .run(() => dataplane.setDevices(devices, addresses))
      .catch(error => logger.error('cannot serve devices', { devices: names, error }))
    this.#planner.setHostAddresses(addresses)
    this.#plan(NOTHING)
  }

  async #housekeep(): Promise<void> {
    if (!this.#parts.lockIsHeld()) {
      this.#fail(
        new DaemonError('LOCK_LOST', {
          what: 'keep the lock in the run directory: it was removed or replaced',
          remedy: 'leave the run directory alone while agents run',
        }),
      )
    }
    this.#metrics.restored(await this.#serial.run(() => this.#parts.dataplane.housekeep()))
  }

  #readCounters(): KernelCounters {
    const now = this.#parts.clock.monotonic()
    if (this.#read === undefined || now - this.#read.at > COUNTERS_AGE_MS) {
      this.#read = { at: now, counters: this.#parts.dataplane.counters() }
    }
    return this.#read.counters
  }

  #healthRoutes(): Map<string, HttpRoute> {
    const route = (decide: (input: HealthInput) => HealthAnswer) => () => {
      const { code, body } = decide(this.#healthInput())
      return json(code, body)
    }
    const counted = (path: 'healthz' | 'livez', decide: (input: HealthInput) => HealthAnswer) => () => {
      const answer = route(decide)()
      this.#metrics.probed(path, answer.code)
      return answer
    }
    return new Map<string, HttpRoute>([
      ['/healthz', counted('healthz', healthz)],
      ['/livez', counted('livez', livez)],
      ['/readyz', route(readyz)],
    ])
  }

  #healthInput(): HealthInput {
    const { config, clock } = this.#parts
    const awaited = this.#store.awaited.map(kind => `the list of every ${kind}`)
    return {
      sync: this.#loop.status,
      nodeEligible: this.#isNodeEligible(),
      now: clock.wall(),
      staleAfterMs: 2 * config.syncPeriod,
      waitingFor: awaited.length > 0 ? awaited : ['the first full apply'],
      heldDeletions: (this.#parts.watches?.() ?? []).reduce((sum, { held }) => sum + held, 0),
    }
  }

  /** A manifest folder need not have a Node; one that was there and is gone is another matter. */
  #isNodeEligible(): boolean {
    const node = this.#store.node(this.#parts.config.nodeName)
    return node === undefined ? !this.#nodeSeen : node.leaving !== true
  }

  #metricsRoutes(): Map<string, HttpRoute> {
    const { registry } = this.#metrics
    return new Map<string, HttpRoute>([
      ['/metrics', async () => ({ code: 200, type: registry.contentType, text: await registry.metrics() })],
      ['/proxyMode', () => plain(200, this.#parts.dataplane.name)],
      ['/healthz', () => plain(200, 'ok')],
      ['/configz', () => json(200, { waggle: printConfig(this.#parts.config) })],
    ])
  }
}

/** Whose problem it is and what an event says about it. */
interface About extends Pick<ServiceNotice, 'reason' | 'action' | 'ofThisNode'> {
  readonly service: ObjectKey
}

/** No object changed. */
const NOTHING: Pick<Change, 'services' | 'nodes'> = { services: new Set(), nodes: new Set() }

/** A list that came as it was, or a bookmark, is nothing to write down. */
function changesObjects(events: readonly SourceEvent[]): boolean {
  return events.some(({ type }) => type === 'upsert' || type === 'delete' || type === 'synced')
}

/** See {@link Readiness}. */
function readinessOf(awaited: readonly WatchedKind[], restored: boolean): Readiness {
  if (awaited.length === 0) return 'complete'
  if (restored) return 'partial'
  return awaited.every(kind => kind === 'Node') ? 'partial' : 'waiting'
}
