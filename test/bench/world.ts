import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadNative } from '../../src/ebpf/load-native.js'

/** The checkout; tools/bench starts there. */
export const ROOT = process.cwd()

/** CPUs that clients and servers are bound to; one where there is only one. */
export const CLIENT_CPU = availableParallelism() > 1 ? 1 : 0
export const SERVER_CPU = 0

const open = new Set<World>()
process.on('exit', () => {
  for (const world of open) world.close()
})

/**
 * What one benchmark makes on this machine: network namespaces, cgroups, a bpffs, a
 * folder. Everything is private and goes with it, also when the process ends early.
 */
export class World {
  readonly name: string
  /** Temporary folder. */
  readonly dir: string
  readonly #compiled: string | undefined
  readonly #undo: (() => void)[] = []

  /** `compiled` is a folder in which everything is compiled already ({@link compileTo}). */
  constructor(name: string, compiled?: string) {
    this.name = `waggle-bench-${process.pid}-${name}`
    this.#compiled = compiled
    this.dir = mkdtempSync(join(tmpdir(), `${this.name}-`))
    this.#undo.push(() => rmSync(this.dir, { recursive: true, force: true }))
    open.add(this)
  }

  /** Runs at the end, newest first. */
  later(undo: () => void): void {
    this.#undo.push(undo)
  }

  /** Removes everything; what fails is told, the rest goes on. */
  close(): void {
    open.delete(this)
    for (const undo of this.#undo.splice(0).reverse()) {
      try {
        undo()
      } catch (error) {
        console.error(`bench: cannot remove a part of ${this.name}: ${error instanceof Error ? error.message : error}`)
        process.exitCode = 1
      }
    }
  }

  /** A network namespace; its path. */
  netns(suffix: string): string {
    const name = `${this.name}-${suffix}`
    execFileSync('ip', ['netns', 'add', name])
    this.later(() => execFileSync('ip', ['netns', 'del', name]))
    this.ip(suffix, ['link set lo up'])
    return `/run/netns/${name}`
  }

  /** Name of the namespace with this suffix, for `ip netns`. */
  netnsName(suffix: string): string {
    return `${this.name}-${suffix}`
  }

  ip(suffix: string, batch: readonly string[]): void {
    execFileSync('ip', ['-n', this.netnsName(suffix), '-batch', '-'], { input: batch.join('\n') })
  }

  sysctl(suffix: string, ...settings: readonly string[]): void {
    this.inNetns(suffix, ['sysctl', '-qw', ...settings])
  }

  /** Runs a command in a namespace and returns its output. Throws ETIMEDOUT after `timeout` ms; 0 = never. */
  inNetns(suffix: string, command: readonly string[], input = '', timeout = 0): string {
    const args = [`--net=/run/netns/${this.netnsName(suffix)}`, ...command]
    return execFileSync('nsenter', args, { input, encoding: 'utf8', maxBuffer: 1 << 28, stdio: 'pipe', timeout })
  }

  /** A cgroup of version 2; its path. */
  cgroup(suffix: string): string {
    const path = join(cgroupRoot() ?? '', `${this.name}-${suffix}`)
    mkdirSync(path)
    this.later(() => rmdirRetry(path))
    return path
  }

  /** A bpffs of its own; its path. What is pinned there goes with it. */
  bpffs(name = 'bpffs'): string {
    const path = join(this.dir, name)
    loadNative().mountBpffs(path)
    this.later(() => execFileSync('umount', [path]))
    return path
  }

  /** Compiles a C file of this folder; the program's path. */
  compile(file: string): string {
    return this.#compiled === undefined ? compileTo(this.dir, file) : compiledPath(this.#compiled, file)
  }
}

function compiledPath(dir: string, file: string): string {
  const out = join(dir, file.replace(/\.c$/, ''))
  return file.endsWith('.bpf.c') ? `${out}.o` : out
}

/** Compiles a C file of this folder into another one; the program's path. */
export function compileTo(dir: string, file: string): string {
  const out = compiledPath(dir, file)
  const source = join(ROOT, 'test/bench', file)
  if (!file.endsWith('.bpf.c')) {
    execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-o', out, source])
    return out
  }
  const multiarch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
  const include = multiarch ? [`-I/usr/include/${multiarch}`] : []
  execFileSync('clang', ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', ...include, '-c', source, '-o', out])
  return out
}

/** Processes that were just killed hold their cgroup for a moment. */
function rmdirRetry(path: string): void {
  for (let tries = 0; ; tries++) {
    try {
      rmdirSync(path)
      return
    } catch (error) {
      if (tries >= 100) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
    }
  }
}

function cgroupRoot(): string | undefined {
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n')
  return mounts.map(line => line.split(' ')).find(fields => fields[2] === 'cgroup2')?.[1]
}

/** What every benchmark needs and this machine lacks, or undefined. */
export function missing(): string | undefined {
  if (process.getuid?.() !== 0) return 'root, for BPF programs and network namespaces'
  if (cgroupRoot() === undefined) return 'a mounted cgroup v2'
  if (!existsSync(join(ROOT, 'build/bpf/tc.bpf.o'))) return 'the BPF objects; run `make build`'
  return undefined
}

/** Path of a tool, or undefined when it is not installed. */
export function findTool(name: string): string | undefined {
  const folders = `${process.env.PATH ?? ''}:/usr/sbin:/sbin`.split(':')
  return folders.map(folder => join(folder, name)).find(path => existsSync(path))
}

/** Put before a command: it runs as soon as it can, whatever else the machine does. Empty where chrt is missing. */
export function atOnce(): readonly string[] {
  return findTool('chrt') === undefined ? [] : ['chrt', '--fifo', '1']
}

/** The same for this process while `work` runs. */
export async function runAtOnce<T>(work: () => Promise<T>): Promise<T> {
  if (findTool('chrt') === undefined) return work()
  const set = (policy: '--fifo' | '--other', priority: number) =>
    execFileSync('chrt', ['--all-tasks', policy, '--pid', String(priority), String(process.pid)])
  set('--fifo', 1)
  try {
    return await work()
  } finally {
    set('--other', 0)
  }
}

/** Whether namespaces, cgroups or mounts of a benchmark are on this machine. */
export function leftovers(): string[] {
  const names = existsSync('/run/netns') ? readdirSync('/run/netns') : []
  const cgroups = readdirSync(cgroupRoot() ?? '/nonexistent')
  return [...names, ...cgroups].filter(name => name.startsWith(`waggle-bench-${process.pid}-`))
}
