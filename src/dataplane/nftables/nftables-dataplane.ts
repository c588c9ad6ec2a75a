import type { Clock } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { Family } from '../../model/address.js'
import type { DesiredState } from '../../model/desired.js'
import type { ApplyReport, Dataplane, Missing } from '../dataplane.js'
import type { Inspection } from '../inspection.js'
import { type RunTool, runTool } from '../rules/run-tool.js'
import { StaleUdp } from '../rules/stale-udp.js'
import { FamilyTable } from './family-table.js'
import type { LocalMatch } from './render-port.js'

/** Name of the tables of the agent. */
export const NFTABLES_TABLE = 'waggle'

export interface NftablesOptions {
  /** Name of the tables, one of each family. */
  readonly table: string
  readonly masqueradeAll: boolean
  /** `--nodeport-addresses` has `all`. */
  readonly anyNodeAddress: boolean
  /** Overrides the pod networks of the plan. */
  readonly local?: LocalMatch
  readonly logger: Logger
  readonly clock: Clock
  /** How tools of the host are run. */
  readonly run?: RunTool
}

const FAMILIES: readonly Family[] = ['IPv4', 'IPv6']

/** Everything is read and compared that often, besides a look each period whether the table is there. */
const FULL_MS = 3_600_000

/** Verdict maps in tables of our own, in kube-proxy's layout: constant-time look-ups, changes element by element. */
export class NftablesDataplane implements Dataplane {
  readonly name = 'nftables'
  readonly #options: NftablesOptions
  readonly #run: RunTool
  readonly #staleUdp: StaleUdp
  readonly #families = new Map<Family, FamilyTable>()
  #fullAt = 0

  constructor(options: NftablesOptions) {
    this.#options = options
    this.#run = options.run ?? runTool
    this.#staleUdp = new StaleUdp(options.logger, this.#run)
  }

  async probe(): Promise<readonly Missing[]> {
    const missing: Missing[] = []
    for (const [tool, remedy] of [
      ['nft', 'install nftables'],
      ['conntrack', 'install conntrack (conntrack-tools)'],
    ] as const) {
      try {
        await this.#run(tool, ['--version'])
      } catch (error) {
        missing.push({ what: messageOf(error), remedy })
      }
    }
    return missing
  }

  /** Tables of an earlier run stay in force; the first apply adopts them. */
  async start(): Promise<void> {
    const { table, masqueradeAll, anyNodeAddress, local } = this.#options
    for (const family of FAMILIES) {
      const options = { family, masqueradeAll, anyNodeAddress, ...(local && { local }) }
      this.#families.set(family, new FamilyTable(this.#run, options, table))
    }
    this.#fullAt = 0
  }

  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    const { clock, logger } = this.#options
    const now = clock.monotonic()
    const due = changed === undefined && now >= this.#fullAt
    let services = 0
    let writes = 0
    const failed = []
    for (const [family, table] of this.#families) {
      if (changed === undefined) {
        const lost = !due && (await table.isLost())
        if (lost) logger.warn('the table was flushed by somebody else; writing it anew', { family })
        if (due || lost) table.distrust()
      }
      const report = await table.apply(desired, changed, prune, now)
      services += report.services
      writes += report.writes
      failed.push(...report.failed)
    }
    if (due && prune) this.#fullAt = now + FULL_MS
    this.#staleUdp.applied(desired, changed)
    if (prune) await this.#staleUdp.end(desired, this.#families.keys())
    return { revision: desired.revision, services, writes, failed }
  }

  /** Rules hold for all devices. */
  setDevices(): void {}

  /** Deletes chains that were emptied a while ago. */
  async housekeep(): Promise<readonly string[]> {
    const now = this.#options.clock.monotonic()
    for (const [family, table] of this.#families) {
      try {
        await table.bury(now)
      } catch (error) {
        this.#options.logger.warn('cannot delete emptied chains; reading the table anew', {
          family,
          error: messageOf(error),
        })
        table.distrust()
      }
    }
    return []
  }

  /** Rules count nothing: a counter would cost every packet. */
  counters(): Pick<Inspection, 'outcomes' | 'maps' | 'flowCounts'> {
    return { outcomes: [], maps: [], flowCounts: { evicted: 0, sourcePortFlows: 0, sourcePortTries: 0 } }
  }

  /** The tables stay as they are. */
  async stop(): Promise<void> {}

  async cleanup(): Promise<void> {
    await cleanupNftables(this.#options.table, false, this.#run)
  }
}

/** Removes the tables; with `dryRun` it only looks. Resolves with their names. @throws ToolError */
export async function cleanupNftables(name: string, dryRun: boolean, run: RunTool = runTool): Promise<string[]> {
  const tables = (await run('nft', ['list', 'tables'])).split('\n')
  const ours = [`ip ${name}`, `ip6 ${name}`].filter(table => tables.includes(`table ${table}`))
  if (!dryRun && ours.length > 0) await run('nft', ['-f', '-'], ours.map(table => `delete table ${table}\n`).join(''))
  return ours.map(table => `table ${table}`)
}
