import type { Config } from '../config/config.js'
import { inspectPinned } from '../dataplane/ebpf/inspect.js'
import { rulesByPort } from '../dataplane/iptables/difference.js'
import { hostRules } from '../dataplane/iptables/host.js'
import { renderAll } from '../dataplane/iptables/render.js'
import { readSave } from '../dataplane/iptables/save-text.js'
import { NFTABLES_TABLE } from '../dataplane/nftables/cleanup.js'
import { tableDifference } from '../dataplane/nftables/difference.js'
import { listTable, readTable } from '../dataplane/nftables/list-text.js'
import { wordsOf } from '../dataplane/nftables/render-port.js'
import { runTool } from '../dataplane/rules/run-tool.js'
import type { Native } from '../ebpf/native.js'
import { ownAddresses } from '../host/devices.js'
import { readNetworkFacts } from '../host/facts.js'
import { type DifferenceRow, factsDifference, mapsDifference } from '../inspect/difference.js'
import type { Family } from '../model/address.js'
import type { DesiredState } from '../model/desired.js'
import { DaemonError } from './errors.js'
import { planFromDir } from './offline.js'
import { ruleSettings } from './rule-settings.js'

const FAMILIES: readonly Family[] = ['IPv4', 'IPv6']

/**
 * In what the manifests of a folder and the kernel differ, for the dataplane of the
 * settings. Undefined: the dataplane ebpf holds nothing at all here.
 *
 * @throws DaemonError when the folder cannot be read; ToolError when a tool of the host fails
 */
export async function differenceOfFolder(path: string, config: Config, native: Native) {
  const { state, problems } = await planFromDir(path, config, ownAddresses(readNetworkFacts(native)))
  const differences = await differencesOf(state, config, native)
  if (differences === undefined) return undefined
  return {
    differences,
    problems,
  }
}

async function differencesOf(
  state: DesiredState,
  config: Config,
  native: Native,
): Promise<DifferenceRow[] | undefined> {
  switch (config.dataplane) {
    case 'ebpf': {
      const held = inspectPinned(native, config.pinDir)
      return held && mapsDifference(state, held)
    }
    case 'iptables':
      return (await Promise.all(FAMILIES.map(family => iptablesDifference(state, config, family)))).flat()
    case 'nftables':
      return (await Promise.all(FAMILIES.map(family => nftablesDifference(state, config, family)))).flat()
    default:
      throw new DaemonError('NOT_AVAILABLE', {
        what: `compare with the dataplane ${config.dataplane}: it is not available yet`,
        remedy: 'use --dataplane ebpf, nftables or iptables',
      })
  }
}

async function iptablesDifference(state: DesiredState, config: Config, family: Family): Promise<DifferenceRow[]> {
  const settings = { ...ruleSettings(config), profile: config.iptablesProfile, variant: config.iptablesVariant }
  const { iptables, options } = await hostRules(family, settings)
  const rendered = renderAll(state, options)
  const { wanted, held } = rulesByPort(readSave(await iptables.save()), rendered.wanted, rendered.ports)
  return factsDifference(wanted, held)
}

async function nftablesDifference(state: DesiredState, config: Config, family: Family): Promise<DifferenceRow[]> {
  const text = await listTable(runTool, `${wordsOf(family).ip} ${NFTABLES_TABLE}`)
  const table =
    text === undefined ? { sets: new Set<string>(), chains: new Map(), elements: new Map() } : readTable(text)
  const { wanted, held } = tableDifference(table, state, { ...ruleSettings(config), family })
  return factsDifference(wanted, held)
}
