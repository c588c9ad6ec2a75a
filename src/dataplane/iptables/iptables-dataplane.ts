import { readFileSync } from 'node:fs'
import type { Clock } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { Family } from '../../model/address.js'
import type { DesiredState } from '../../model/desired.js'
import type { IptablesProfile, IptablesVariant } from '../../model/iptables.js'
import type { ApplyReport, Dataplane, Missing } from '../dataplane.js'
import type { Inspection } from '../inspection.js'
import { type RunTool, runTool } from '../rules/run-tool.js'
import { StaleUdp } from '../rules/stale-udp.js'
import { cleanupIptables } from './cleanup.js'
import { FamilyRules } from './family-rules.js'
import { LAYOUTS } from './profile.js'
import type { RenderOptions } from './render.js'
import type { LocalMatch } from './render-port.js'
import { hostVariant, Iptables } from './tools.js'

export interface IptablesOptions {
  /** Whose rules' shape is written. */
  readonly profile: IptablesProfile
  /** auto: the one that the host uses. */
  readonly variant: IptablesVariant | 'auto'
  readonly masqueradeAll: boolean
  /** `--nodeport-addresses` has `all`. */
  readonly anyNodeAddress: boolean
  /** Overrides the pod networks of the plan. */
  readonly local?: LocalMatch
  /** Where the host has route_localnet set; it is never set here, as it opens the loopback addresses to neighbours. */
  readonly localhostNodePorts: boolean
  readonly logger: Logger
  readonly clock: Clock
  /** How tools of the host are run. */
  readonly run?: RunTool
}

const FAMILIES: readonly Family[] = ['IPv4', 'IPv6']
/** Rules of a big cluster take long to read; kube-proxy compares everything once an hour, too. */
const FULL_MS = 3_600_000

/** kube-proxy's iptables mode, with its names and shapes: a way back, and something to compare with. */
export class IptablesDataplane implements Dataplane {
  readonly name = 'iptables'
  readonly #options: IptablesOptions
  readonly #families = new Map<Family, FamilyRules>()
  readonly #staleUdp: StaleUdp
  #fullAt = 0
  readonly #run: RunTool

  constructor(options: IptablesOptions) {
    this.#options = options
    this.#run = options.run ?? runTool
    this.#staleUdp = new StaleUdp(options.logger, this.#run)
  }

  async probe(): Promise<readonly Missing[]> {
    const missing: Missing[] = []
    const need = async (tool: string, args: readonly string[], remedy: string) => {
      try {
        await this.#run(tool, args)
      } catch (error) {
        missing.push({ what: messageOf(error), remedy })
      }
    }
    await need('iptables', ['--version'], 'install iptables')
    await need('conntrack', ['--version'], 'install conntrack (conntrack-tools)')
    return missing
  }

  /** Finds out how rules are written here. Rules of an earlier run stay in force; the first apply adopts them. */
  async start(): Promise<void> {
    const { profile, masqueradeAll, anyNodeAddress, localhostNodePorts, local, logger } = this.#options
    for (const family of FAMILIES) {
      try {
        const variant = this.#options.variant === 'auto' ? await hostVariant(family, this.#run) : this.#options.variant
        const iptables = new Iptables(family, variant, this.#run)
        // An IPv4-only kernel has no tables for IPv6; there is nothing to serve then.
        await iptables.save('filter')
        const options: RenderOptions = {
          family,
          layout: LAYOUTS[profile],
          masqueradeAll,
          randomFully: await iptables.randomFully(),
          anyNodeAddress,
          localhostNodePorts: localhostNodePorts && isOn('conf/all/route_localnet', 'ipv4'),
          liberalConntrack: isOn('nf_conntrack_tcp_be_liberal', 'netfilter'),
          ...(local && { local }),
        }
        this.#families.set(family, new FamilyRules(iptables, options))
        logger.info('iptables', {
          family,
          variant,
          profile,
          masquerade: options.randomFully ? 'random-fully' : 'plain',
        })
      } catch (error) {
        if (family === 'IPv4') throw error
        logger.warn('no iptables for IPv6: only IPv4 is served', { error: messageOf(error) })
      }
    }
    this.#fullAt = 0
  }

  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    const { clock, logger } = this.#options
    const now = clock.monotonic()
    let services = 0
    let writes = 0
    const failed = []
    for (const [family, rules] of this.#families) {
      if (changed === undefined) {
        const due = now >= this.#fullAt
        const lost = !due && (await rules.isLost())
        if (lost) logger.warn('rules were flushed by somebody else; writing them anew', { family })
        if (due || lost) rules.distrust()
      }
      const report = await rules.apply(desired, changed, prune)
      services += report.services
      writes += report.writes
      failed.push(...report.failed)
    }
    if (changed === undefined && now >= this.#fullAt) this.#fullAt = now + FULL_MS
    this.#staleUdp.applied(desired, changed)
    if (prune) await this.#staleUdp.end(desired, this.#families.keys())
    return { revision: desired.revision, services, writes, failed }
  }

  /** Rules hold for all devices. */
  setDevices(): void {}

  /** Nothing is attached that could be lost; flushed rules are found by the periodic apply. */
  async housekeep(): Promise<readonly string[]> {
    return []
  }

  /** The kernel counts packets at its rules: `iptables-save --counters`. */
  counters(): Pick<Inspection, 'outcomes' | 'maps' | 'flowCounts'> {
    return { outcomes: [], maps: [], flowCounts: { evicted: 0, sourcePortFlows: 0, sourcePortTries: 0 } }
  }

  /** Rules stay as they are. */
  async stop(): Promise<void> {}

  async cleanup(): Promise<void> {
    await cleanupIptables(false, this.#run)
  }
}

/** Whether a switch of the network namespace is on; off where the kernel does not have it. */
function isOn(name: string, folder: 'ipv4' | 'netfilter'): boolean {
  try {
    return readFileSync(`/proc/sys/net/${folder}/${name}`, 'utf8').trim() === '1'
  } catch {
    return false
  }
}
