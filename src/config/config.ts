import type { Cidr } from '../model/cidr.js'
import { formatPortRange, portRangesMeet } from '../model/port-range.js'
import { OPTION_KEYS, type OptionKey, type OptionValue, optionOf, type Settings } from './options.js'
import { printBindAddress, printDuration } from './types.js'

/** Settings for which not being set means something. */
type MayBeUnset =
  | 'kubeconfig'
  | 'kubeServers'
  | 'clusterCidr'
  | 'externalIpCidrs'
  | 'podBridgeInterface'
  | 'podInterfaceNamePrefix'
  | 'oomScoreAdj'

/** The settings of one run: complete, checked and frozen. */
export type Config = {
  readonly [K in Exclude<OptionKey, MayBeUnset>]: OptionValue<K>
} & {
  /** Undefined means the pod's service account. */
  readonly kubeconfig: string | undefined
  readonly kubeServers: readonly string[] | undefined
  readonly podBridgeInterface: string | undefined
  readonly podInterfaceNamePrefix: string | undefined
  /** Undefined means the Node's podCIDRs. */
  readonly clusterCidr: readonly Cidr[] | undefined
  /** Undefined means every address. */
  readonly externalIpCidrs: readonly Cidr[] | undefined
  /** Undefined means as it is. */
  readonly oomScoreAdj: number | undefined
}

/** What only the machine knows and derived defaults need. */
export interface Machine {
  readonly hostname: string
  /** Where cgroup v2 is mounted; undefined = nowhere. */
  readonly cgroup: string | undefined
}

/** One thing that is wrong, where, and what to do about it. */
export interface Mistake {
  /** `--log-level`, `WAGGLE_LOG_LEVEL` or `/etc/waggle.yaml:3 logLevel`. */
  readonly where: string
  readonly problem: string
  readonly remedy?: string
}

/** Where a value came from, for the line that is written at start. */
export type Origin = 'flag' | 'environment' | 'file' | "kube-proxy's default" | 'default'

/**
 * Fills in derived defaults and checks settings against each other. `where` names the
 * place a setting was made, for the mistakes.
 */
export function completeConfig(
  settings: Settings,
  machine: Machine,
  where: (key: OptionKey) => string,
): { readonly config: Config; readonly mistakes: readonly Mistake[] } {
  const mistakes: Mistake[] = []
  if (settings.cgroup === undefined && machine.cgroup === undefined) {
    mistakes.push({
      where: where('cgroup'),
      problem: 'no cgroup v2 is mounted on this machine',
      remedy: 'mount one (mount -t cgroup2 none DIR) or name a directory of it with --cgroup',
    })
  }
  const config = Object.freeze({
    ...(settings as Config),
    kubeconfig: settings.kubeconfig,
    kubeServers: settings.kubeServers,
    clusterCidr: settings.clusterCidr,
    externalIpCidrs: settings.externalIpCidrs,
    podBridgeInterface: settings.podBridgeInterface,
    podInterfaceNamePrefix: settings.podInterfaceNamePrefix,
    oomScoreAdj: settings.oomScoreAdj,
    nodeName: settings.nodeName ?? machine.hostname.toLowerCase(),
    cgroup: settings.cgroup ?? machine.cgroup ?? '',
    pinDir: settings.pinDir ?? `${settings.bpffs?.replace(/\/+$/, '')}/waggle`,
  })
  return { config, mistakes: [...mistakes, ...contradictions(config, where)] }
}

/** Settings that are right alone and wrong together. */
function contradictions(config: Config, where: (key: OptionKey) => string): Mistake[] {
  const mistakes: Mistake[] = []
  if (!`${config.pinDir}/`.startsWith(`${config.bpffs.replace(/\/+$/, '')}/`)) {
    mistakes.push({
      where: where('pinDir'),
      problem: `${config.pinDir} is not below the BPF file system at ${config.bpffs}`,
      remedy: 'name a directory below --bpffs',
    })
  }
  if (config.minSyncPeriod > config.syncPeriod) {
    mistakes.push({
      where: where('minSyncPeriod'),
      problem: `${printDuration(config.minSyncPeriod)} is longer than the sync period of ${printDuration(config.syncPeriod)}`,
      remedy: 'lower --min-sync-period or raise --sync-period',
    })
  }
  if (config.maxSlots < config.maxBackends) {
    mistakes.push({
      where: where('maxSlots'),
      problem: `${config.maxSlots} places cannot hold ${config.maxBackends} backends`,
      remedy: 'raise --max-slots to four times --max-backends',
    })
  }
  const { sourcePorts: first, sourcePortsLast: last } = config
  if (first.length > 2) {
    mistakes.push({ where: where('sourcePorts'), problem: `${first.length} ranges, two are the most` })
  }
  const ranges = last === 'none' ? first : [...first, last]
  ranges.forEach((range, i) => {
    const other = ranges.slice(0, i).find(each => portRangesMeet(each, range))
    if (other === undefined) return
    mistakes.push({
      where: where(i < first.length ? 'sourcePorts' : 'sourcePortsLast'),
      problem: `${formatPortRange(range)} and ${formatPortRange(other)} have ports in common`,
      remedy: 'name ranges that do not meet; --source-ports-last=none leaves the last one out',
    })
  })
  const { metricsBindAddress: metrics, healthzBindAddress: healthz } = config
  if (metrics.host === healthz.host && metrics.port === healthz.port) {
    mistakes.push({
      where: where('metricsBindAddress'),
      problem: `${printBindAddress(metrics)} is the address of the health server, too`,
      remedy: 'give --metrics-bind-address and --healthz-bind-address different ports',
    })
  }
  return mistakes
}

/** Every setting in effect as a configuration file would have it; those that derive from nothing are left out. */
export function printConfig(config: Config): Readonly<Record<string, string>> {
  const printed: Record<string, string> = {}
  for (const key of OPTION_KEYS) {
    const value = config[key]
    if (value !== undefined) printed[key] = optionOf(key).type.print(value)
  }
  return printed
}

/** Every setting that is not a plain default, as `value (origin)`. */
export function describeSettings(
  settings: Settings,
  origins: ReadonlyMap<OptionKey, Origin>,
): Readonly<Record<string, string>> {
  const described: Record<string, string> = {}
  for (const key of OPTION_KEYS) {
    const origin = origins.get(key)
    if (origin === undefined || origin === 'default') continue
    described[key] = `${optionOf(key).type.print(settings[key])} (${origin})`
  }
  return described
}
