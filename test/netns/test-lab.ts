import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  cpSync,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { apply } from '../../tools/labkit/apply.js'
import { down } from '../../tools/labkit/down.js'
import type { Lab } from '../../tools/labkit/lab.js'
import type { LoadResult } from '../../tools/labkit/load/tally.js'
import type { LoadMode } from '../../tools/labkit/load/target.js'
import { missing } from '../../tools/labkit/requirements.js'
import { inRoot } from '../../tools/labkit/root.js'
import { up } from '../../tools/labkit/up.js'

/**
 * Why the tests of this tier cannot run here; empty = they can. Where CI is set nothing
 * may be missing: the tests run, and fail with the reason.
 */
export const CANNOT_RUN = process.env.CI
  ? ''
  : [
      ...missing(),
      ...['build/waggle.mjs', 'build/waggle_native.node', 'build/bpf/tc.bpf.o']
        .filter(file => !existsSync(inRoot(file)))
        .map(file => `${file}: run make build`),
    ].join('; ')

/** Title of a suite that says why it is skipped, if it is. */
export const titled = (title: string) => (CANNOT_RUN ? `${title} (skipped: ${CANNOT_RUN})` : title)

export interface LoadFlags {
  readonly mode?: LoadMode
  readonly count?: number
  readonly seconds?: number
  readonly concurrency?: number
  readonly interval?: number
  readonly timeout?: number
  readonly bytes?: number
  readonly rate?: number
}

/** A line of an agent's JSON log. */
export interface LogLine {
  readonly level: string | number
  readonly msg: string
  readonly [field: string]: unknown
}

/** Load that runs until it is stopped. */
export interface RunningLoad {
  /** Resolves at the first answer: traffic flows. Rejects when there is none. */
  readonly answered: Promise<void>
  stop(): Promise<LoadResult>
}

/** A lab of a test file. Its name carries the process number, so files do not meet. */
export class TestLab {
  readonly lab: Lab
  readonly #dir: string
  #manifests = ''
  readonly #logs = new Map<string, { offset: number; readonly lines: LogLine[] }>()

  protected constructor(lab: Lab, dir: string) {
    this.lab = lab
    this.#dir = dir
  }

  /** `agentFlags` go to every agent; the lab begins with the given objects. */
  static async up(
    options: { objects?: object[]; agentFlags?: string[]; agents?: boolean; dataplane?: string } = {},
  ): Promise<TestLab> {
    const dir = mkdtempSync(path.join(tmpdir(), 'waggle-netns-'))
    const text = yaml(options.objects ?? [])
    writeFileSync(path.join(dir, 'test.yaml'), text)
    try {
      const lab = await up({
        name: labName(),
        nodes: 2,
        dataplane: options.dataplane ?? 'ebpf',
        source: 'dir',
        manifests: dir,
        agents: options.agents ?? true,
        agentFlags: options.agentFlags ?? [],
        progress: () => {},
      })
      const test = new TestLab(lab, dir)
      test.#manifests = text
      return test
    } catch (error) {
      rmSync(dir, { recursive: true })
      throw error
    }
  }

  async down(): Promise<void> {
    await down(this.lab.names.lab)
    rmSync(this.#dir, { recursive: true, force: true })
  }

  /** Runs a command in a host to its end. */
  async exec(
    host: string,
    command: readonly string[],
    input = '',
  ): Promise<{ code: number; out: string; err: string }> {
    const child = this.lab.spawn(host, command, { stdio: 'pipe' })
    child.stdin?.on('error', () => {
      // The command ended without reading; its status tells.
    })
    child.stdin?.end(input)
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    return { code: code as number, out, err }
  }

  /** Starts load that goes on until `stop`, or until its count or seconds are used up. */
  startLoad(host: string, target: string, flags: LoadFlags = {}): RunningLoad {
    const command = [...loadCommand(target, { seconds: 300, ...flags }), '--announce']
    const child = this.lab.spawn(host, command, { stdio: ['ignore', 'pipe', 'pipe'] })
    const result = loadResult(child)
    const answered = new Promise<void>((resolve, reject) => {
      child.stderr?.once('data', () => resolve())
      child.once('close', () => reject(new Error(`${target} never answered ${host}`)))
    })
    for (const promise of [result, answered]) {
      promise.catch(() => {
        // Told to whoever waits; a test that failed before has been told enough.
      })
    }
    return {
      answered,
      stop: async () => {
        child.kill('SIGINT')
        return result
      },
    }
  }

  /** Runs load to its end. */
  load(host: string, target: string, flags: LoadFlags = {}): Promise<LoadResult> {
    return loadResult(this.lab.spawn(host, loadCommand(target, flags), { stdio: ['ignore', 'pipe', 'pipe'] }))
  }

  /** Makes these objects the only ones and waits until every running agent has applied the change. */
  async apply(objects: object[]): Promise<void> {
    if (yaml(objects) === this.#manifests) return
    const nodes = this.lab.plan.nodes.map(node => node.name)
    const before = new Map(nodes.map(node => [node, this.applied(node).length]))
    await this.replaceManifests(objects)
    const done = () => nodes.every(node => this.applied(node).length > (before.get(node) as number))
    const deadline = Date.now() + 10_000
    while (!done()) {
      if (Date.now() > deadline) throw new Error(`a change was not applied in 10 s:\n${this.lab.logTail('node-a', 20)}`)
      await sleep(5)
    }
  }

  /** A folder with these objects and the Nodes, which no agent reads; it goes with the lab. */
  folder(objects: object[]): string {
    const folder = mkdtempSync(path.join(this.#dir, 'folder-'))
    cpSync(this.lab.names.manifests, folder, { recursive: true })
    writeFileSync(path.join(folder, 'test.yaml'), yaml(objects))
    return folder
  }

  /** Makes these objects the only ones; agents that run apply them some time later. */
  async replaceManifests(objects: object[]): Promise<void> {
    this.#manifests = yaml(objects)
    writeFileSync(path.join(this.#dir, 'test.yaml'), this.#manifests)
    await apply(this.lab, this.#dir)
  }

  /** The log of a node's agent so far. Only what is new is read: some tests look every few milliseconds. */
  log(node: string): readonly LogLine[] {
    const seen = this.#logs.get(node) ?? { offset: 0, lines: [] }
    this.#logs.set(node, seen)
    const file = openSync(this.lab.names.log(node), 'r')
    try {
      const fresh = Buffer.alloc(fstatSync(file).size - seen.offset)
      readSync(file, fresh, 0, fresh.length, seen.offset)
      const whole = fresh.subarray(0, fresh.lastIndexOf('\n') + 1)
      seen.offset += whole.length
      for (const line of whole.toString().split('\n').filter(Boolean)) {
        seen.lines.push(line.startsWith('{') ? JSON.parse(line) : { level: 'raw', msg: line })
      }
    } finally {
      closeSync(file)
    }
    return seen.lines
  }

  /** Its lines about what was written to the kernel. */
  applied(node: string): LogLine[] {
    return this.log(node).filter(line => line.msg === 'applied')
  }

  /** Rows of `waggle show WHAT -o json` for a node. */
  async show(node: string, what: string): Promise<Record<string, unknown>[]> {
    const command = [inRoot('bin/waggle'), 'show', what, '-o', 'json', '--bpffs', this.lab.names.bpffs(node)]
    const { code, out, err } = await this.exec(node, command)
    if (code !== 0) throw new Error(`${command.join(' ')}: exit status ${code}: ${err}`)
    const parsed = JSON.parse(out)
    return Array.isArray(parsed) ? parsed : parsed[what]
  }
}

/** The name of this process's lab; `suffix` for a second one. */
export function labName(suffix = ''): string {
  return `t${process.pid}${suffix}`
}

function yaml(objects: object[]): string {
  // JSON is YAML; one document each, so that a message names the line.
  return objects.map(object => `${JSON.stringify(object)}\n`).join('---\n')
}

function loadCommand(target: string, flags: LoadFlags): string[] {
  const options = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, String(value)])
  return [process.execPath, inRoot('build/lab.mjs'), 'load-here', target, ...options]
}

async function loadResult(child: ChildProcess): Promise<LoadResult> {
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (!out) throw new Error(`load gave no result: ${err}`)
  return JSON.parse(out) as LoadResult
}

async function text(stream: NodeJS.ReadableStream | null): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream ?? []) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
