import { once } from 'node:events'
import { Command, InvalidArgumentError, Option } from 'commander'
import { killAgent, startAgent, stopAgent, waitHealthy } from './agent.js'
import { apply } from './apply.js'
import { down } from './down.js'
import { Lab, LabError } from './lab.js'
import { runLoad } from './load/run.js'
import { LOAD_MODES, type LoadMode, type LoadOptions, parseTarget } from './load/target.js'
import { CommandError } from './machine.js'
import { inRoot } from './root.js'
import { allRunning, labStatus, renderStatus } from './status.js'
import { type UpOptions, up } from './up.js'

/** The command line of tools/lab. Exit status: 0 done, 1 failed, 2 wrong usage; `exec` gives the command's own. */

const FAILED = 1
const USAGE = 2

const program = new Command('lab')
  .description('A cluster out of network namespaces on this machine: nodes, pods, an outside client, a router.')
  .showHelpAfterError('(lab --help lists the commands)')
  .enablePositionalOptions()
  .exitOverride(error => process.exit(error.exitCode === 0 ? 0 : USAGE))

/** Which lab; `--name` may stand before the command and behind it. */
let labName = 'lab'
const nameOption = (command: Command) =>
  command
    .option('--name <name>', 'which lab; several can live side by side (default: "lab")')
    .on('option:name', (value: string) => {
      labName = value
    })
nameOption(program)
const subcommand = (name: string) => nameOption(program.command(name))
const openLab = () => Lab.open(labName)
const say = (line: string) => process.stderr.write(`${line}\n`)

subcommand('up')
  .description('build a lab and wait until it serves')
  .option('--nodes <n>', 'how many nodes: node-a, node-b, ...', wholeNumber, 2)
  .addOption(
    new Option('--dataplane <name>', 'what the agents program')
      .choices(['ebpf', 'nftables', 'iptables'])
      .default('ebpf'),
  )
  .option('--source <source>', 'dir:DIR or kube: where the agents read their objects (default: dir:examples)')
  .option('--manifests <dir>', 'with --source kube: apply these to the API server', inRoot('examples'))
  .option('--no-agents', 'leave the agents to: lab agent NODE start')
  .option('--agent-flag <flag>', 'a further flag of every agent; repeatable', collect, [])
  .action(async options => {
    const began = performance.now()
    const stop = new AbortController()
    for (const name of ['SIGINT', 'SIGTERM'] as const)
      process.once(name, () => stop.abort(new LabError(`stopped by ${name}`)))
    const lab = await up({ ...upOptions(options), name: labName, progress: say }, stop.signal)
    process.stdout.write(renderStatus(labStatus(lab)))
    say(`up in ${((performance.now() - began) / 1000).toFixed(1)} s; remove it with: tools/lab down --name ${labName}`)
  })

subcommand('down')
  .description('remove everything of a lab, also after a crash')
  .action(() => down(labName))

subcommand('exec')
  .description('run a command as a process of a host; its exit status is the answer')
  .argument('<host>', 'router, client, node-a, pod-a1, ...')
  .argument('<command...>', 'after --, the command and its arguments')
  .passThroughOptions()
  .action(async (host: string, command: string[]) => {
    const child = openLab().spawn(host, behindDashes(command), { stdio: 'inherit' })
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => child.kill(name))
    const [code, signalName] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    // A shell's way to say that a signal ended it.
    process.exitCode = code ?? 128 + ((await import('node:os')).constants.signals[signalName as NodeJS.Signals] ?? 0)
  })

subcommand('apply')
  .description('make the manifests of a directory, and no others, the ones that the agents see')
  .argument('<dir>')
  .action(async (dir: string) => {
    const done = await apply(openLab(), dir)
    say(`${done.written} written, ${done.removed} removed`)
  })

subcommand('agent')
  .description("start or end a node's agent")
  .argument('<node>')
  .argument('<action>', 'start, stop (SIGTERM), kill (SIGKILL) or restart')
  .argument('[flags...]', 'after --, further flags of the agent (start and restart)')
  .passThroughOptions()
  .action(async (node: string, action: string, flags: string[]) => {
    const lab = openLab()
    const actions: Record<string, () => Promise<void>> = {
      start: () => startAgent(lab, node, behindDashes(flags)),
      stop: () => stopAgent(lab, node),
      kill: () => killAgent(lab, node),
      restart: () => stopAgent(lab, node).then(() => startAgent(lab, node, behindDashes(flags))),
    }
    const act = actions[action]
    if (!act) throw new RangeError(`an action is one of ${Object.keys(actions).join(', ')}, not "${action}"`)
    await act()
  })

subcommand('status')
  .description('hosts, addresses, agents; exit status 1 when one of the daemons does not run')
  .addOption(new Option('-o, --output <format>').choices(['table', 'json']).default('table'))
  .action(({ output }: { output: string }) => {
    const status = labStatus(openLab())
    process.stdout.write(output === 'json' ? `${JSON.stringify(status, null, 2)}\n` : renderStatus(status))
    if (!allRunning(status)) process.exitCode = FAILED
  })

subcommand('logs')
  .description("print what a node's agent or a pod's echo service wrote")
  .argument('<host>')
  .option('-f, --follow', 'wait for more')
  .action(async (host: string, { follow }: { follow?: boolean }) => {
    const lab = openLab()
    lab.host(host)
    const { spawn } = await import('node:child_process')
    const child = spawn('tail', ['-n', '+1', ...(follow ? ['-F'] : []), lab.names.log(host)], { stdio: 'inherit' })
    const [code] = await once(child, 'exit')
    process.exitCode = code ? FAILED : 0
  })

addLoadOptions(
  subcommand('load')
    .description('make connections from a host and print who answered, what failed, the longest gap (JSON)')
    .argument('<host>'),
).action(async (host: string, target: string, options: RawLoadOptions) => {
  loadOptions(target, options)
  const flags = process.argv.slice(process.argv.indexOf(host) + 1)
  const child = openLab().spawn(host, [process.execPath, inRoot('build/lab.mjs'), 'load-here', ...flags], {
    stdio: 'inherit',
  })
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => child.kill('SIGINT'))
  const [code] = await once(child, 'exit')
  process.exitCode = code ?? FAILED
})

addLoadOptions(
  program.command('load-here', { hidden: true }).option('--announce', 'say "answered" at the first answer'),
).action(async (target: string, options: RawLoadOptions & { announce?: boolean }) => {
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const onFirst = options.announce ? () => say('answered') : undefined
  const result = await runLoad(loadOptions(target, options), stop.signal, onFirst)
  process.stdout.write(`${JSON.stringify(result)}\n`)
  if (result.failed > 0) process.exitCode = FAILED
})

program
  .command('wait-healthy', { hidden: true })
  .argument('<url>')
  .argument('<pid>', '', wholeNumber)
  .argument('<ms>', '', wholeNumber)
  .action(async (url: string, pid: number, ms: number) => {
    if (!(await waitHealthy(url, pid, ms))) process.exitCode = FAILED
  })

interface RawLoadOptions {
  mode: LoadMode
  count?: number
  seconds?: number
  concurrency: number
  interval: number
  timeout: number
  bytes: number
  rate: number
}

function addLoadOptions(command: Command): Command {
  return command
    .argument('<target>', 'ADDRESS:PORT or [IPV6]:PORT of an echo service or of a frontend before it')
    .addOption(new Option('-m, --mode <mode>', 'how to talk').choices([...LOAD_MODES]).default('tcp'))
    .option('-n, --count <n>', 'attempts in all (default: 1000, or no limit with --seconds)', wholeNumber)
    .option('-s, --seconds <s>', 'end after this time; SIGINT ends it too', Number)
    .option('-c, --concurrency <n>', 'workers', wholeNumber, 16)
    .option('-i, --interval <ms>', 'pause of a worker between attempts', Number, 0)
    .option('-t, --timeout <ms>', 'an attempt that takes longer has failed', wholeNumber, 2000)
    .option('-b, --bytes <n>', 'tcp: download and check this many bytes each time', wholeNumber, 0)
    .option('-r, --rate <n>', 'tcp: bytes a second of such a download', wholeNumber, 0)
}

function loadOptions(target: string, raw: RawLoadOptions): LoadOptions {
  return {
    ...parseTarget(target),
    mode: raw.mode,
    count: raw.count ?? (raw.seconds === undefined ? 1000 : Number.POSITIVE_INFINITY),
    seconds: raw.seconds ?? Number.POSITIVE_INFINITY,
    concurrency: raw.concurrency,
    intervalMs: raw.interval,
    timeoutMs: raw.timeout,
    bytes: raw.bytes,
    rate: raw.rate,
  }
}

function upOptions(raw: {
  nodes: number
  dataplane: string
  source?: string
  manifests: string
  agents: boolean
  agentFlag: string[]
}): Omit<UpOptions, 'name' | 'progress'> {
  const { nodes, dataplane, agents, agentFlag: agentFlags } = raw
  const common = { nodes, dataplane, agents, agentFlags }
  if (raw.source === 'kube') return { ...common, source: 'kube', manifests: raw.manifests }
  const dir = raw.source === undefined ? raw.manifests : /^dir:(.+)$/.exec(raw.source)?.[1]
  if (!dir) throw new RangeError(`--source is dir:DIR or kube, not "${raw.source}"`)
  return { ...common, source: 'dir', manifests: dir }
}

/** commander keeps the `--` that ends the options of a command that passes options through. */
function behindDashes(words: readonly string[]): readonly string[] {
  return words[0] === '--' ? words.slice(1) : words
}

function wholeNumber(text: string): number {
  if (!/^[0-9]+$/.test(text)) throw new InvalidArgumentError('a whole number is wanted')
  return Number(text)
}

function collect(value: string, before: string[]): string[] {
  return [...before, value]
}

try {
  await program.parseAsync()
} catch (error) {
  const known = error instanceof LabError || error instanceof CommandError || error instanceof RangeError
  say(`lab: ${known ? error.message : ((error as Error).stack ?? error)}`)
  process.exitCode = error instanceof RangeError ? USAGE : FAILED
}
