import type { EbpfDataplane } from '../../src/dataplane/ebpf/ebpf-dataplane.js'
import { convert } from '../../src/k8s/convert.js'
import type { SourceEvent, WatchedKind } from '../../src/model/objects.js'
import { Planner } from '../../src/plan/planner.js'
import { Store } from '../../src/state/store.js'
import { applyAll, DEFAULT_LIMITS, makeDataplane, type Place, startDataplane } from './dataplane.js'
import { apiNode, apiService, apiSlice, listPages, NODE_NAME } from './generate.js'
import { compare, interleave, plainRow, type Results, type Row, type Sample } from './result.js'
import { quantile } from './stats.js'
import { runAtOnce, World } from './world.js'

const BENCH = 'control'
const SERVICES = 10_000
const FEW_SERVICES = 10
const ENDPOINTS = 10
const PAGE = 500
const SYNC_ROUNDS = 15
/** On a slow machine there are fewer rounds; the result says how many. */
const SYNC_LIMIT_MS = 100_000
const CHANGE_ROUNDS = 21
const CHANGES = 200

/** The way from API objects to the maps, in one process, without a connection in between. */
export async function control(progress: (line: string) => void): Promise<Results> {
  const world = new World(BENCH)
  try {
    progress(`full sync of ${SERVICES} Services with ${ENDPOINTS} endpoints each, and a restart: ${SYNC_ROUNDS} rounds`)
    const sync = await fullSync(world)
    progress(`one endpoint changes: ${CHANGE_ROUNDS} rounds of ${CHANGES}`)
    return { rows: [...sync, ...(await runAtOnce(() => oneChange(world)))], skips: [] }
  } finally {
    world.close()
  }
}

/** What an agent has between source and dataplane. */
class Pipeline {
  readonly #store = new Store()
  readonly #planner = new Planner({ nodeName: NODE_NAME, nodePortAddresses: ['primary'], defaultScheduler: 'random' })

  take(events: readonly SourceEvent[]) {
    return this.#store.apply(events)
  }

  plan(change: ReturnType<Store['apply']>) {
    return this.#planner.update(this.#store, change)
  }
}

interface Page {
  readonly kind: WatchedKind
  readonly text: string
}

function pagesOf(services: number): Page[] {
  const indexes = Array.from({ length: services }, (_, i) => i)
  const list = (kind: WatchedKind, apiVersion: string, items: readonly object[]) =>
    listPages(kind, apiVersion, items, PAGE).map(text => ({ kind, text }))
  return [
    ...list('Service', 'v1', indexes.map(apiService)),
    ...list(
      'EndpointSlice',
      'discovery.k8s.io/v1',
      indexes.map(i => apiSlice(i, ENDPOINTS)),
    ),
    ...list('Node', 'v1', [apiNode()]),
  ]
}

function parse({ text }: Page): readonly unknown[] {
  return JSON.parse(text).items
}

/** As a source delivers a first list. */
function eventsOf(kind: WatchedKind, raw: readonly unknown[]): SourceEvent[] {
  return raw.map(each => {
    const { object, problems } = convert(kind, each)
    if (object === undefined) throw new Error(JSON.stringify(problems))
    return { type: 'upsert', object }
  })
}

const SYNCED: readonly SourceEvent[] = (['Service', 'EndpointSlice', 'Node'] as const).map(kind => ({
  type: 'synced',
  kind,
}))

const JSON_ALONE = 'JSON.parse of the lists alone'

async function fullSync(world: World): Promise<Row[]> {
  const place = { bpffs: world.bpffs(), cgroup: world.cgroup('sync') }
  const pages = pagesOf(SERVICES)
  const samples = new Map<string, Sample[]>()
  const exact = new Map<string, number[]>()
  const began = performance.now()
  for (let round = -1; round < SYNC_ROUNDS && performance.now() - began < SYNC_LIMIT_MS; round++) {
    globalThis.gc?.()
    const times = await syncOnce(place, pages)
    if (round < 0) continue
    for (const [what, ms] of Object.entries(times.ms)) push(samples, what, { p50: ms, p99: ms })
    for (const [what, count] of Object.entries(times.counts)) push(exact, what, count)
  }
  const bytes = pages.reduce((sum, page) => sum + page.text.length, 0)
  const heading = { bench: BENCH, n: SERVICES }
  return [
    ...compare({ ...heading, unit: 'ms CPU' }, samples, JSON_ALONE).map(({ ratioP99: _, ...row }) => row),
    ...[...exact].map(([what, counts]) => plainRow({ ...heading, unit: 'writes' }, what, counts)),
    plainRow({ ...heading, unit: 'MB' }, 'size of the lists as JSON', [bytes / 1e6]),
  ]
}

/** Cold maps, everything at once; then a second run on what the first one left. */
async function syncOnce(place: Place, pages: readonly Page[]) {
  const watch = new StopWatch()
  for (const page of pages) parse(page)
  const alone = watch.lap()
  globalThis.gc?.()
  watch.lap()
  const dataplane = makeDataplane(place, DEFAULT_LIMITS)
  await dataplane.start()
  const start = watch.lap()
  const raw = pages.map(page => ({ kind: page.kind, items: parse(page) }))
  const parsed = watch.lap()
  const events = raw.flatMap(({ kind, items }) => eventsOf(kind, items))
  const converted = watch.lap()
  const pipeline = new Pipeline()
  const change = pipeline.take([...events, ...SYNCED])
  const stored = watch.lap()
  const { state } = pipeline.plan(change)
  const planned = watch.lap()
  const writes = await applyAll(dataplane, state)
  const applied = watch.lap()
  await dataplane.stop()
  globalThis.gc?.()
  watch.lap()
  const again = makeDataplane(place, DEFAULT_LIMITS)
  await again.start()
  const adopted = watch.lap()
  const rewrites = await applyAll(again, state)
  const compared = watch.lap()
  if (rewrites !== 0) throw new Error(`a restart with unchanged state wrote ${rewrites} entries`)
  await again.cleanup()
  return {
    ms: {
      [JSON_ALONE]: alone,
      'full sync, all stages': parsed + converted + stored + planned + applied,
      '- parse': parsed,
      '- convert': converted,
      '- store': stored,
      '- plan': planned,
      '- apply to empty maps': applied,
      'start: load and attach': start,
      'restart: load, adopt and attach': adopted,
      'restart: apply of the same state': compared,
    },
    counts: { 'full sync': writes, 'restart with unchanged state': rewrites },
  }
}

/** A loaded agent's middle, and a change that it takes again and again. */
class Loaded {
  readonly #pipeline = new Pipeline()
  readonly #dataplane: EbpfDataplane
  readonly #changes: readonly string[]
  #next = 0
  writes = 0
  changes = 0

  private constructor(dataplane: EbpfDataplane, services: number) {
    this.#dataplane = dataplane
    // An endpoint of a Service in the middle is not ready, and ready again, and so on.
    const i = Math.floor(services / 2)
    this.#changes = [3, undefined].map(down => JSON.stringify(apiSlice(i, ENDPOINTS, down)))
  }

  static async create(world: World, bpffs: string, name: string, services: number): Promise<Loaded> {
    const place = { bpffs, cgroup: world.cgroup(name) }
    const loaded = new Loaded(await startDataplane(world, place, DEFAULT_LIMITS), services)
    const events = pagesOf(services).flatMap(page => eventsOf(page.kind, parse(page)))
    const { state } = loaded.#pipeline.plan(loaded.#pipeline.take([...events, ...SYNCED]))
    await applyAll(loaded.#dataplane, state)
    return loaded
  }

  /** From the event's text to the maps; microseconds. */
  async change(): Promise<number> {
    const text = this.#changes[this.#next++ % this.#changes.length] as string
    const began = process.hrtime.bigint()
    const change = this.#pipeline.take(eventsOf('EndpointSlice', [JSON.parse(text)]))
    const { state, changed } = this.#pipeline.plan(change)
    const { writes, failed } = await this.#dataplane.apply(state, changed, true)
    const took = Number(process.hrtime.bigint() - began) / 1e3
    if (failed.length > 0 || writes === 0) throw new Error('the change did not arrive')
    this.writes += writes
    this.changes++
    return took
  }

  /** Parsing alone, as a floor. */
  parse(): number {
    const text = this.#changes[0] as string
    const began = process.hrtime.bigint()
    JSON.parse(text)
    return Number(process.hrtime.bigint() - began) / 1e3
  }
}

async function oneChange(world: World): Promise<Row[]> {
  const few = await Loaded.create(world, world.bpffs('few'), 'few', FEW_SERVICES)
  const many = await Loaded.create(world, world.bpffs('many'), 'many', SERVICES)
  globalThis.gc?.()
  const sample = async (step: () => number | Promise<number>): Promise<Sample> => {
    const took: number[] = []
    for (let i = 0; i < CHANGES; i++) took.push(await step())
    return { p50: quantile(took, 0.5), p99: quantile(took, 0.99) }
  }
  const base = `one endpoint changes, ${FEW_SERVICES} Services`
  const samples = await interleave(
    [
      { what: base, run: () => sample(() => few.change()) },
      { what: `one endpoint changes, ${SERVICES} Services`, run: () => sample(() => many.change()) },
      { what: '- JSON.parse of the event alone', run: () => sample(() => many.parse()) },
    ],
    CHANGE_ROUNDS,
  )
  const p99 = samples.get(`one endpoint changes, ${SERVICES} Services`)?.map(each => each.p99) ?? []
  return [
    ...compare({ bench: BENCH, unit: 'µs' }, samples, base),
    plainRow({ bench: BENCH, unit: 'µs', n: SERVICES }, 'one endpoint changes, 99th percentile', p99),
    plainRow({ bench: BENCH, unit: 'writes', n: SERVICES }, 'one endpoint changes', [many.writes / many.changes]),
  ]
}

/** Processor time: on a busy machine other processes' turns do not count. */
class StopWatch {
  #at = process.cpuUsage()

  /** Milliseconds since the last lap, of all threads: the garbage collector's, too. */
  lap(): number {
    const { user, system } = process.cpuUsage(this.#at)
    this.#at = process.cpuUsage()
    return (user + system) / 1e3
  }
}

function push<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list) list.push(value)
  else lists.set(key, [value])
}
