import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { IptablesProfile, IptablesVariant } from '../../model/iptables.js'
import type { Missing } from '../dataplane.js'
import { RulesDataplane, type RulesOptions } from '../rules/rules-dataplane.js'
import { cleanupIptables } from './cleanup.js'
import { IptablesFamily } from './iptables-family.js'
import type { LocalMatch } from './port-writer.js'
import { LAYOUTS } from './profile.js'
import type { RenderOptions } from './render.js'
import { hostVariant, Iptables, isOn } from './tools.js'

export interface IptablesOptions extends RulesOptions {
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
}

/** kube-proxy's iptables mode, with its names and shapes: a way back, and something to compare with. */
export class IptablesDataplane extends RulesDataplane {
  readonly name = 'iptables'
  readonly #options: IptablesOptions
  readonly #logger: Logger

  constructor(options: IptablesOptions) {
    super(options)
    this.#options = options
    this.#logger = options.logger
  }

  async probe(): Promise<readonly Missing[]> {
    return this.missingOf({ iptables: 'iptables', conntrack: 'conntrack (conntrack-tools)' })
  }

  async start(): Promise<void> {
    const { profile, masqueradeAll, anyNodeAddress, localhostNodePorts, local } = this.#options
    for (const family of ['IPv4', 'IPv6'] as const) {
      try {
        const variant = this.#options.variant === 'auto' ? await hostVariant(family, this.run) : this.#options.variant
        const iptables = new Iptables(family, variant, this.run)
        // An IPv4-only kernel has no tables for IPv6; there is nothing to serve then.
        await iptables.save('filter')
        const options: RenderOptions = {
          family,
          layout: LAYOUTS[profile],
          masqueradeAll,
          randomFully: await iptables.randomFully(),
          anyNodeAddress,
          localhostNodePorts: localhostNodePorts && (await isOn('ipv4/conf/all/route_localnet', this.run)),
          liberalConntrack: await isOn('netfilter/nf_conntrack_tcp_be_liberal', this.run),
          ...(local && { local }),
        }
        this.families.set(family, new IptablesFamily(iptables, options))
        const masquerade = options.randomFully ? 'random-fully' : 'plain'
        this.#logger.info('iptables', { family, variant, profile, masquerade })
      } catch (error) {
        if (family === 'IPv4') throw error
        this.#logger.warn('no iptables for IPv6: only IPv4 is served', { error: messageOf(error) })
      }
    }
  }

  async cleanup(): Promise<void> {
    await cleanupIptables(false, this.run)
  }
}
