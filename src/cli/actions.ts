import { existsSync, readFileSync } from 'node:fs'
import { systemClock } from '../base/clock.js'
import { messageOf, WaggleError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { VERSION } from '../base/version.js'
import type { Config, Machine } from '../config/config.js'
import { ConfigError, type ConfigResult, readConfig } from '../config/read.js'
import { Lock, lockKey } from '../daemon/lock.js'
import { thisMachine } from '../daemon/machine.js'
import { Ticker } from '../daemon/ticker.js'
import { cleanupEbpf } from '../dataplane/ebpf/cleanup.js'
import { inspectPinned } from '../dataplane/ebpf/inspect.js'
import { cleanupIptables } from '../dataplane/iptables/cleanup.js'
import { cleanupNftables, NFTABLES_TABLE } from '../dataplane/nftables/cleanup.js'
import { loadNative } from '../ebpf/load-native.js'
import type { Native } from '../ebpf/native.js'
import type { Subject } from '../inspect/subjects.js'
import { differenceTable } from '../inspect/tables.js'
import type { Family } from '../model/address.js'
import { EXIT, ExitError, LoggedError } from './exit.js'
import { printTable } from './print.js'
import type { Actions, CleanupFlags, DiffFlags, GivenFlags, RenderFlags, ShowFlags } from './program.js'

/** What the commands do on this machine. */
export const actions: Actions = { run, show, render, diff, cleanup, version }

async function run(given: GivenFlags): Promise<void> {
  const machine = thisMachine()
  const { config, described, notes } = readSettings(given, machine)
  // Loaded here alone: the Kubernetes client doubles the time that other commands take to start.
  const { makeLogger, startAgent } = await import('../daemon/compose.js')
  const logger = makeLogger(config)
  dieLoudly(logger)
  logger.info('starting', { version: VERSION, node: config.nodeName, pid: process.pid, ...described })
  for (const { where, value, instead } of notes) {
    logger.warn('setting of kube-proxy is not followed', { setting: where, value, instead })
  }
  const file = watchConfig(given, machine, config, logger)
  try {
    const running = await startAgent(config, native(), logger, VERSION)
    const reason = await Promise.race([untilSignal(), running.agent.failed, file.changed])
    logger.info('stopping; the kernel goes on as it is', { reason: messageOf(reason) })
    await running.stop()
    if (typeof reason !== 'string') throw reason
  } catch (error) {
    logger.error('ending with a failure', { error })
    throw new LoggedError(exitCodeOf(error))
  } finally {
    file.stop()
  }
}

async function show(subject: Subject, given: GivenFlags, flags: ShowFlags): Promise<void> {
  const { config } = readSettings(given, { ...thisMachine(), cgroup: UNUSED })
  const inspection = inspectPinned(native(), config.pinDir)
  if (inspection === undefined) throw nothingPinned(config)
  if (flags.output === 'json')
    write(`${JSON.stringify({ [subject.name]: subject.rows(inspection, flags) }, null, 2)}\n`)
  else write(printTable(subject.table(inspection, flags)))
}

async function render(given: GivenFlags, { output, family }: RenderFlags): Promise<void> {
  const { config } = readSettings(given, { ...thisMachine(), cgroup: UNUSED })
  const { source, dataplane } = config
  if (dataplane !== 'iptables' && dataplane !== 'nftables')
    throw usage(`--dataplane ${dataplane} has no rules to print; use --dataplane iptables or nftables`)
  if (source.kind !== 'dir') throw usage('only a folder of manifests can be rendered; name it with --source dir:PATH')
  const { renderFolder } = await import('../daemon/render-folder.js')
  const families: readonly Family[] = family === 'both' ? ['IPv4', 'IPv6'] : family === '6' ? ['IPv6'] : ['IPv4']
  const { rendered, problems } = await renderFolder(source.path, config, families)
  for (const problem of problems) process.stderr.write(`waggle: ${problem}\n`)
  if (output === 'json') write(`${JSON.stringify(rendered, null, 2)}\n`)
  else for (const { family, text } of rendered) write(`# ${family}\n${text}`)
}

async function diff(given: GivenFlags, { output }: DiffFlags): Promise<void> {
  const { config } = readSettings(given, { ...thisMachine(), cgroup: UNUSED })
  const { source } = config
  if (source.kind !== 'dir') throw usage('only a folder of manifests can be compared; name it with --source dir:PATH')
  const { differenceOfFolder } = await import('../daemon/difference.js')
  const result = await differenceOfFolder(source.path, config, native())
  if (result === undefined) throw nothingPinned(config)
  for (const problem of result.problems) process.stderr.write(`waggle: ${problem}\n`)
  if (output === 'json') write(`${JSON.stringify({ differences: result.differences }, null, 2)}\n`)
  else if (result.differences.length === 0) write(`the kernel holds what ${source.path} says\n`)
  else write(printTable(differenceTable(result.differences)))
  if (result.differences.length > 0) process.exitCode = EXIT.differs.code
}

async function cleanup(given: GivenFlags, { dataplane, dryRun = false }: CleanupFlags): Promise<void> {
  const { config } = readSettings(given, { ...thisMachine(), cgroup: UNUSED })
  if (dataplane !== 'ebpf') {
    const removed =
      dataplane === 'iptables' ? await cleanupIptables(dryRun) : await cleanupNftables(NFTABLES_TABLE, dryRun)
    for (const object of removed) write(`${dryRun ? 'would remove' : 'removed'} ${object}\n`)
    if (removed.length === 0) write(`nothing to remove in ${dataplane}\n`)
    return
  }
  if (!existsSync(config.bpffs))
    throw new ExitError('failed', `there is no ${config.bpffs}; name the BPF file system with --bpffs`)
  const addon = native()
  const lock = dryRun
    ? undefined
    : await Lock.acquire(config.runDir, lockKey(config.bpffs, config.pinDir), config.pinDir, VERSION)
  try {
    const removed = cleanupEbpf(addon, config.pinDir, dryRun)
    for (const object of removed) write(`${dryRun ? 'would remove' : 'removed'} ${object}\n`)
    if (removed.length === 0) write(`nothing of waggle in ${config.pinDir}\n`)
  } finally {
    lock?.release()
  }
}

async function version(output: 'text' | 'json'): Promise<void> {
  if (output === 'json') write(`${JSON.stringify({ version: VERSION, node: process.versions.node })}\n`)
  else write(`waggle ${VERSION} (Node.js ${process.versions.node})\n`)
}

/** Stands for the cgroup where a command has no use for it, so that its absence is no mistake. */
const UNUSED = '/'

function readSettings(given: GivenFlags, machine: Machine): ConfigResult {
  const path = configPath(given)
  let file: { path: string; text: string } | undefined
  try {
    if (path !== undefined) file = { path, text: readFileSync(path, 'utf8') }
  } catch (error) {
    throw new ConfigError([{ where: path ?? '', problem: `cannot be read: ${messageOf(error)}` }])
  }
  return readConfig({
    flags: given.flags,
    unknownFlags: given.unknown,
    environment: process.env,
    file,
    machine,
  })
}

function native(): Native {
  try {
    return loadNative()
  } catch (error) {
    throw new ExitError('notBuilt', messageOf(error))
  }
}

function usage(message: string): ExitError {
  return new ExitError('usage', message)
}

function nothingPinned({ pinDir }: Config): ExitError {
  return new ExitError(
    'failed',
    `nothing of waggle is in ${pinDir}: no agent ran with this pin directory since the machine started; ` +
      'start one with `waggle run`, or name the place with --bpffs or --pin-dir',
  )
}

/**
 * Tells when the configuration file asks for other settings: the agent ends then to be
 * started again, as kube-proxy does. A file that is broken or gone is told, and the
 * settings stay.
 */
function watchConfig(
  given: GivenFlags,
  machine: Machine,
  config: Config,
  logger: Logger,
): { readonly changed: Promise<WaggleError>; stop(): void } {
  const path = configPath(given)
  let tell: (error: WaggleError) => void = () => {}
  const changed = new Promise<WaggleError>(resolve => {
    tell = resolve
  })
  const before = JSON.stringify(config)
  const look = async () => {
    if (JSON.stringify(readSettings(given, machine).config) === before) return
    const what = `go on with other settings: the configuration file ${path} changed`
    tell(new WaggleError('CONFIG_CHANGED', { what, remedy: 'start again, which a supervisor does by itself' }))
  }
  const ticker = new Ticker('looking at the configuration file', CONFIG_LOOK_MS, look, systemClock, logger)
  if (path !== undefined) ticker.start()
  return { changed, stop: () => ticker.stop() }
}

/** Milliseconds between two looks. */
const CONFIG_LOOK_MS = 5000

function configPath(given: GivenFlags): string | undefined {
  return given.config || process.env.WAGGLE_CONFIG || undefined
}

/** Resolves with the name of the signal that asks the agent to end. */
function untilSignal(): Promise<string> {
  return new Promise(resolve => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
}

/**
 * A bug ends the process at once: the kernel serves on, and a supervisor starts a new one
 * that adopts. SIGUSR1 would open Node's debugger to everybody on this host.
 */
function dieLoudly(logger: Logger): void {
  const die = (error: unknown) => {
    logger.error('bug: ending; the kernel goes on as it is', { error })
    process.exit(EXIT.failed.code)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  process.on('SIGUSR1', () => logger.warn('SIGUSR1 has no meaning here'))
}

function write(text: string): void {
  process.stdout.write(text)
}

/** The exit status for what a command threw. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof ExitError || error instanceof LoggedError) return error.exitCode
  if (error instanceof ConfigError) return EXIT.usage.code
  if (error instanceof WaggleError && error.code === 'LOCKED') return EXIT.locked.code
  if (error instanceof WaggleError && error.code === 'CONFIG_CHANGED') return EXIT.changed.code
  return EXIT.failed.code
}
