import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Thin functions over the machine: commands, processes, cgroups, mounts. */

export class CommandError extends Error {
  override readonly name = 'CommandError'
}

/** Runs a command with `input` on its standard input and returns its standard output; rejects when it fails. */
export function run(command: string, args: readonly string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: 'pipe' })
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', chunk => out.push(chunk))
    child.stderr.on('data', chunk => err.push(chunk))
    child.on('error', cause => reject(new CommandError(`${command}: ${cause.message}`, { cause })))
    child.on('close', (code, signal) => {
      if (code === 0) return resolve(Buffer.concat(out).toString())
      const said = Buffer.concat(err).toString().trim()
      reject(new CommandError(`${command} ${args.join(' ')}: ${signal ?? `exit status ${code}`}: ${said}`))
    })
    child.stdin.on('error', () => {
      // The command ended before it read everything; its exit status tells why.
    })
    child.stdin.end(input)
  })
}

/** Arguments of nsenter that run `command` as a process of a namespace and a cgroup. */
export function enter(namespacePath: string, cgroupDir: string, command: readonly string[]): string[] {
  const join = 'echo 0 > "$0" && exec "$@"'
  return [`--net=${namespacePath}`, 'sh', '-c', join, path.join(cgroupDir, 'cgroup.procs'), ...command]
}

/** Mount points with their types, as /proc/mounts lists them. */
export function mounts(): { readonly target: string; readonly type: string }[] {
  return readFileSync('/proc/mounts', 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => line.split(' '))
    .map(([, target = '', type = '']) => ({ target: target.replaceAll('\\040', ' '), type }))
}

/** Root of cgroup v2, or undefined when it is not mounted. */
export function cgroupRoot(): string | undefined {
  return mounts().find(mount => mount.type === 'cgroup2')?.target
}

/** The directory itself and everything below it, the deepest first. */
export function cgroupTree(dir: string): string[] {
  if (!existsSync(dir)) return []
  const below = readdirSync(dir, { withFileTypes: true }).filter(entry => entry.isDirectory())
  return [...below.flatMap(entry => cgroupTree(path.join(dir, entry.name))), dir]
}

/** Kills every process of a cgroup tree and removes the tree. Nothing happens when it is not there. */
export async function removeCgroup(dir: string): Promise<void> {
  const deadline = Date.now() + 10_000
  for (;;) {
    const left = cgroupTree(dir)
    if (left.length === 0) return
    try {
      for (const cgroup of left) killCgroup(cgroup)
      for (const cgroup of left) rmdirSync(cgroup)
      return
    } catch (cause) {
      // EBUSY while the killed processes are being reaped; new children appear between two looks.
      if (Date.now() > deadline) throw new Error(`cannot remove cgroup ${dir}`, { cause })
      await sleep(20)
    }
  }
}

function killCgroup(dir: string): void {
  const all = path.join(dir, 'cgroup.kill')
  if (existsSync(all)) {
    writeFileSync(all, '1')
    return
  }
  // Before Linux 5.14.
  for (const pid of readFileSync(path.join(dir, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)) {
    signalProcess(Number(pid), 'SIGKILL')
  }
}

/** A process of ours: the start time tells it from a later one with the same number. */
export interface ProcessId {
  readonly pid: number
  /** Field 22 of /proc/PID/stat, in clock ticks since boot. */
  readonly startTime: string
}

/** Start time of a running process; undefined when it is gone or a zombie. */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in parentheses may contain blanks; fields are counted behind it, state first.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

export function isAlive(id: ProcessId | undefined): id is ProcessId {
  return id !== undefined && startTimeOf(id.pid) === id.startTime
}

/** Sends a signal to a process of ours; false when it is gone already. */
export function signal(id: ProcessId | undefined, name: NodeJS.Signals): boolean {
  return isAlive(id) && signalProcess(id.pid, name)
}

function signalProcess(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Waits until a process is gone; false when it is still there after `timeoutMs`. */
export async function waitGone(id: ProcessId, timeoutMs: number): Promise<boolean> {
  return waitFor(() => !isAlive(id), timeoutMs)
}

/** Polls `condition` until it holds; false when it does not within `timeoutMs`. */
export async function waitFor(condition: () => boolean, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs
  while (!condition()) {
    if (Date.now() > deadline) return false
    await sleep(10)
  }
  return true
}
