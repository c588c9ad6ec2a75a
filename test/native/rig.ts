import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfObject, BpfProgram, Native, NativeError } from '../../src/ebpf/native.js'

const CGROUP2_MAGIC = 0x63677270

/** For programs that are bundled elsewhere. */
export const ADDON = join(import.meta.dirname, '../../build/waggle_native.node')

let native: Native | undefined

/** The addon, loaded on first use: a skipped suite does without. */
export function addon(): Native {
  native ??= loadNative()
  return native
}

function cgroupRoot(): string | undefined {
  return ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'].find(
    path => existsSync(path) && statfsSync(path).type === CGROUP2_MAGIC,
  )
}

function missing(): string | undefined {
  if (process.getuid?.() !== 0) return 'root, for BPF and network namespaces'
  if (cgroupRoot() === undefined) return 'a mounted cgroup v2, to attach to'
  try {
    execFileSync('clang', ['--version'], { stdio: 'ignore' })
  } catch {
    return 'clang, which compiles the programs under test'
  }
  return undefined
}

/** `describe` on the real kernel; skipped where that cannot be had, except in CI, where it fails. */
export function describeKernel(name: string, body: () => void): void {
  const lack = missing()
  if (lack === undefined || process.env.CI) describe(name, body)
  else describe.skip(`${name} (needs ${lack})`, body)
}

/** Places of one test file: a folder, a bpffs, namespaces, cgroups; all gone after its tests. */
export class Rig {
  /** Temporary folder. */
  dir = ''
  readonly #undo: (() => void)[] = []
  #names = 0

  constructor() {
    beforeAll(() => {
      this.dir = mkdtempSync(join(tmpdir(), 'waggle-native-'))
      this.#undo.push(() => rmSync(this.dir, { recursive: true, force: true }))
    })
    afterAll(() => {
      for (const undo of this.#undo.reverse()) undo()
    })
  }

  /** Runs after the tests, newest first. */
  later(undo: () => void): void {
    this.#undo.push(undo)
  }

  /** Compiles `NAME.bpf.c` of this folder; the object's path. */
  compile(name: string): string {
    const object = join(this.dir, `${name}.bpf.o`)
    if (existsSync(object)) return object
    const multiarch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
    const flags = ['-O2', '-g', '-Wall', '-Wextra', '-Werror', '-target', 'bpf', '-mcpu=v3']
    const include = multiarch ? [`-I/usr/include/${multiarch}`] : []
    execFileSync('clang', [...flags, ...include, '-c', join(import.meta.dirname, `${name}.bpf.c`), '-o', object])
    return object
  }

  /** The fixture, opened, set up by `prepare` and loaded. */
  fixture(prepare: (object: BpfObject) => void = () => {}): BpfObject {
    const object = addon().openObject(this.compile('fixture'))
    prepare(object)
    object.load()
    return object
  }

  /** A program of the fixture on its own. */
  program(name: string): BpfProgram {
    const object = this.fixture()
    const program = object.program(name)
    object.close()
    return program
  }

  /** An own bpffs below the temporary folder; its path. */
  bpffs(): string {
    const path = join(this.dir, this.#name('bpffs'))
    addon().mountBpffs(path)
    this.#undo.push(() => execFileSync('umount', [path]))
    return path
  }

  /** A network namespace with a veth pair v0, v1 in it; its path. */
  netns(): string {
    const name = this.#name('waggle-native-ns')
    ip('netns', 'add', name)
    this.#undo.push(() => ip('netns', 'del', name))
    ip('-n', name, 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1')
    return `/run/netns/${name}`
  }

  /** A cgroup; its path. */
  cgroup(): string {
    const path = join(cgroupRoot() as string, this.#name('waggle-native-cg'))
    mkdirSync(path)
    this.#undo.push(() => rmdirSync(path))
    return path
  }

  #name(kind: string): string {
    return `${kind}-${process.pid}-${this.#names++}`
  }

  /** Bundles a TypeScript program of this folder, so that plain node runs it; its path. */
  async bundle(name: string): Promise<string> {
    const outfile = join(this.dir, `${name}.mjs`)
    await build({
      entryPoints: [join(import.meta.dirname, `${name}.ts`)],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'warning',
    })
    return outfile
  }
}

function ip(...words: string[]): void {
  execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] })
}

/** How a child ended and what it said. */
export interface Ended {
  readonly status: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command to its end, or for at most `seconds`. */
export function run(
  command: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = {},
  seconds = 50,
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, words, {
      env: { ...process.env, ...env },
      timeout: seconds * 1000,
      killSignal: 'SIGKILL',
    })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', chunk => (stdout += chunk))
    child.stderr.on('data', chunk => (stderr += chunk))
    child.on('error', reject)
    child.on('close', (status, signal) => resolve({ status, signal, stdout, stderr }))
  })
}

/** The error that `call` throws; fails when it throws none. */
export function thrown(call: () => unknown): NativeError & { done?: number } {
  try {
    call()
  } catch (error) {
    return error as NativeError
  }
  throw new Error('the call did not throw')
}

/** A u32 in the machine's byte order (little-endian, as everything that is tested here). */
export function u32(...values: number[]): Uint8Array {
  return new Uint8Array(new Uint32Array(values).buffer)
}

export function u64(...values: bigint[]): Uint8Array {
  return new Uint8Array(new BigUint64Array(values).buffer)
}

/** Index of a device in a namespace. */
export function ifindex(netns: string, name: string): number {
  return addon().inNetns(netns, () => addon().ifNameToIndex(name))
}

/** A file's bytes, for tests that damage them. */
export function bytesOf(path: string): Uint8Array {
  return new Uint8Array(readFileSync(path))
}
