import { WaggleError } from '../base/errors.js'
import { type Config, completeConfig, describeSettings, type Machine, type Mistake, type Origin } from './config.js'
import { parseConfigFile } from './file.js'
import { didYouMean, isUnknownVariable } from './names.js'
import { environmentName, OPTION_KEYS, type OptionKey, optionOf, type Settings } from './options.js'

/** Everything that settings are read from. */
export interface ConfigInput {
  /** By name without dashes, each use of the flag one element. */
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
 * Settings from all places: flag over environment over file over default. Every given
 * value is checked, also one that a stronger place overrides.
 *
 * @throws ConfigError with all mistakes
 */
export function readConfig(input: ConfigInput): ConfigResult {
  const file =
    input.file === undefined ? { entries: [], mistakes: [] } : parseConfigFile(input.file.path, input.file.text)
  const mistakes: Mistake[] = [...file.mistakes, ...unknownNames(input, file.entries)]
  const settings: Record<string, unknown> = {}
  const origins = new Map<OptionKey, Origin>()
  const places = new Map<OptionKey, string>()

  for (const key of OPTION_KEYS) {
    const { flag, type, fallback } = optionOf(key)
    const given: Given[] = []
    for (const entry of file.entries) {
      if (entry.key === key) given.push({ origin: 'file', where: `${entry.where} ${key}`, raw: entry.value })
    }
    const variable = environmentName(flag)
    const fromEnvironment = input.environment[variable]
    if (fromEnvironment) given.push({ origin: 'environment', where: variable, raw: fromEnvironment })
    const uses = input.flags.get(flag) ?? []
    if (uses.length > 0)
      given.push({ origin: 'flag', where: `--${flag}`, raw: type.list ? uses.join(',') : uses.at(-1) })

    if ('value' in fallback) settings[key] = fallback.value
    for (const { origin, where, raw } of given) {
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
  return { config, described: describeSettings(settings as Settings, origins) }
}

/** Names in any of the places that the table does not have. */
function unknownNames(input: ConfigInput, entries: readonly { key: string; where: string }[]): Mistake[] {
  const flags = OPTION_KEYS.map(key => `--${optionOf(key).flag}`)
  const variables = OPTION_KEYS.map(key => environmentName(optionOf(key).flag))
  const mistake = (where: string, problem: string, name: string, known: readonly string[]): Mistake => {
    const remedy = didYouMean(name, known)
    return remedy === undefined ? { where, problem } : { where, problem, remedy }
  }
  return [
    ...input.unknownFlags.map(word => {
      const name = word.split('=')[0] ?? word
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
