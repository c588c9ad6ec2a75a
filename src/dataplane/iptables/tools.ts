import type { Family } from '../../model/address.js'
import { IPTABLES_VARIANTS, type IptablesVariant } from '../../model/iptables.js'
import { type RunTool, runTool } from '../rules/run-tool.js'
import { readSave } from './save-text.js'

/** Seconds to wait for another holder of the lock of iptables. */
const LOCK_SECONDS = 5
/** iptables of one family in one variant. */
export class Iptables {
  /** `ip6tables-nft` */
  readonly name: string

  readonly #run: RunTool

  constructor(family: Family, variant: IptablesVariant, run: RunTool = runTool) {
    this.#run = run
    this.name = `${family === 'IPv6' ? 'ip6tables' : 'iptables'}-${variant}`
  }

  /** The table, or all of them, as iptables-save prints it. */
  async save(table?: string): Promise<string> {
    return this.#run(`${this.name}-save`, table === undefined ? [] : ['-t', table])
  }

  /** Applies `text` in one transaction a table and leaves every chain alone that it does not name. */
  async restore(text: string): Promise<void> {
    await this.#run(`${this.name}-restore`, ['-w', String(LOCK_SECONDS), '--noflush', '--counters'], text)
  }

  /** Whether MASQUERADE knows --random-fully (1.6.2). */
  async randomFully(): Promise<boolean> {
    const said = await this.#run(this.name, ['--version'])
    const [, major = 0, minor = 0, patch = 0] = /v([0-9]+)\.([0-9]+)\.([0-9]+)/.exec(said) ?? []
    return Number(major) * 10_000 + Number(minor) * 100 + Number(patch) >= 10_602
  }
}

/** Chains by which the kubelet shows which variant it uses, see KEP-3178. */
const HINTS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY']

/**
 * The variant that the host uses: the one with the kubelet's chains, else the one with
 * more rules, else nft where it works. Rules of both at once would each translate.
 *
 * @throws ToolError when neither is there
 */
export async function hostVariant(family: Family, run: RunTool = runTool): Promise<IptablesVariant> {
  const found: { variant: IptablesVariant; hinted: boolean; rules: number }[] = []
  let failure: unknown
  for (const variant of [...IPTABLES_VARIANTS].reverse()) {
    try {
      const tables = readSave(await new Iptables(family, variant, run).save())
      const mangle = tables.get('mangle')
      const hinted = HINTS.some(chain => mangle?.chains.has(chain))
      let rules = 0
      for (const { chains } of tables.values()) for (const lines of chains.values()) rules += lines.length
      found.push({ variant, hinted, rules })
    } catch (error) {
      failure = error
    }
  }
  if (found.length === 0) throw failure
  const order = [...found].sort((a, b) => Number(b.hinted) - Number(a.hinted) || b.rules - a.rules)
  return order[0]?.variant ?? 'nft'
}
