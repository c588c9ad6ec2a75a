import { Command, Option } from 'commander'
import { KUBE_PROXY_FIELDS } from '../config/kube-proxy-fields.js'
import { environmentName, OPTION_KEYS, type OptionKey, optionOf } from '../config/options.js'
import { SUBJECTS, type Subject } from '../inspect/subjects.js'
import { EXIT } from './exit.js'

/** The command line as given: every use of each setting's flag, and what no flag takes. */
export interface GivenFlags {
  readonly flags: ReadonlyMap<string, readonly string[]>
  readonly unknown: readonly string[]
  /** Path of the configuration file. */
  readonly config: string | undefined
}

export interface ShowFlags {
  readonly output: 'table' | 'json'
  readonly namespace?: string
  readonly service?: string
}

export interface RenderFlags {
  readonly output: 'text' | 'json'
  readonly family: '4' | '6' | 'both'
}

export interface DiffFlags {
  readonly output: 'table' | 'json'
}

export interface CleanupFlags {
  readonly dataplane: 'ebpf' | 'nftables' | 'iptables'
  readonly dryRun?: boolean
}

/** What the commands do; the command line itself decides nothing. */
export interface Actions {
  run(given: GivenFlags): Promise<void>
  show(subject: Subject, given: GivenFlags, flags: ShowFlags): Promise<void>
  render(given: GivenFlags, flags: RenderFlags): Promise<void>
  diff(given: GivenFlags, flags: DiffFlags): Promise<void>
  cleanup(given: GivenFlags, flags: CleanupFlags): Promise<void>
  version(output: 'text' | 'json'): Promise<void>
}

/** Settings that tools beside the agent need to find what it left in the kernel. */
const PLACE_KEYS: readonly OptionKey[] = ['bpffs', 'pinDir']

/** Settings on which rules depend. */
const RENDER_KEYS: readonly OptionKey[] = [
  'dataplane',
  'source',
  'nodeName',
  'nodePortAddresses',
  'localhostNodePorts',
  'detectLocalMode',
  'clusterCidr',
  'externalIpCidrs',
  'podBridgeInterface',
  'podInterfaceNamePrefix',
  'masqueradeAll',
  'iptablesProfile',
]

/** Settings on which a plan and the place of a dataplane depend. */
const DIFF_KEYS: readonly OptionKey[] = [...RENDER_KEYS, 'iptablesVariant', 'scheduler', ...PLACE_KEYS]

/** The command tree with its help, bound to `actions`. */
export function buildProgram(actions: Actions): Command {
  const program = new Command('waggle')
    .description('Makes Kubernetes Services work on this node, through BPF, beside any CNI.')
    .helpCommand(false)
    .showHelpAfterError('(add --help for usage)')
    .addHelpText('after', EXIT_HELP)
    .exitOverride()

  const run = program.command('run').description('run the agent of this node')
  addSettings(run, OPTION_KEYS)
  addKubeProxyFlags(run)
  run
    .addOption(
      new Option(
        '--config <path>',
        "YAML file with the same settings, or kube-proxy's configuration file (WAGGLE_CONFIG)",
      ).helpGroup('General:'),
    )
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', RUN_HELP)
    .action(() => actions.run(givenFlags(run)))

  const show = program.command('show').description('show what the kernel holds, with or without a running agent')
  for (const subject of SUBJECTS) {
    const command = show.command(subject.name).description(subject.description)
    command.addOption(
      new Option('-o, --output <format>', 'how to print it').choices(['table', 'json']).default('table'),
    )
    if (subject.byService) {
      command.option('-n, --namespace <name>', 'only Services of this namespace')
      command.option('-s, --service <name>', 'only this Service: NAME or NAMESPACE/NAME')
    }
    addSettings(command, PLACE_KEYS)
    command.addHelpText('after', showHelp(subject))
    command.action(() => actions.show(subject, givenFlags(command), command.opts() as ShowFlags))
  }

  const render = program
    .command('render')
    .description(
      'print the rules that a dataplane would write for a folder of manifests; changes nothing, needs no root',
    )
    .addOption(new Option('-o, --output <format>', 'how to print them').choices(['text', 'json']).default('text'))
    .addOption(new Option('--family <number>', 'of which addresses').choices(['4', '6', 'both']).default('4'))
  addSettings(render, RENDER_KEYS)
  render
    .addHelpText('after', RENDER_HELP)
    .action(() => actions.render(givenFlags(render), render.opts() as RenderFlags))

  const diff = program
    .command('diff')
    .description('compare a folder of manifests with what the kernel holds; changes nothing')
    .addOption(new Option('-o, --output <format>', 'how to print it').choices(['table', 'json']).default('table'))
  addSettings(diff, DIFF_KEYS)
  diff.addHelpText('after', DIFF_HELP).action(() => actions.diff(givenFlags(diff), diff.opts() as DiffFlags))

  const cleanup = program
    .command('cleanup')
    .description('remove everything that waggle made in the kernel, and nothing else')
    .option('--dry-run', 'only say what would be removed')
    .addOption(
      new Option('--dataplane <name>', 'whose objects').choices(['ebpf', 'nftables', 'iptables']).default('ebpf'),
    )
  addSettings(cleanup, [...PLACE_KEYS, 'runDir'])
  cleanup
    .addHelpText('after', CLEANUP_HELP)
    .action(() => actions.cleanup(givenFlags(cleanup), cleanup.opts() as CleanupFlags))

  program
    .command('version')
    .description('print the version')
    .addOption(new Option('-o, --output <format>', 'how to print it').choices(['text', 'json']).default('text'))
    .action(options => actions.version(options.output))
  return program
}

/** Flags of the settings in `keys`; values stay text and are checked with those of the other places. */
function addSettings(command: Command, keys: readonly OptionKey[]): void {
  for (const key of keys) {
    const { flag, type, fallback, description, group } = optionOf(key)
    const shown = 'value' in fallback ? type.print(fallback.value) : plainText(fallback.derived)
    const option = new Option(
      `--${flag} ${argument(type.name)}`,
      `${plainText(description)} (default: ${shown}; ${environmentName(flag)})`,
    )
    collect(option)
    command.addOption(keys === OPTION_KEYS ? option.helpGroup(`${group}:`) : option)
  }
}

/** The flags of kube-proxy that have another name or no meaning here. */
function addKubeProxyFlags(command: Command): void {
  for (const { flag, type, effect } of KUBE_PROXY_FIELDS) {
    if (flag === undefined || OPTION_KEYS.some(key => optionOf(key).flag === flag)) continue
    const names = flag.length === 1 ? `-${flag}, --${flag}` : `--${flag}`
    const option = new Option(`${names} ${argument(type.name)}`, plainText(effect)).helpGroup("kube-proxy's flags:")
    command.addOption(collect(option))
  }
}

/** A truth value may be left out, as in Go's flags; it is true then. */
function argument(typeName: string): string {
  return typeName === 'true|false' ? `[${typeName}]` : `<${typeName}>`
}

/** Has the option keep every use of it, as text. */
function collect(option: Option): Option {
  if (option.optional) option.preset('true')
  return option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
}

/** What was given for the settings on the command line of `command`. */
function givenFlags(command: Command): GivenFlags {
  const flags = new Map<string, readonly string[]>()
  for (const flag of new Set([
    ...OPTION_KEYS.map(key => optionOf(key).flag),
    ...KUBE_PROXY_FIELDS.flatMap(field => field.flag ?? []),
  ])) {
    const option = command.options.find(candidate => candidate.long === `--${flag}`)
    const value: unknown = option && command.getOptionValue(option.attributeName())
    if (Array.isArray(value)) flags.set(flag, value)
  }
  const config: unknown = command.getOptionValue('config')
  return { flags, unknown: strayWords(command.args), config: typeof config === 'string' ? config : undefined }
}

/** Unknown flags and words; the word after an unknown flag is taken for its value. */
function strayWords(words: readonly string[]): string[] {
  return words.filter((word, i) => {
    const before = words[i - 1]
    return word.startsWith('-') || before === undefined || !before.startsWith('-') || before.includes('=')
  })
}

function plainText(markdown: string): string {
  return markdown.replaceAll('`', '')
}

const EXIT_HELP = `
Exit status:
${Object.values(EXIT)
  .map(({ code, meaning }) => `  ${String(code).padEnd(3)} ${plainText(meaning)}`)
  .join('\n')}`

const RUN_HELP = `
A flag counts before its environment variable, that before the configuration file.
SIGTERM ends the agent; what it wrote stays in the kernel, and traffic goes on.

Examples:
  waggle run                                       in a pod: Services of the API server
  waggle run --kubeconfig /root/.kube/config       on a host beside a cluster
  waggle run --source dir:/etc/waggle/manifests    without a cluster
  waggle run --config /etc/waggle/waggle.yaml --log-format json`

const CLEANUP_HELP = `
Services stop working on this node unless something else serves them. An agent that
runs with the same pin directory must be stopped first.

Examples:
  waggle cleanup --dry-run
  waggle cleanup
  waggle cleanup --dataplane iptables`

const RENDER_HELP = `
The rules are those of the node --node-name; a Node object with this name among the
manifests says at which addresses node ports are. Problems of the manifests go to
standard error.

Examples:
  waggle render --dataplane iptables --source dir:/etc/waggle/manifests
  waggle render --dataplane iptables --source dir:. --family both -o json | jq .
  diff <(waggle render --dataplane iptables --source dir:before) \\
       <(waggle render --dataplane iptables --source dir:after)`

const DIFF_HELP = `
Both sides are those of this machine: its addresses, and the Node object --node-name among
the manifests. Status 0: no difference; 4: there are some.

Examples:
  waggle diff --source dir:/etc/waggle/manifests
  waggle diff --dataplane nftables --source dir:/etc/waggle/manifests -o json`

function showHelp(subject: Subject): string {
  const filtered = subject.byService ? `\n  waggle show ${subject.name} --namespace default --service web` : ''
  return `
Examples:
  waggle show ${subject.name}${filtered}
  waggle show ${subject.name} -o json`
}
