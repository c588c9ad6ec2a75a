import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pins } from '../../src/dataplane/ebpf/pins.js'
import { maps, service, serviceName } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { encodeEvent } from '../unit/kube-proto-encode.js'
import { FixtureApi, SLICES_PATH } from './fixture-api.js'
import { apiSlice, NODE_NAME } from './generate.js'
import {
  compare,
  interleave,
  plainRow,
  type Results,
  type Row,
  type Sample,
  type Skip,
  type Variant,
} from './result.js'
import { endpointChain, iptablesRules, nftRules } from './rules.js'
import { quantile } from './stats.js'
import { atOnce, findTool, ROOT, World } from './world.js'

const BENCH = 'daemon'
const SERVICES = 10_000
const ENDPOINTS = 10
const ROUNDS = 15
const EVENTS = 10
/** Longer than --min-sync-period, so that each change stands alone. */
const PAUSE_MS = 70
const CHURN_PER_SECOND = 1_000
const CHURN_MS = 1_000
const START_LIMIT_MS = 120_000
/** On a slow machine there are fewer rounds of starts; the result says how many. */
const STARTS_LIMIT_MS = 90_000

/** The bundled agent as a process, fed by an API server on the loopback of its namespace. */
export async function daemon(progress: (line: string) => void): Promise<Results> {
  const world = new World(BENCH)
  const api = new FixtureApi(SERVICES, ENDPOINTS)
  try {
    const node = new Node(world, api)
    progress(`starts with ${SERVICES} Services of ${ENDPOINTS} endpoints: ${ROUNDS} rounds, cold and warm`)
    const starts = await measureStarts(node)
    const agent = await node.start()
    const memory = memoryRows(agent)
    progress(`changes, one by one: ${ROUNDS} rounds of ${EVENTS}`)
    const { rows: changes, skips } = await measureChanges(world, node)
    progress(`${CHURN_PER_SECOND} changes a second: ${ROUNDS} rounds`)
    const churn = await measureChurn(node, agent)
    await agent.end()
    return { rows: [...starts, ...memory, ...changes, ...churn], skips }
  } finally {
    api.close()
    world.close()
  }
}

/** Where the agent runs: everything of it is private. */
class Node {
  readonly api: FixtureApi
  readonly #world: World
  readonly #bpffs: string
  readonly #cgroup: string
  readonly #kubeconfig: string
  readonly #netns: string
  #version = 600_000

  constructor(world: World, api: FixtureApi) {
    this.api = api
    this.#world = world
    this.#netns = world.netns('node')
    this.#bpffs = world.bpffs()
    this.#cgroup = world.cgroup('node')
    this.#kubeconfig = join(world.dir, 'kubeconfig')
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: api.listen(this.#netns) } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }
    writeFileSync(this.#kubeconfig, JSON.stringify(config))
  }

  get pins(): Pins {
    return new Pins(join(this.#bpffs, 'waggle'))
  }

  /** Runs the agent until its first full apply. */
  async start(): Promise<Agent> {
    const flags = {
      'node-name': NODE_NAME,
      source: 'kube',
      kubeconfig: this.#kubeconfig,
      bpffs: this.#bpffs,
      cgroup: this.#cgroup,
      'run-dir': this.#world.dir,
      // Each start is to read the API server.
      'checkpoint-dir': 'none',
      'log-format': 'json',
      // A device that is not there: nothing here arrives as packets.
      devices: 'bench0',
    }
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value])
    const began = performance.now()
    const child = this.#run(['run', ...args], ['ignore', 'ignore', 'pipe'])
    this.#world.later(() => child.kill('SIGKILL'))
    return Agent.untilApplied(child, began)
  }

  /** Milliseconds that the bundle takes to start and end without doing anything. */
  async bareStart(): Promise<number> {
    const began = performance.now()
    await once(this.#run(['version'], 'ignore'), 'exit')
    return performance.now() - began
  }

  async forget(): Promise<void> {
    const child = this.#run(['cleanup', '--bpffs', this.#bpffs, '--run-dir', this.#world.dir], 'ignore')
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`waggle cleanup ended with ${code}`)
  }

  /** An event on the wire: endpoint 3 of Service `i` is not ready any more, or ready again. */
  event(i: number, down: boolean): Buffer {
    return encodeEvent('EndpointSlice', 'MODIFIED', apiSlice(i, ENDPOINTS, down ? 3 : undefined, ++this.#version))
  }

  #run(args: readonly string[], stdio: 'ignore' | ['ignore', 'ignore', 'pipe']): ChildProcess {
    return spawn('nsenter', [`--net=${this.#netns}`, ...atOnce(), join(ROOT, 'bin/waggle'), ...args], { stdio })
  }
}

class Agent {
  /** Milliseconds from the start of the process to the end of the first full apply. */
  readonly ms: number
  readonly writes: number
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, ms: number, writes: number) {
    this.#child = child
    this.ms = ms
    this.writes = writes
  }

  static async untilApplied(child: ChildProcess, began: number): Promise<Agent> {
    if (!child.stderr) throw new TypeError('no standard error')
    const limit = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS)
    const seen: string[] = []
    // What comes later is read, too, so that the agent never waits for us.
    const lines = createInterface(child.stderr)
    try {
      return await new Promise<Agent>((resolve, reject) => {
        lines.on('line', line => {
          seen.push(line)
          const entry = parseLine(line)
          if (entry.first === true) resolve(new Agent(child, performance.now() - began, Number(entry.writes)))
        })
        lines.on('close', () => reject(new Error(`the agent ended early:\n${seen.join('\n')}`)))
      })
    } finally {
      clearTimeout(limit)
    }
  }

  /** CPU milliseconds so far, of all threads. */
  get cpuMs(): number {
    const tasks = `/proc/${this.#child.pid}/task`
    const spent = readdirSync(tasks).map(task =>
      Number(readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ')[0]),
    )
    return spent.reduce((sum, ns) => sum + ns, 0) / 1e6
  }

  /** Bytes of a line of /proc/PID/status. */
  memory(line: 'VmRSS' | 'VmHWM'): number {
    const match = new RegExp(`^${line}:\\s+(\\d+) kB`, 'm').exec(
      readFileSync(`/proc/${this.#child.pid}/status`, 'utf8'),
    )
    return Number(match?.[1]) * 1024
  }

  async end(): Promise<void> {
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await gone
  }
}

function parseLine(line: string): Record<string, unknown> {
  try {
    return JSON.parse(line)
  } catch {
    return {}
  }
}

/** Cold starts and warm ones cannot change places in a round: the second finds what the first left. */
async function measureStarts(node: Node): Promise<Row[]> {
  const bare = '`waggle version`: the bundle alone'
  const kinds = { cold: 'start, empty maps', warm: 'start on what is there' } as const
  const samples = new Map<string, Sample[]>([bare, kinds.cold, kinds.warm].map(what => [what, []]))
  const cpu = { cold: [] as number[], warm: [] as number[] }
  const writes = { cold: [] as number[], warm: [] as number[] }
  const add = (what: string, ms: number) => samples.get(what)?.push({ p50: ms, p99: ms })
  const began = performance.now()
  for (let round = 0; round < ROUNDS && performance.now() - began < STARTS_LIMIT_MS; round++) {
    add(bare, await node.bareStart())
    await node.forget()
    for (const kind of ['cold', 'warm'] as const) {
      const agent = await node.start()
      add(kinds[kind], agent.ms)
      cpu[kind].push(agent.cpuMs)
      writes[kind].push(agent.writes)
      await agent.end()
    }
  }
  if (writes.warm.some(count => count !== 0)) throw new Error('a restart with unchanged state wrote')
  const heading = { bench: BENCH, n: SERVICES }
  return [
    ...compare({ ...heading, unit: 'ms' }, samples, bare).map(({ ratioP99: _, ...row }) => row),
    ...(['cold', 'warm'] as const).flatMap(kind => [
      plainRow({ ...heading, unit: 'ms CPU' }, kinds[kind], cpu[kind]),
      plainRow({ ...heading, unit: 'writes' }, kinds[kind], writes[kind]),
    ]),
  ]
}

function memoryRows(agent: Agent): Row[] {
  const heading = { bench: BENCH, n: SERVICES, unit: 'MB' }
  return [
    plainRow(heading, 'resident after the first apply', [agent.memory('VmRSS') / 1e6]),
    plainRow(heading, 'resident at most until then', [agent.memory('VmHWM') / 1e6]),
  ]
}

/** Sees a Service's list in the kernel's memory, without a system call. */
class ListView {
  readonly #words: BigUint64Array
  readonly #at: number

  constructor(pins: Pins, name: string) {
    const native = loadNative()
    const names = native.openMap(pins.path('maps', maps.svcNames.name))
    const { keys, values, count } = names.entries()
    names.close()
    const keyView = new DataView(keys.buffer, keys.byteOffset)
    const valueView = new DataView(values.buffer, values.byteOffset)
    const found = Array.from({ length: count }, (_, i) => i).find(
      i => serviceName.decode(valueView, i * serviceName.size).name === name,
    )
    if (found === undefined) throw new Error(`no Service ${name} in the maps`)
    const services = native.openMap(pins.path('maps', maps.services.name))
    this.#words = new BigUint64Array(services.mmap())
    this.#at = (keyView.getUint32(found * 4, true) * service.size + service.offsets.cluster) / 8
  }

  get count(): bigint {
    return Atomics.load(this.#words, this.#at) >> 32n
  }

  /** Microseconds from before `send` until the list has `count` members; spins. */
  time(send: () => void, count: bigint, what: string): number {
    // The agent may be done before send() returns: it runs at once.
    const began = process.hrtime.bigint()
    send()
    for (;;) {
      if (this.count === count) return Number(process.hrtime.bigint() - began) / 1e3
      if (process.hrtime.bigint() - began > 5_000_000_000n) throw new Error(`${what} did not arrive within 5 s`)
    }
  }
}

async function measureChanges(world: World, node: Node): Promise<{ rows: Row[]; skips: Skip[] }> {
  const i = SERVICES / 2
  const list = new ListView(node.pins, `svc-${i}`)
  await untilWatched(node)
  let down = false
  const events = async (): Promise<Sample> => {
    const took: number[] = []
    for (let k = 0; k < EVENTS; k++) {
      await sleep(PAUSE_MS)
      down = !down
      const line = node.event(i, down)
      took.push(
        list.time(() => node.api.send(SLICES_PATH, line), BigInt(down ? ENDPOINTS - 1 : ENDPOINTS), 'the change'),
      )
    }
    return { p50: quantile(took, 0.5), p99: quantile(took, 0.99) }
  }
  const ours = 'event at the socket until in the map'
  const { variants, skips } = peers(world, i)
  const samples = await interleave([{ what: ours, run: events }, ...variants], ROUNDS)
  return { rows: compare({ bench: BENCH, n: SERVICES, unit: 'µs' }, samples, ours), skips }
}

async function untilWatched(node: Node): Promise<void> {
  for (let tries = 0; !node.api.isWatched(SLICES_PATH); tries++) {
    if (tries > 500) throw new Error('the agent does not watch')
    await sleep(10)
  }
}

/** The same change through the tools of others, with rules for as many Services: one Service's chain is written anew. */
function peers(world: World, changed: number): { variants: Variant[]; skips: Skip[] } {
  const services = Array.from({ length: SERVICES }, (_, i) => ({
    protocol: 'tcp' as const,
    address: `172.30.${(i + 1) >> 8}.${(i + 1) & 255}`,
    port: 80,
    backends: [`10.0.${(i + 1) >> 8}.${(i + 1) & 255}`],
    backendPort: 8080,
  }))
  const variants: Variant[] = []
  const skips: Skip[] = []
  const add = (
    name: string,
    args: readonly string[],
    load: string,
    change: readonly string[],
    text: (to: string) => string,
  ) => {
    const tool = findTool(name)
    if (tool === undefined) {
      skips.push({ bench: BENCH, what: `one change through ${name}`, why: `${name} is not installed` })
      return
    }
    world.netns(name)
    world.inNetns(name, [tool, ...args], load)
    let flip = false
    variants.push({
      what: `one change through ${name}`,
      run: async () => {
        flip = !flip
        const began = performance.now()
        world.inNetns(name, [...atOnce(), tool, ...change], text(flip ? '10.9.9.9:8080' : '10.9.9.8:8080'))
        const us = (performance.now() - began) * 1e3
        return { p50: us, p99: us }
      },
    })
  }
  add('nft', ['-f', '-'], nftRules(services, { family: 'IPv4' }), ['-f', '-'], to =>
    [
      `flush chain ip kube-proxy endpoint-${changed}-0`,
      `add rule ip kube-proxy endpoint-${changed}-0 meta l4proto tcp dnat to ${to}`,
      '',
    ].join('\n'),
  )
  const chain = endpointChain(changed, 0)
  add('iptables-legacy-restore', [], iptablesRules(services, { family: 'IPv4' }), ['--noflush'], to =>
    ['*nat', `:${chain} - [0:0]`, `-A ${chain} -p tcp -m tcp -j DNAT --to-destination ${to}`, 'COMMIT', ''].join('\n'),
  )
  return { variants, skips }
}

/** What steady changes cost, and whether the agent keeps up. */
async function measureChurn(node: Node, agent: Agent): Promise<Row[]> {
  const last = new ListView(node.pins, 'svc-1')
  const idle: number[] = []
  const busy: number[] = []
  const behind: number[] = []
  let down = false
  for (let round = -1; round < ROUNDS; round++) {
    const idleCpu = await shareOf(agent, () => sleep(CHURN_MS))
    down = !down
    const busyCpu = await shareOf(agent, () => churn(node, round, down))
    const line = node.event(1, down)
    const members = BigInt(down ? ENDPOINTS - 1 : ENDPOINTS)
    const lag = last.time(() => node.api.send(SLICES_PATH, line), members, 'the last of many changes') / 1e3
    if (round < 0) continue
    idle.push(idleCpu)
    busy.push(busyCpu)
    behind.push(lag)
  }
  const heading = { bench: BENCH, n: SERVICES }
  return [
    plainRow({ ...heading, unit: '% of a CPU' }, 'without changes', idle),
    plainRow({ ...heading, unit: '% of a CPU' }, `${CHURN_PER_SECOND} changes a second`, busy),
    plainRow({ ...heading, unit: 'ms' }, 'a change right behind a second of them, until in the map', behind),
    plainRow({ ...heading, unit: 'MB' }, 'resident after all changes', [agent.memory('VmRSS') / 1e6]),
  ]
}

/** Ten milliseconds' events at a time, each of another Service. */
async function churn(node: Node, round: number, down: boolean): Promise<void> {
  const began = performance.now()
  let sent = 0
  while (sent < (CHURN_PER_SECOND * CHURN_MS) / 1_000) {
    const due = Math.min(CHURN_PER_SECOND, Math.floor(((performance.now() - began) / 1_000) * CHURN_PER_SECOND))
    const events: Buffer[] = []
    for (; sent < due; sent++)
      events.push(node.event(2 + ((sent + (round + 1) * CHURN_PER_SECOND) % (SERVICES - 2)), down))
    if (events.length > 0) node.api.send(SLICES_PATH, Buffer.concat(events))
    await sleep(10)
  }
}

/** Percent of a CPU that the agent takes during `work`. */
async function shareOf(agent: Agent, work: () => Promise<unknown>): Promise<number> {
  const [cpu, began] = [agent.cpuMs, performance.now()]
  await work()
  return ((agent.cpuMs - cpu) / (performance.now() - began)) * 100
}
