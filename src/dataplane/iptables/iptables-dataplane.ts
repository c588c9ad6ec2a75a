import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { Missing } from '../dataplane.js'
import { RulesDataplane, type RulesOptions } from '../rules/rules-dataplane.js'
import { cleanupIptables } from './cleanup.js'
import { hostRules, type RuleSettings } from './host.js'
import { IptablesFamily } from './iptables-family.js'

export type IptablesOptions = RulesOptions & RuleSettings

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
    for (const family of ['IPv4', 'IPv6'] as const) {
      try {
        const { iptables, variant, options } = await hostRules(family, this.#options, this.run)
        // An IPv4-only kernel has no tables for IPv6; there is nothing to serve then.
        await iptables.save('filter')
        this.families.set(family, new IptablesFamily(iptables, options))
        const masquerade = options.randomFully ? 'random-fully' : 'plain'
        this.#logger.info('iptables', { family, variant, profile: this.#options.profile, masquerade })
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
