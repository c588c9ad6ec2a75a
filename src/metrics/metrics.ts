import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { FlowCounts, MapRow, OutcomeRow } from '../dataplane/inspection.js'
import type { DesiredState } from '../model/desired.js'
import type { SourceEvent, WatchedKind } from '../model/objects.js'
import { type DesiredCounts, desiredCounts } from './desired-counts.js'

/** What is read when somebody asks for the metrics. */
export interface MetricsInput {
  readonly desired: () => DesiredState
  readonly appliedRevision: () => number
  readonly synced: () => boolean
  /** Service ports whose newest revision could not be written. */
  readonly failedServices: () => number
  readonly problems: () => number
  /** Counters and fill of the kernel's maps; undefined while there is none to read. */
  readonly kernel: () =>
    | { readonly outcomes: readonly OutcomeRow[]; readonly maps: readonly MapRow[]; readonly flowCounts: FlowCounts }
    | undefined
  readonly version: string
  readonly watches: () => readonly WatchRow[]
  /** What became of events at Services; undefined where none are written. */
  readonly events: () => Readonly<Record<'sent' | 'known' | 'dropped', number>> | undefined
}

/** How the watch of one kind of object stands. */
export interface WatchRow {
  readonly kind: WatchedKind
  /** Objects delivered and not deleted since. */
  readonly objects: number
  /** Deletions that wait for another list. */
  readonly held: number
  /** When the server was last heard of. */
  readonly lastEventAt: Date | undefined
  /** Failures in a row, 0 = it goes well. */
  readonly failures: number
}

/** kube-proxy's buckets: 1 ms, doubling, 15 of them. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i)

/** kube-proxy's for network programming: 0.25, 0.5, 1 to 59 by 1, 60 to 115 by 5, 120 to 300 by 30. */
const PROGRAMMING_BUCKETS = [0.25, 0.5, ...steps(1, 59, 1), ...steps(60, 115, 5), ...steps(120, 300, 30)]

function steps(from: number, to: number, by: number): number[] {
  return Array.from({ length: (to - from) / by + 1 }, (_, i) => from + i * by)
}

/** Kinds whose changes are counted. */
const CHANGING = ['Service', 'EndpointSlice'] as const

/** What the metrics want to know of an apply. */
export interface AppliedFacts {
  /** Map entries written or deleted. */
  readonly writes: number
  readonly ms: number
  readonly full: boolean
  readonly at: Date
  readonly startedAt: number
}

/** The changes of one batch of events. */
interface WaitingChanges {
  /** On the monotonic clock. */
  readonly since: number
  readonly counts: Readonly<Record<'Service' | 'EndpointSlice', number>>
  /** When what the slices follow happened, milliseconds since the epoch. */
  readonly triggered: readonly number[]
}

/**
 * All metrics of the agent. Where a metric means what kube-proxy's does it has its name,
 * so that dashboards and ClusterLoader2 go on working; one apply writes both families, so
 * there is no label ip_family.
 */
export class Metrics {
  readonly registry = new Registry()
  readonly #syncDuration: Histogram
  readonly #fullDuration: Histogram
  readonly #partialDuration: Histogram
  readonly #programmingDuration: Histogram
  /** Reported and not applied yet, oldest first. */
  #waiting: WaitingChanges[] = []
  readonly #lastSync: Gauge
  readonly #lastQueued: Gauge
  readonly #changes: Readonly<Record<'Service' | 'EndpointSlice', { total: Counter; pending: Gauge }>>
  readonly #writes: Counter
  readonly #failures: Counter
  readonly #restored: Counter
  readonly #probes: Readonly<Record<'healthz' | 'livez', Counter>>

  constructor(input: MetricsInput) {
    const registers = [this.registry]
    collectDefaultMetrics({ register: this.registry })
    const duration = (name: string, help: string, buckets: readonly number[]) =>
      new Histogram({ name: `kubeproxy_${name}`, help, buckets: [...buckets], registers })
    this.#syncDuration = duration('sync_proxy_rules_duration_seconds', 'Time that one apply took.', SYNC_BUCKETS)
    this.#fullDuration = duration(
      'sync_full_proxy_rules_duration_seconds',
      'The same, of applies that compared everything.',
      SYNC_BUCKETS,
    )
    this.#partialDuration = duration(
      'sync_partial_proxy_rules_duration_seconds',
      'The same, of applies that took what had changed.',
      SYNC_BUCKETS,
    )
    this.#programmingDuration = duration(
      'network_programming_duration_seconds',
      'Time from the change of a pod or Service, as the annotation endpoints.kubernetes.io/last-change-trigger-time of a slice has it, until the kernel had it.',
      PROGRAMMING_BUCKETS,
    )
    this.#lastSync = new Gauge({
      name: 'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      help: 'When the last successful apply ended.',
      registers,
    })
    this.#lastQueued = new Gauge({
      name: 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
      help: 'When the last change was reported.',
      registers,
    })
    const changes = (name: string, what: string) => ({
      total: new Counter({
        name: `kubeproxy_sync_proxy_rules_${name}_changes_total`,
        help: `Changes of ${what} that were reported.`,
        registers,
      }),
      pending: new Gauge({
        name: `kubeproxy_sync_proxy_rules_${name}_changes_pending`,
        help: `Changes of ${what} that are not applied yet.`,
        registers,
      }),
    })
    this.#changes = { Service: changes('service', 'Services'), EndpointSlice: changes('endpoint', 'EndpointSlices') }
    const probe = (name: string) =>
      new Counter({
        name: `kubeproxy_proxy_${name}_total`,
        help: `Answers of /${name} by HTTP status.`,
        labelNames: ['code'],
        registers,
      })
    this.#probes = { healthz: probe('healthz'), livez: probe('livez') }
    this.#writes = new Counter({
      name: 'waggle_writes_total',
      help: 'Kernel map entries written or deleted.',
      registers,
    })
    this.#failures = new Counter({
      name: 'waggle_apply_failures_total',
      help: 'Applies that failed as a whole.',
      registers,
    })
    this.#restored = new Counter({
      name: 'waggle_programs_restored_total',
      help: 'Programs that somebody else detached and that were attached again.',
      labelNames: ['program'],
      registers,
    })
    addStateGauges(registers, input)
    addKernelMetrics(registers, input)
    addWatchGauges(registers, input)
    addEventCounter(registers, input)
  }

  /**
   * Counts the changes of a batch, which was reported at `at`, `since` on the monotonic
   * clock. `triggered`: of its slices, see {@link EndpointSliceObject}.
   */
  reported(events: readonly SourceEvent[], triggered: readonly number[], at: Date, since: number): void {
    const counts = { Service: 0, EndpointSlice: 0 }
    for (const event of events) {
      const kind = event.type === 'upsert' ? event.object.kind : event.type === 'delete' ? event.kind : undefined
      if (kind === 'Service' || kind === 'EndpointSlice') counts[kind]++
    }
    if (counts.Service + counts.EndpointSlice === 0) return
    for (const kind of CHANGING) {
      this.#changes[kind].total.inc(counts[kind])
      this.#changes[kind].pending.inc(counts[kind])
    }
    this.#waiting.push({ since, counts, triggered })
    this.#lastQueued.set(at.getTime() / 1000)
  }

  /** An apply that began at `startedAt` on the monotonic clock has succeeded. */
  applied({ writes, ms, full, at, startedAt }: AppliedFacts): void {
    this.#syncDuration.observe(ms / 1000)
    if (full) this.#fullDuration.observe(ms / 1000)
    else this.#partialDuration.observe(ms / 1000)
    this.#lastSync.set(at.getTime() / 1000)
    this.#writes.inc(writes)
    for (const { triggered } of this.#settle(startedAt)) {
      for (const time of triggered) this.#programmingDuration.observe(Math.max(0, at.getTime() - time) / 1000)
    }
  }

  /** The kernel need not know of any change that was reported so far. */
  nothingToApply(): void {
    this.#settle(Number.POSITIVE_INFINITY)
  }

  /** Changes from before `time` wait no longer. */
  #settle(time: number): readonly WaitingChanges[] {
    const settled = this.#waiting.filter(({ since }) => since <= time)
    this.#waiting = this.#waiting.filter(({ since }) => since > time)
    for (const { counts } of settled) for (const kind of CHANGING) this.#changes[kind].pending.dec(counts[kind])
    return settled
  }

  applyFailed(): void {
    this.#failures.inc()
  }

  /** `programs`: names as `waggle show programs` has them. */
  restored(programs: readonly string[]): void {
    for (const program of programs) this.#restored.inc({ program })
  }

  probed(path: 'healthz' | 'livez', code: number): void {
    this.#probes[path].inc({ code })
  }
}

/** Gauges over what is wanted and what was written. */
function addStateGauges(registers: Registry[], input: MetricsInput): void {
  let counted: { readonly state: DesiredState; readonly counts: DesiredCounts } | undefined
  /** Walked once for each revision, not once for each gauge. */
  const counts = (): DesiredCounts => {
    const state = input.desired()
    if (counted?.state !== state) counted = { state, counts: desiredCounts(state) }
    return counted.counts
  }
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  new Gauge({
    name: 'waggle_build_info',
    help: 'Always 1; the labels say what runs.',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version: input.version, node: process.versions.node }, 1)
  gauge('waggle_services', 'Service ports wanted, each family counted.', () => input.desired().services.size)
  gauge('waggle_frontends', 'Frontends wanted.', () => counts().frontends)
  gauge('waggle_backends', 'Backends wanted.', () => counts().backends)
  gauge('waggle_desired_revision', 'Revision of the wanted state.', () => input.desired().revision)
  gauge('waggle_applied_revision', 'Revision of the last successful apply.', input.appliedRevision)
  gauge('waggle_synced', '1 once everything was written after all lists were in.', () => Number(input.synced()))
  gauge('waggle_failed_services', 'Service ports whose newest revision could not be written.', input.failedServices)
  gauge('waggle_problems', 'Parts of the input that are refused or in conflict now.', input.problems)
  new Gauge({
    name: 'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    help: 'Service ports whose local traffic policy finds no backend on this node, though there are some elsewhere.',
    labelNames: ['traffic_policy'],
    registers,
    collect() {
      const { noLocalInternal, noLocalExternal } = counts()
      this.set({ traffic_policy: 'internal' }, noLocalInternal)
      this.set({ traffic_policy: 'external' }, noLocalExternal)
    },
  })
}

/** What the packet path counts and how full its maps are, read when asked for. */
function addKernelMetrics(registers: Registry[], input: MetricsInput): void {
  const outcomes = (name: string, help: string, read: (row: OutcomeRow) => number) =>
    new Counter({
      name,
      help,
      labelNames: ['hook', 'outcome'],
      registers,
      collect() {
        this.reset()
        for (const row of input.kernel()?.outcomes ?? []) {
          if (row.packets > 0) this.inc({ hook: row.hook, outcome: row.outcome }, read(row))
        }
      },
    })
  outcomes(
    'waggle_outcomes_total',
    'Packets, or calls at the socket layer, by program and outcome.',
    row => row.packets,
  )
  outcomes('waggle_outcome_bytes_total', 'Bytes of those packets; 0 at the socket layer.', row => row.bytes)
  const flows = (name: string, help: string, read: (counts: FlowCounts) => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset()
        const counts = input.kernel()?.flowCounts
        if (counts) this.inc(read(counts))
      },
    })
  flows(
    'waggle_flows_evicted_total',
    'Unconfirmed or closed flows that ended before their time to make room for new ones.',
    counts => counts.evicted,
  )
  flows(
    'waggle_source_port_flows_total',
    'Flows that asked for a source port, those that got none included.',
    counts => counts.sourcePortFlows,
  )
  flows('waggle_source_port_tries_total', 'Ports that were tried for them.', counts => counts.sourcePortTries)
  const maps = (name: string, help: string, read: (row: MapRow) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['map'],
      registers,
      collect() {
        for (const row of input.kernel()?.maps ?? []) this.set({ map: row.name }, read(row))
      },
    })
  maps('waggle_map_entries', 'Entries in use.', row => row.entries)
  maps('waggle_map_max_entries', 'Entries that the map can hold.', row => row.maxEntries)
}

/** How the API server is read: nothing of it for manifests. */
function addWatchGauges(registers: Registry[], input: MetricsInput): void {
  const gauge = (name: string, help: string, read: (row: WatchRow) => number | undefined) =>
    new Gauge({
      name,
      help,
      labelNames: ['kind'],
      registers,
      collect() {
        for (const row of input.watches()) this.set({ kind: row.kind }, read(row) ?? 0)
      },
    })
  gauge('waggle_watch_objects', 'Objects that the API server has of a kind.', row => row.objects)
  gauge(
    'waggle_watch_held_deletions',
    'Objects that the last list lacked and that stay until another list lacks them, too: it lacked most.',
    row => row.held,
  )
  gauge('waggle_watch_failures', 'Lists and watches that failed in a row, 0 while it goes well.', row => row.failures)
  gauge(
    'waggle_watch_last_event_timestamp_seconds',
    'When the API server was last heard of: a list, an event or a bookmark; 0 = never.',
    row => row.lastEventAt && row.lastEventAt.getTime() / 1000,
  )
}

/** Events at Services: nothing of it for manifests. */
function addEventCounter(registers: Registry[], input: MetricsInput): void {
  new Counter({
    name: 'waggle_events_total',
    help: 'Events at Services: sent, known (said already by another node or an earlier run), or dropped by the limits or after a minute of failures.',
    labelNames: ['result'],
    registers,
    collect() {
      this.reset()
      for (const [result, count] of Object.entries(input.events() ?? {})) this.inc({ result }, count)
    },
  })
}
