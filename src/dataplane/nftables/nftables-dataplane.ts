import type { Missing } from '../dataplane.js'
import type { LocalMatch } from '../rules/local-match.js'
import { RulesDataplane, type RulesOptions } from '../rules/rules-dataplane.js'
import { cleanupNftables } from './cleanup.js'
import { NftablesFamily } from './nftables-family.js'

export interface NftablesOptions extends RulesOptions {
  /** Name of the tables, one of each family. */
  readonly table: string
  readonly masqueradeAll: boolean
  /** `--nodeport-addresses` has `all`. */
  readonly anyNodeAddress: boolean
  /** Overrides the pod networks of the plan. */
  readonly local?: LocalMatch
}

/** Verdict maps in tables of our own, in kube-proxy's layout: constant-time look-ups, changes element by element. */
export class NftablesDataplane extends RulesDataplane {
  readonly name = 'nftables'
  readonly #options: NftablesOptions

  constructor(options: NftablesOptions) {
    super(options)
    this.#options = options
  }

  async probe(): Promise<readonly Missing[]> {
    return this.missingOf({ nft: 'nftables', conntrack: 'conntrack (conntrack-tools)' })
  }

  async start(): Promise<void> {
    const { table, masqueradeAll, anyNodeAddress, local } = this.#options
    for (const family of ['IPv4', 'IPv6'] as const) {
      const options = { family, masqueradeAll, anyNodeAddress, ...(local && { local }) }
      this.families.set(family, new NftablesFamily(this.run, options, table))
    }
  }

  async cleanup(): Promise<void> {
    await cleanupNftables(this.#options.table, false, this.run)
  }
}
