import type { Family } from '../../model/address.js'
import type { IptablesProfile, IptablesVariant } from '../../model/iptables.js'
import type { LocalMatch } from '../rules/local-match.js'
import { type RunTool, runTool } from '../rules/run-tool.js'
import { LAYOUTS } from './profile.js'
import type { RenderOptions } from './render.js'
import { hostVariant, Iptables } from './tools.js'

/** What the settings say of rules. */
export interface RuleSettings {
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

/** How rules of a family are written on this host. @throws ToolError when it has no iptables for the family */
export async function hostRules(
  family: Family,
  settings: RuleSettings,
  run: RunTool = runTool,
): Promise<{ readonly iptables: Iptables; readonly variant: IptablesVariant; readonly options: RenderOptions }> {
  const { profile, masqueradeAll, anyNodeAddress, localhostNodePorts, local } = settings
  const variant = settings.variant === 'auto' ? await hostVariant(family, run) : settings.variant
  const iptables = new Iptables(family, variant, run)
  const options: RenderOptions = {
    family,
    layout: LAYOUTS[profile],
    masqueradeAll,
    randomFully: await iptables.randomFully(),
    anyNodeAddress,
    localhostNodePorts: localhostNodePorts && (await isOn('ipv4/conf/all/route_localnet', run)),
    liberalConntrack: await isOn('netfilter/nf_conntrack_tcp_be_liberal', run),
    ...(local && { local }),
  }
  return { iptables, variant, options }
}

/** Whether a switch below /proc/sys/net is on; off where the kernel does not have it. */
async function isOn(name: string, run: RunTool): Promise<boolean> {
  return run('cat', [`/proc/sys/net/${name}`]).then(
    text => text.trim() === '1',
    () => false,
  )
}
