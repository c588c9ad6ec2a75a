import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Clock } from '../../src/base/clock.js'
import type { LogFields, Logger } from '../../src/base/log.js'
import { Checkpoint } from '../../src/daemon/checkpoint.js'
import { convert } from '../../src/k8s/convert.js'
import type { WatchedObject } from '../../src/model/objects.js'
import { equalData } from '../../src/state/equal.js'
import { apiNode, apiService, apiSlice } from '../bench/generate.js'

const owner = { node: 'node-a', source: 'kube:https://10.0.0.1:6443' }
const objects = [
  convert('Service', apiService(1)),
  convert('EndpointSlice', apiSlice(1, 10)),
  convert('Node', apiNode()),
].map(({ object }) => object as WatchedObject)

let dir: string
let file: string
let logged: { msg: string; fields: LogFields | undefined }[]
let now: number
let timers: { at: number; run: () => void }[]

const clock: Clock = {
  monotonic: () => now,
  wall: () => new Date(1_800_000_000_000 + now),
  after(ms, run) {
    const timer = { at: now + ms, run }
    timers.push(timer)
    return () => {
      timers = timers.filter(other => other !== timer)
    }
  },
}
const note = (msg: string, fields?: LogFields) => logged.push({ msg, fields })
const log: Logger = { error: note, warn: note, info: note, debug: () => {}, child: () => log }

const make = (who = owner, where = dir) => new Checkpoint({ dir: where, owner: who, clock, logger: log })
/** Lets time pass, then waits until what that began is written. */
async function pass(ms: number): Promise<void> {
  now += ms
  const due = timers.filter(timer => timer.at <= now)
  timers = timers.filter(timer => timer.at > now)
  for (const { run } of due) run()
  await new Promise(resolve => setTimeout(resolve, 100))
}

beforeEach(() => {
  dir = path.join(mkdtempSync(path.join(tmpdir(), 'waggle-checkpoint-')), 'state')
  file = path.join(dir, 'node-a.checkpoint.gz')
  logged = []
  now = 0
  timers = []
})
afterEach(() => rmSync(path.dirname(dir), { recursive: true, force: true }))

async function written(): Promise<void> {
  const checkpoint = make()
  checkpoint.changed(() => objects)
  await checkpoint.stop()
}

test('what was written is read again', async () => {
  await written()
  expect(equalData(await make().read(), objects)).toBe(true)
  expect(logged.map(({ msg }) => msg)).toEqual(['read the checkpoint'])
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readdirSync(dir)).toEqual(['node-a.checkpoint.gz'])
})

test('none is there: nothing, and not a word', async () => {
  expect(await make().read()).toEqual([])
  expect(logged).toEqual([])
})

describe('not used, with the reason', () => {
  const reason = () => logged.at(-1)?.fields?.reason
  const changed = (how: (text: string) => string) =>
    writeFileSync(file, gzipSync(how(gunzipSync(readFileSync(file)).toString())))

  test.each([
    { what: 'a changed byte', how: (text: string) => text.replace('172.30', '172.31'), says: 'its checksum is wrong' },
    {
      what: 'another format',
      how: (text: string) => text.replace('"checkpoint":1', '"checkpoint":7'),
      says: 'it is of format 7, and this version reads 1',
    },
    { what: 'no last line', how: (text: string) => text.slice(0, -90), says: 'it is cut short or no checkpoint' },
    { what: 'text', how: () => 'hello', says: 'it is cut short' },
    { what: 'lines', how: () => 'hello\nworld\n', says: 'it is cut short or no checkpoint' },
    { what: 'nothing', how: () => '', says: 'it is cut short' },
  ])('$what', async ({ how, says }) => {
    await written()
    changed(how)
    expect(await make().read()).toEqual([])
    expect(logged.at(-1)?.msg).toBe('the checkpoint is not used; Services wait for the API server')
    expect(reason()).toBe(says)
  })

  test('a packed file that is cut or no such file', async () => {
    await written()
    const bytes = readFileSync(file)
    for (let length = 0; length < bytes.length; length += 7) {
      writeFileSync(file, bytes.subarray(0, length))
      expect(await make().read()).toEqual([])
    }
    writeFileSync(file, 'hello')
    expect(await make().read()).toEqual([])
    expect(reason()).toBe('incorrect header check')
  })

  test("another cluster's", async () => {
    await written()
    expect(await make({ ...owner, source: 'kube:https://192.0.2.9' }).read()).toEqual([])
    expect(reason()).toBe('it is of the source kube:https://10.0.0.1:6443, not kube:https://192.0.2.9')
  })
})

test('five seconds after the first change, then once a minute at most', async () => {
  const checkpoint = make()
  let reads = 0
  const state = () => {
    reads++
    return objects
  }
  checkpoint.changed(state)
  await pass(4_999)
  expect(existsSync(file)).toBe(false)
  await pass(1)
  expect(reads).toBe(1)
  for (let i = 0; i < 50; i++) {
    checkpoint.changed(state)
    await pass(i === 0 ? 59_000 : 0)
  }
  expect(reads).toBe(1)
  await pass(1_000)
  expect(reads).toBe(2)
  await pass(600_000)
  expect(reads).toBe(2)
  await checkpoint.stop()
  expect(reads).toBe(2)
})

test('a folder that cannot be written: said once, tried again, and said when it works', async () => {
  writeFileSync(dir, 'a file')
  const checkpoint = make()
  checkpoint.changed(() => objects)
  await pass(5_000)
  await pass(60_000)
  await pass(60_000)
  expect(logged.map(({ msg }) => msg)).toEqual(['the checkpoint cannot be written'])
  expect(logged[0]?.fields).toMatchObject({ remedy: 'make the directory writable, or set --checkpoint-dir none' })
  rmSync(dir)
  await pass(60_000)
  expect(logged.at(-1)?.msg).toBe('the checkpoint can be written again')
  expect(await make().read()).toEqual(objects)
  await checkpoint.stop()
})

test('10,000 Services with 10 endpoints each: the size, and the loop goes on meanwhile', async () => {
  const many = Array.from({ length: 10_000 }, (_, i) => [
    convert('Service', apiService(i)).object as WatchedObject,
    convert('EndpointSlice', apiSlice(i, 10)).object as WatchedObject,
  ]).flat()
  const checkpoint = make()
  checkpoint.changed(() => many)
  let longest = 0
  let last = performance.now()
  const beat = setInterval(() => {
    longest = Math.max(longest, performance.now() - last)
    last = performance.now()
  }, 1)
  await checkpoint.stop()
  clearInterval(beat)
  const { size } = statSync(file)
  expect(size).toBeLessThan(2_000_000)
  // One piece of 64 kB takes about a millisecond; a loaded machine stretches that.
  expect(longest).toBeLessThan(250)
  expect(await make().read()).toHaveLength(20_000)
})
