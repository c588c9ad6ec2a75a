import { type BackoffLimits, backoff } from '../base/backoff.js'
import type { Cancel, Clock } from '../base/clock.js'
import { messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { ApplyReport, Dataplane } from '../dataplane/dataplane.js'
import type { DesiredState } from '../model/desired.js'

/**
 * How much of the input is known. waiting: a list of backends may still be short, so
 * nothing is written, and what a previous run left goes on. partial: Services and
 * EndpointSlices are complete, or the disk says how they were; additions are written,
 * nothing is removed. complete: everything is.
 */
export type Readiness = 'waiting' | 'partial' | 'complete'

/** What became of one apply, for metrics. */
export interface AppliedEvent {
  readonly report: ApplyReport
  readonly ms: number
  /** When it began, on the monotonic clock: changes from before are in it. */
  readonly startedAt: number
  /** Everything was compared, not only what changed. */
  readonly full: boolean
  /** The first apply after all lists were in. */
  readonly first: boolean
  readonly at: Date
}

export interface SyncLoopOptions {
  readonly dataplane: Pick<Dataplane, 'apply'>
  readonly clock: Clock
  readonly logger: Logger
  /** Least time between the starts of two applies. */
  readonly minPeriodMs: number
  /** Everything is compared this often, although nothing changed. */
  readonly fullPeriodMs: number
  /** From 0 to 1, for the jitter of retries. */
  readonly random: () => number
  readonly onApplied: (event: AppliedEvent) => void
  readonly onFailed: (error: unknown) => void
}

/** Where the loop stands, for health and status. */
export interface SyncStatus {
  readonly readiness: Readiness
  /** Everything was applied once after all lists were in. */
  readonly synced: boolean
  /** Revision of the last successful apply, 0 = none. */
  readonly appliedRevision: number
  readonly desiredRevision: number
  readonly lastApplied: Date | undefined
  /** When the oldest change that is not applied yet was reported; undefined = none waits. */
  readonly pendingSince: Date | undefined
  /** Why the last apply failed as a whole; undefined = it did not. */
  readonly error: string | undefined
  /** Service ports whose newest revision could not be written, with the reason. */
  readonly failed: ReadonlyMap<string, string>
}

const RETRY: BackoffLimits = { firstMs: 100, maxMs: 10_000 }

/**
 * Brings the kernel to the desired state, level by level: however many changes came, one
 * apply takes the newest state. A change after a pause is applied at once, under churn
 * every `minPeriodMs`. What failed is tried again with growing pauses while the rest
 * goes on.
 */
export class SyncLoop {
  readonly #options: SyncLoopOptions
  #desired: DesiredState | undefined
  #readiness: Readiness = 'waiting'
  /** Ids that changed since the last apply began. */
  readonly #dirty = new Set<string>()
  /** Everything must be compared. */
  #full = false
  /** Failed ids and why. */
  readonly #failed = new Map<string, string>()
  #attempts = 0
  /** Failed ids are tried again from then on. */
  #retryAt = 0
  /** The last apply failed as a whole: nothing is tried before `#retryAt`. */
  #error: string | undefined
  #lastStart = Number.NEGATIVE_INFINITY
  #lastFull = 0
  #synced = false
  #appliedRevision = 0
  #lastApplied: Date | undefined
  #queued: Date | undefined
  #inFlight: Date | undefined
  #running: Promise<void> | undefined
  #cancel: Cancel | undefined
  #stopped = false

  constructor(options: SyncLoopOptions) {
    this.#options = options
  }

  /** Takes a newer desired state; `changed` are the ids that differ from the one before. */
  submit(desired: DesiredState, changed: Iterable<string>, readiness: Readiness): void {
    if (desired.podNetworks !== this.#desired?.podNetworks) this.#full = true
    this.#desired = desired
    for (const id of changed) this.#dirty.add(id)
    if (readiness !== this.#readiness) this.#full = true
    this.#readiness = readiness
    if (this.#dirty.size > 0 || this.#full) this.#queued ??= this.#options.clock.wall()
    this.#arm()
  }

  /** No further apply begins; resolves when a running one has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    await this.#running
  }

  get status(): SyncStatus {
    return {
      readiness: this.#readiness,
      synced: this.#synced,
      appliedRevision: this.#appliedRevision,
      desiredRevision: this.#desired?.revision ?? 0,
      lastApplied: this.#lastApplied,
      pendingSince: this.#inFlight ?? this.#queued,
      error: this.#error,
      failed: new Map(this.#failed),
    }
  }

  /** Sets the one timer to when there will be something to do. */
  #arm(): void {
    this.#cancel?.()
    if (this.#stopped || this.#running !== undefined || this.#readiness === 'waiting') return
    const { clock, minPeriodMs, fullPeriodMs } = this.#options
    let at = this.#lastFull + fullPeriodMs
    if (this.#dirty.size > 0 || this.#full) at = this.#lastStart + minPeriodMs
    else if (this.#failed.size > 0) at = Math.min(at, this.#retryAt)
    if (this.#error !== undefined) at = this.#retryAt
    this.#cancel = clock.after(Math.max(0, at - clock.monotonic()), () => {
      this.#running = this.#run().finally(() => {
        this.#running = undefined
        this.#arm()
      })
    })
  }

  async #run(): Promise<void> {
    const desired = this.#desired
    if (desired === undefined) return
    const { clock, dataplane } = this.#options
    const start = clock.monotonic()
    const full = this.#full || start >= this.#lastFull + this.#options.fullPeriodMs
    const ids = new Set(this.#dirty)
    if (start >= this.#retryAt) for (const id of this.#failed.keys()) ids.add(id)
    const readiness = this.#readiness
    this.#dirty.clear()
    this.#full = false
    this.#lastStart = start
    this.#inFlight = this.#queued
    this.#queued = undefined
    try {
      const report = await dataplane.apply(desired, full ? undefined : ids, readiness === 'complete')
      if (full) this.#lastFull = start
      this.#succeeded(report, full ? undefined : ids, readiness, start)
    } catch (error) {
      for (const id of ids) this.#dirty.add(id)
      this.#full ||= full
      this.#queued = this.#inFlight ?? this.#queued
      this.#brokeDown(error)
    } finally {
      this.#inFlight = undefined
    }
  }

  #succeeded(report: ApplyReport, ids: ReadonlySet<string> | undefined, readiness: Readiness, start: number): void {
    const { clock, logger, onApplied } = this.#options
    const ms = clock.monotonic() - start
    if (this.#error !== undefined) logger.info('apply works again', { tries: this.#attempts + 1 })
    this.#error = undefined
    this.#recordFailures(report, ids)
    if (this.#failed.size === 0) this.#attempts = 0
    else if (clock.monotonic() >= this.#retryAt) this.#retryLater()

    const first = readiness === 'complete' && !this.#synced
    if (first) this.#synced = true
    this.#appliedRevision = report.revision
    this.#lastApplied = clock.wall()
    if (report.writes > 0 || first) {
      const { revision, services, writes } = report
      logger.info('applied', { revision, services, writes, ms: Math.round(ms), ...(first ? { first } : {}) })
    }
    onApplied({ report, ms, startedAt: start, full: ids === undefined, first, at: this.#lastApplied })
  }

  /** Logs each failure once, and its end. */
  #recordFailures(report: ApplyReport, ids: ReadonlySet<string> | undefined): void {
    const { logger } = this.#options
    const reasons = new Map(report.failed.map(({ id, error }) => [id, messageOf(error)]))
    for (const id of [...this.#failed.keys()]) {
      if (reasons.has(id) || (ids !== undefined && !ids.has(id))) continue
      this.#failed.delete(id)
      logger.info('service no longer fails', { service: id })
    }
    for (const [id, reason] of reasons) {
      if (this.#failed.get(id) !== reason) {
        logger.error('cannot apply service; what the kernel had for it stays', { service: id, error: reason })
      }
      this.#failed.set(id, reason)
    }
  }

  #brokeDown(error: unknown): void {
    const { logger, onFailed } = this.#options
    const reason = messageOf(error)
    if (this.#error !== reason) logger.error('apply failed; the kernel keeps what it has', { error })
    this.#error = reason
    this.#retryLater()
    onFailed(error)
  }

  #retryLater(): void {
    const { clock, random } = this.#options
    this.#attempts++
    this.#retryAt = clock.monotonic() + backoff(this.#attempts, RETRY, random())
  }
}
