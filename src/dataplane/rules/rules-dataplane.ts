import type { Clock } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { Family } from '../../model/address.js'
import type { DesiredState } from '../../model/desired.js'
import type { ApplyReport, Dataplane, Missing, ServiceStatus } from '../dataplane.js'
import type { Inspection } from '../inspection.js'
import { type RunTool, runTool } from './run-tool.js'
import { StaleUdp } from './stale-udp.js'

/** What became of an apply in one family. */
export interface FamilyReport {
  readonly writes: number
  readonly services: number
  readonly failed: readonly ServiceStatus[]
}

/** The report of a family whose Service ports `failed` were refused; `isApplied`: older rules of theirs stay. */
export function familyReport(
  counts: Pick<FamilyReport, 'writes' | 'services'>,
  failed: ReadonlyMap<string, Error>,
  revision: number,
  isApplied: (id: string) => boolean,
): FamilyReport {
  const statuses = [...failed].map(([id, error]) => ({ id, revision: isApplied(id) ? revision - 1 : 0, error }))
  return { ...counts, failed: statuses }
}

/** The rules of one family in the kernel. */
export interface FamilyRules {
  /** Reads what the kernel holds anew before the next apply, and compares everything. */
  distrust(): void
  /** Whether somebody flushed the rules since they were written; true before the first apply. */
  isLost(): Promise<boolean>
  /** Brings the ids `changed`, or all, to `state`; `now` in milliseconds, monotonic. @throws ToolError when nothing could be written */
  apply(
    state: DesiredState,
    changed: ReadonlySet<string> | undefined,
    prune: boolean,
    now: number,
  ): Promise<FamilyReport>
  /** What is due some time after an apply. @throws ToolError */
  bury?(now: number): Promise<void>
}

export interface RulesOptions {
  readonly logger: Logger
  readonly clock: Clock
  /** How tools of the host are run. */
  readonly run?: RunTool
}

/** Everything is read and compared that often, as with kube-proxy: the rules of a big cluster take long to read. */
const FULL_MS = 3_600_000

/** What dataplanes that are made of rules have in common: two families, each on its own, and conntrack. */
export abstract class RulesDataplane implements Dataplane {
  abstract readonly name: 'iptables' | 'nftables'
  protected readonly run: RunTool
  protected readonly families = new Map<Family, FamilyRules>()
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #staleUdp: StaleUdp
  #fullAt = 0

  constructor({ logger, clock, run = runTool }: RulesOptions) {
    this.#logger = logger
    this.#clock = clock
    this.run = run
    this.#staleUdp = new StaleUdp(logger, run)
  }

  abstract probe(): Promise<readonly Missing[]>
  /** Finds out how rules are written here. Those of an earlier run stay in force; the first apply adopts them. */
  abstract start(): Promise<void>
  abstract cleanup(): Promise<void>

  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    const now = this.#clock.monotonic()
    const due = changed === undefined && now >= this.#fullAt
    let services = 0
    let writes = 0
    const failed: ServiceStatus[] = []
    for (const [family, rules] of this.families) {
      if (changed === undefined) {
        const lost = !due && (await rules.isLost())
        if (lost) this.#logger.warn('rules were flushed by somebody else; writing them anew', { family })
        if (due || lost) rules.distrust()
      }
      const report = await rules.apply(desired, changed, prune, now)
      services += report.services
      writes += report.writes
      failed.push(...report.failed)
    }
    if (due && prune) this.#fullAt = now + FULL_MS
    this.#staleUdp.applied(desired, changed)
    if (prune) await this.#staleUdp.end(desired, this.families.keys())
    return { revision: desired.revision, services, writes, failed }
  }

  /** Rules hold for all devices. */
  setDevices(): void {}

  /** Nothing is attached that could be lost; flushed rules are found by the periodic apply. */
  async housekeep(): Promise<readonly string[]> {
    const now = this.#clock.monotonic()
    for (const [family, rules] of this.families) {
      try {
        await rules.bury?.(now)
      } catch (error) {
        this.#logger.warn('cannot delete what is not used any more; reading everything anew', {
          family,
          error: messageOf(error),
        })
        rules.distrust()
      }
    }
    return []
  }

  /** The kernel counts packets at rules of iptables, and those of nftables count nothing. */
  counters(): Pick<Inspection, 'outcomes' | 'maps' | 'flowCounts'> {
    return { outcomes: [], maps: [], flowCounts: { evicted: 0, sourcePortFlows: 0, sourcePortTries: 0 } }
  }

  /** Rules stay as they are. */
  async stop(): Promise<void> {}

  /** Those of the tools that cannot be run, each with the package that has it. */
  protected async missingOf(tools: Readonly<Record<string, string>>): Promise<Missing[]> {
    const missing: Missing[] = []
    for (const [tool, where] of Object.entries(tools)) {
      try {
        await this.run(tool, ['--version'])
      } catch (error) {
        missing.push({ what: messageOf(error), remedy: `install ${where}` })
      }
    }
    return missing
  }
}
