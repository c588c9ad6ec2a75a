import { WaggleError } from '../base/errors.js'
import { type Config, completeConfig, describeSettings, type Machine, type Mistake, type Origin } from './config.js'
import { type ConfigFile, parseConfigFile } from './file.js'
import { fieldOfFlag, type KubeProxyValue, type Note, translateKubeProxy } from './kube-proxy.js'
import { KUBE_PROXY_FIELDS, NO_MASQUERADE, OTHER_COMMANDS } from './kube-proxy-fields.js'
import { didYouMean, isUnknownVariable } from './names.js'
import { environmentName, OPTION_KEYS, type OptionKey, optionOf, type Settings } from './options.js'

/** Everything that settings are read from. */
export interface ConfigInput {
  /** By name without dashes, ours and kube-proxy's, each use of the flag one element. */
  readonly flags: ReadonlyMap<string, readonly string[]>
  /** Words of the command line that are no known flag. */
  readonly unknownFlags: readonly string[]
  /** Empty values count as not set. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly file: { readonly path: string; readonly text: string } | undefined
  readonly machine: Machine
}

export interface ConfigResult {
  readonly config: Config
  /** Each setting that is not a plain default, with its origin. */
  readonly described: Readonly<Record<string, string>>
  /** Settings of kube-proxy that are not followed, with what happens instead. */
  readonly notes: readonly Note[]
}

/** All mistakes of a configuration at once. */
export class ConfigError extends WaggleError {
  readonly mistakes: readonly Mistake[]

  constructor(mistakes: readonly Mistake[]) {
    super('CONFIG', {
      what: `${mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`} in the configuration\n${mistakes
        .map(({ where, problem, remedy }) => `  ${where}: ${problem}${remedy === undefined ? '' : `; ${remedy}`}`)
        .join('\n')}`,
    })
    this.mistakes = mistakes
  }
}

/** A value as given somewhere, not yet parsed. */
interface Given {
  readonly origin: Origin
  readonly where: string
  readonly raw: unknown
}

/**
 * Settings from all places: flag over environment over file over default. In one place
 * waggle's own name counts before kube-proxy's. Every given value is checked, also one
 * that a stronger place overrides.
 *
 * @throws ConfigError with all mistakes
 */
export function readConfig(input: ConfigInput): ConfigResult {
  const file: ConfigFile =
    input.file === undefined
      ? { entries: [], kubeProxy: undefined, mistakes: [] }
      : parseConfigFile(input.file.path, input.file.text)
  const asKubeProxy = file.kubeProxy !== undefined || input.flags.has('proxy-mode')
  const kubeProxy = translateKubeProxy(kubeProxyValues(input, file), asKubeProxy)
  const mistakes: Mistake[] = [...file.mistakes, ...unknownNames(input, file.entries), ...kubeProxy.mistakes]
  const settings: Record<string, unknown> = {}
  const origins = new Map<OptionKey, Origin>()
  const places = new Map<OptionKey, string>()

  for (const key of OPTION_KEYS) {
    const { type, fallback } = optionOf(key)
    if ('value' in fallback) settings[key] = fallback.value
    const translated = kubeProxy.settings.filter(each => each.key === key)
    for (const { origin, where, raw } of givenFor(key, input, file, translated)) {
      const parsed = type.parse(raw)
      if (parsed.ok) {
        settings[key] = parsed.value
        origins.set(key, origin)
        places.set(key, where)
      } else {
        mistakes.push({ where, problem: `${JSON.stringify(raw)} ${parsed.problem}` })
      }
    }
  }

  const { config, mistakes: together } = completeConfig(
    settings as Settings,
    input.machine,
    key => places.get(key) ?? `--${optionOf(key).flag}`,
  )
  mistakes.push(...together)
  if (mistakes.length > 0) throw new ConfigError(mistakes)
  const notes = [...kubeProxy.notes]
  if (config.masqueradeAll && config.dataplane === 'ebpf') {
    notes.push({ where: places.get('masqueradeAll') ?? '', value: 'true', instead: NO_MASQUERADE })
  }
  return { config, described: describeSettings(settings as Settings, origins), notes }
}

/** Every value that is given for a setting, weakest first. */
function givenFor(key: OptionKey, input: ConfigInput, file: ConfigFile, translated: readonly Given[]): Given[] {
  const { flag, type } = optionOf(key)
  const given: Given[] = translated.filter(({ origin }) => origin !== 'flag')
  for (const entry of file.entries) {
    if (entry.key === key) given.push({ origin: 'file', where: `${entry.where} ${key}`, raw: entry.value })
  }
  const variable = environmentName(flag)
  const fromEnvironment = input.environment[variable]
  if (fromEnvironment) given.push({ origin: 'environment', where: variable, raw: fromEnvironment })
  given.push(...translated.filter(({ origin }) => origin === 'flag'))
  const uses = input.flags.get(flag) ?? []
  if (uses.length > 0) given.push({ origin: 'flag', where: `--${flag}`, raw: type.list ? uses.join(',') : uses.at(-1) })
  return given
}

/** What file and command line say in kube-proxy's words; flags that are ours, too, are read as ours. */
function kubeProxyValues(input: ConfigInput, file: ConfigFile): KubeProxyValue[] {
  const values: KubeProxyValue[] = []
  for (const { key, value, where } of file.kubeProxy ?? []) {
    const field = KUBE_PROXY_FIELDS.find(each => each.path === key)
    if (field !== undefined) values.push({ field, raw: value, where: `${where} ${key}`, origin: 'file' })
  }
  for (const [flag, uses] of input.flags) {
    const field = fieldOfFlag(flag)
    if (field === undefined || OPTION_KEYS.some(key => optionOf(key).flag === flag)) continue
    const raw = field.type.list ? uses.join(',') : uses.at(-1)
    values.push({ field, raw, where: `--${flag}`, origin: 'flag' })
  }
  return values
}

/** Names in any of the places that the table does not have. */
function unknownNames(input: ConfigInput, entries: readonly { key: string; where: string }[]): Mistake[] {
  const flags = [
    ...OPTION_KEYS.map(key => `--${optionOf(key).flag}`),
    ...KUBE_PROXY_FIELDS.flatMap(({ flag }) => (flag === undefined ? [] : `--${flag}`)),
  ]
  const variables = OPTION_KEYS.map(key => environmentName(optionOf(key).flag))
  const mistake = (where: string, problem: string, name: string, known: readonly string[]): Mistake => {
    const remedy = didYouMean(name, known)
    return remedy === undefined ? { where, problem } : { where, problem, remedy }
  }
  return [
    ...input.unknownFlags.map(word => {
      const name = word.split('=')[0] ?? word
      const instead = OTHER_COMMANDS[name]
      if (instead !== undefined) return { where: name, problem: instead }
      return name.startsWith('-')
        ? mistake(name, 'unknown flag', name, flags)
        : { where: word, problem: 'unexpected argument' }
    }),
    ...Object.keys(input.environment)
      .filter(isUnknownVariable)
      .sort()
      .map(name => mistake(name, 'unknown environment variable', name, variables)),
    ...entries
      .filter(({ key }) => !OPTION_KEYS.includes(key as OptionKey))
      .map(({ key, where }) => mistake(`${where} ${key}`, 'unknown name', key, OPTION_KEYS)),
  ]
}
