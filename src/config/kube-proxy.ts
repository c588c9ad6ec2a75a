import type { Mistake } from './config.js'
import { isIPv6, KUBE_PROXY_FIELDS, type KubeProxyField, type ProxyMode } from './kube-proxy-fields.js'
import type { OptionKey } from './options.js'

/** A value of kube-proxy's configuration as it was given somewhere. */
export interface KubeProxyValue {
  readonly field: KubeProxyField
  readonly raw: unknown
  /** `/etc/config.conf:7 iptables.syncPeriod`, `--iptables-sync-period`. */
  readonly where: string
  readonly origin: 'file' | 'flag'
}

/** What it becomes here: a raw value for one of our settings. */
export interface Translated {
  readonly key: OptionKey
  readonly raw: string
  readonly where: string
  readonly origin: 'file' | 'flag' | "kube-proxy's default"
}

/** A setting of kube-proxy that waggle does not follow. */
export interface Note {
  readonly where: string
  readonly value: string
  /** What happens instead. */
  readonly instead: string
}

/**
 * Turns kube-proxy's configuration into ours, weakest first: with `withDefaults`
 * kube-proxy's defaults where they differ from waggle's, then the file, then flags. Values
 * that it does not follow are noted, unless they are kube-proxy's defaults: those need no remark.
 */
export function translateKubeProxy(
  given: readonly KubeProxyValue[],
  withDefaults: boolean,
): {
  readonly settings: readonly Translated[]
  readonly notes: readonly Note[]
  readonly mistakes: readonly Mistake[]
} {
  const set = given.filter(({ raw }) => !isUnset(raw))
  const mode = modeOf(set)
  const settings: Translated[] = withDefaults ? defaultsOf(set, mode) : []
  const notes: Note[] = []
  const mistakes: Mistake[] = []
  for (const { field, raw, where, origin } of set) {
    const parsed = field.type.parse(raw)
    if (!parsed.ok) {
      mistakes.push({ where, problem: `${JSON.stringify(raw)} ${parsed.problem}` })
      continue
    }
    if (field.modes !== undefined && !field.modes.includes(mode)) continue
    const printed = field.type.print(parsed.value)
    // Go's zero duration stands for the default.
    if (printed === '0s') continue
    const value = field.translate === undefined ? printed : field.translate(parsed.value)
    if (field.key !== undefined && value !== undefined) settings.push({ key: field.key, raw: value, where, origin })
    else if (value === undefined || field.translate === undefined) {
      // Go's zero again; of the numbers that become no setting none means something by it.
      if (printed !== field.standard && printed !== '0') notes.push({ where, value: printed, instead: field.effect })
    }
  }
  return { settings, notes, mistakes }
}

/** What kube-proxy does where nothing is said, and waggle by itself would not. */
function defaultsOf(set: readonly KubeProxyValue[], mode: ProxyMode): Translated[] {
  const standard = (key: OptionKey, raw: string): Translated => {
    return { key, raw, where: `kube-proxy's default for ${key}`, origin: "kube-proxy's default" }
  }
  const bound = set.findLast(({ field }) => field.path === 'bindAddress')
  return [
    standard('nodePortAddresses', mode === 'nftables' ? 'primary' : 'all'),
    standard('oomScoreAdj', '-999'),
    ...(mode === 'ipvs' ? [standard('scheduler', 'rr')] : []),
    ...(bound !== undefined && isIPv6(bound.raw)
      ? [standard('healthzBindAddress', '[::]:10256'), standard('metricsBindAddress', '[::1]:10249')]
      : []),
  ]
}

/** A mode that is none is a mistake of its own; iptables stands in for it here. */
function modeOf(set: readonly KubeProxyValue[]): ProxyMode {
  const raw = set.findLast(({ field }) => field.path === 'mode')?.raw
  return raw === 'ipvs' || raw === 'nftables' ? raw : 'iptables'
}

/** As Go leaves a field that nobody sets; files that tools write name every field. */
function isUnset(raw: unknown): boolean {
  if (raw === null || raw === undefined || raw === '') return true
  return typeof raw === 'object' && Object.keys(raw).length === 0
}

/** The field that a flag of kube-proxy sets. */
export function fieldOfFlag(flag: string): KubeProxyField | undefined {
  return KUBE_PROXY_FIELDS.find(field => field.flag === flag)
}
