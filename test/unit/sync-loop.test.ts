import { beforeEach, expect, test } from 'vitest'
import type { Logger } from '../../src/base/log.js'
import { type AppliedEvent, SyncLoop } from '../../src/daemon/sync-loop.js'
import type { ApplyReport } from '../../src/dataplane/dataplane.js'
import type { DesiredState, ServicePort } from '../../src/model/desired.js'
import { FakeClock } from './sync-fake-clock.js'

/** A dataplane that follows a script: what fails, how long an apply takes. */
class ScriptedDataplane {
  readonly calls: { at: number; revision: number; changed: string[] | 'all'; prune: boolean }[] = []
  failing = new Set<string>()
  broken: Error | undefined
  takesMs = 0
  running = 0
  readonly #clock: FakeClock

  constructor(clock: FakeClock) {
    this.#clock = clock
  }

  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    expect(++this.running).toBe(1)
    const ids = changed === undefined ? [...desired.services.keys()] : [...changed]
    this.calls.push({
      at: this.#clock.monotonic(),
      revision: desired.revision,
      changed: changed === undefined ? 'all' : ids.sort(),
      prune,
    })
    if (this.takesMs > 0) await new Promise<void>(resolve => this.#clock.after(this.takesMs, resolve))
    this.running--
    if (this.broken) throw this.broken
    const failed = ids.filter(id => this.failing.has(id))
    return {
      revision: desired.revision,
      services: ids.length,
      writes: ids.length - failed.length,
      failed: failed.map(id => ({ id, revision: 0, error: new Error('MAP_FULL') })),
    }
  }

  get last() {
    return this.calls.at(-1)
  }
}

let clock: FakeClock
let dataplane: ScriptedDataplane
let loop: SyncLoop
let lines: { message: string; fields: Record<string, unknown> }[]
let events: AppliedEvent[]
let failures: number

beforeEach(() => {
  clock = new FakeClock()
  dataplane = new ScriptedDataplane(clock)
  lines = []
  events = []
  failures = 0
  const write = (message: string, fields = {}) => void lines.push({ message, fields })
  const logger: Logger = { error: write, warn: write, info: write, debug() {}, child: () => logger }
  loop = new SyncLoop({
    dataplane,
    clock,
    logger,
    minPeriodMs: 50,
    fullPeriodMs: 30_000,
    random: () => 1,
    onApplied: event => void events.push(event),
    onFailed: () => void failures++,
  })
})

const state = (revision: number, ...ids: string[]): DesiredState => ({
  revision,
  services: new Map(ids.map(id => [id, { id } as ServicePort])),
})
const messages = (message: string) => lines.filter(line => line.message === message)

test('nothing is written while Services or EndpointSlices are incomplete', async () => {
  loop.submit(state(1, 'a'), ['a'], 'waiting')
  await clock.advanceAsync(60_000)
  expect(dataplane.calls).toEqual([])
  expect(loop.status).toMatchObject({ readiness: 'waiting', synced: false, appliedRevision: 0 })
})

test('partial input is added without pruning; complete input is compared whole and pruned', async () => {
  loop.submit(state(1, 'a'), ['a'], 'partial')
  await clock.advanceAsync(0)
  expect(dataplane.last).toMatchObject({ changed: 'all', prune: false })
  expect(loop.status.synced).toBe(false)
  loop.submit(state(1, 'a'), [], 'complete')
  await clock.advanceAsync(50)
  expect(dataplane.last).toMatchObject({ changed: 'all', prune: true })
  expect(loop.status.synced).toBe(true)
  expect(messages('applied').map(line => line.fields.first)).toEqual([undefined, true])
})

test('the first complete apply is logged although it wrote nothing; later ones are silent then', async () => {
  loop.submit(state(7), [], 'complete')
  await clock.advanceAsync(0)
  expect(messages('applied').map(line => line.fields)).toEqual([
    { revision: 7, services: 0, writes: 0, ms: 0, first: true },
  ])
  await clock.advanceAsync(120_000)
  expect(dataplane.calls.length).toBeGreaterThan(3)
  expect(lines).toHaveLength(1)
})

async function start(...ids: string[]): Promise<void> {
  loop.submit(state(1, ...ids), ids, 'complete')
  await clock.advanceAsync(1000)
  dataplane.calls.length = 0
  lines.length = 0
}

test('a change after a pause is applied at once, with its ids alone', async () => {
  await start('a', 'b')
  loop.submit(state(2, 'a', 'b'), ['b'], 'complete')
  await clock.advanceAsync(0)
  expect(dataplane.calls).toEqual([{ at: 1000, revision: 2, changed: ['b'], prune: true }])
})

test('churn is coalesced to one apply for each period, the newest state winning', async () => {
  await start('a', 'b')
  for (let i = 0; i < 100; i++) {
    loop.submit(state(2 + i, 'a', 'b'), [i % 2 ? 'a' : 'b'], 'complete')
    await clock.advanceAsync(5)
  }
  await clock.advanceAsync(100)
  expect(dataplane.calls.length).toBeLessThanOrEqual(11)
  expect(dataplane.last).toMatchObject({ revision: 101 })
  const gaps = dataplane.calls.slice(1).map((call, i) => call.at - (dataplane.calls[i]?.at ?? 0))
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(50)
})

test('changes during an apply are taken by the next; applies never overlap', async () => {
  await start('a', 'b')
  dataplane.takesMs = 200
  loop.submit(state(2, 'a', 'b'), ['a'], 'complete')
  await clock.advanceAsync(20)
  loop.submit(state(3, 'a', 'b'), ['b'], 'complete')
  await clock.advanceAsync(1000)
  expect(dataplane.calls.map(call => [call.at, call.changed])).toEqual([
    [1000, ['a']],
    [1200, ['b']],
  ])
})

test('one failing Service is tried again with growing pauses while others go on', async () => {
  await start('a', 'b')
  dataplane.failing.add('a')
  loop.submit(state(2, 'a', 'b'), ['a'], 'complete')
  await clock.advanceAsync(0)
  loop.submit(state(3, 'a', 'b'), ['b'], 'complete')
  await clock.advanceAsync(60)
  expect(dataplane.calls.map(call => call.changed)).toEqual([['a'], ['b']])
  expect([...loop.status.failed]).toEqual([['a', 'MAP_FULL']])

  dataplane.calls.length = 0
  await clock.advanceAsync(3000)
  const retries = dataplane.calls.map(call => call.at)
  const pauses = retries.slice(1).map((at, i) => at - (retries[i] ?? 0))
  expect(pauses.length).toBeGreaterThan(2)
  expect([...pauses].sort((x, y) => x - y)).toEqual(pauses)
  expect(messages('cannot apply service; what the kernel had for it stays')).toHaveLength(1)

  dataplane.failing.clear()
  await clock.advanceAsync(10_000)
  expect(loop.status.failed.size).toBe(0)
  expect(messages('service no longer fails')).toHaveLength(1)
})

test('churn of others does not put off the retry of a failed Service', async () => {
  await start('a', 'b')
  dataplane.failing.add('a')
  loop.submit(state(2, 'a', 'b'), ['a'], 'complete')
  await clock.advanceAsync(10)
  for (let i = 3; i < 100; i++) {
    loop.submit(state(i, 'a', 'b'), ['b'], 'complete')
    await clock.advanceAsync(50)
  }
  expect(dataplane.calls.filter(call => call.changed.includes('a')).length).toBeGreaterThan(4)
})

test('a new change of a failed Service does not wait for the retry', async () => {
  await start('a')
  dataplane.failing.add('a')
  loop.submit(state(2, 'a'), ['a'], 'complete')
  await clock.advanceAsync(5000)
  dataplane.failing.clear()
  dataplane.calls.length = 0
  loop.submit(state(3, 'a'), ['a'], 'complete')
  await clock.advanceAsync(0)
  expect(dataplane.last).toMatchObject({ changed: ['a'], revision: 3 })
  expect(loop.status.failed.size).toBe(0)
})

test('an apply that fails as a whole loses no id and is not hammered by new changes', async () => {
  await start('a', 'b')
  dataplane.broken = new Error('bpffs is gone')
  loop.submit(state(2, 'a', 'b'), ['a'], 'complete')
  await clock.advanceAsync(10)
  for (let i = 3; i < 200; i++) {
    loop.submit(state(i, 'a', 'b'), ['b'], 'complete')
    await clock.advanceAsync(50)
  }
  expect(dataplane.calls.length).toBeLessThan(12)
  expect(loop.status).toMatchObject({ error: 'bpffs is gone', appliedRevision: 1 })
  expect(messages('apply failed; the kernel keeps what it has')).toHaveLength(1)
  expect(failures).toBe(dataplane.calls.length)

  dataplane.broken = undefined
  await clock.advanceAsync(10_000)
  expect(loop.status).toMatchObject({ error: undefined, appliedRevision: 199, pendingSince: undefined })
  expect(dataplane.calls.some(call => call.revision === 199 && call.changed.includes('a'))).toBe(true)
})

test('a full compare that failed is full again', async () => {
  dataplane.broken = new Error('no')
  loop.submit(state(1, 'a'), ['a'], 'complete')
  await clock.advanceAsync(0)
  dataplane.broken = undefined
  await clock.advanceAsync(1000)
  expect(dataplane.last).toMatchObject({ changed: 'all', prune: true })
  expect(events.map(event => event.first)).toEqual([true])
})

test('everything is compared once a period', async () => {
  await start('a')
  await clock.advanceAsync(90_000)
  expect(dataplane.calls.map(call => call.changed)).toEqual(['all', 'all', 'all'])
})

test('the oldest change that waits is known, also while it is being applied', async () => {
  await start('a')
  dataplane.takesMs = 500
  const reported = clock.wall()
  loop.submit(state(2, 'a'), ['a'], 'complete')
  await clock.advanceAsync(100)
  loop.submit(state(3, 'a'), ['a'], 'complete')
  expect(loop.status.pendingSince).toEqual(reported)
  await clock.advanceAsync(2000)
  expect(loop.status.pendingSince).toBeUndefined()
})

test('stop waits for a running apply and lets none follow', async () => {
  await start('a')
  dataplane.takesMs = 500
  loop.submit(state(2, 'a'), ['a'], 'complete')
  await clock.advanceAsync(10)
  let stopped = false
  const stopping = loop.stop().then(() => {
    stopped = true
  })
  await clock.advanceAsync(100)
  expect(stopped).toBe(false)
  loop.submit(state(3, 'a'), ['a'], 'complete')
  await clock.advanceAsync(60_000)
  await stopping
  expect(dataplane.calls).toHaveLength(1)
  expect(clock.pending).toBe(0)
})
