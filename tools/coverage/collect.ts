/**
 * Set-up of every test file under `make coverage`: objects of build/bpf/ are opened in
 * their version with counters, and what was counted is written down at the end of the file.
 * The addon is changed from outside, so neither production code nor tests know of it.
 */
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll } from 'vitest'
import { toBytes, u32 } from '../../src/ebpf/codec.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfMap, BpfObject } from '../../src/ebpf/native.js'
import { COUNTERS_SECTION } from './instrument.js'

/** Where the objects are, and where the counts go. */
const { WAGGLE_COVERAGE_OBJECTS: objects = '', WAGGLE_COVERAGE_COUNTS: counts = '' } = process.env

/** Counters outlive their object: its programs may be pinned or attached. */
const counters: { readonly object: string; readonly map: BpfMap }[] = []

const native = loadNative()
const openObject = native.openObject
Object.assign(native, {
  openObject(path: string): BpfObject {
    const name = basename(path)
    const counting = join(objects, name)
    if (!/build\/bpf\/[^/]+$/.test(path) || !existsSync(counting)) return openObject(path)
    const object = openObject(counting)
    const load = object.load.bind(object)
    const value = () => {
      load()
      counters.push({ object: name, map: object.map(COUNTERS_SECTION) })
    }
    // Methods of the addon are not writable.
    Object.defineProperty(object, 'load', { value })
    return object
  },
})

afterAll(() => {
  const sums = new Map<string, bigint[]>()
  for (const { object, map } of counters) {
    const bytes = map.lookup(toBytes(u32, 0)) ?? new Uint8Array()
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const sum = sums.get(object) ?? Array.from({ length: bytes.length / 8 }, () => 0n)
    sums.set(
      object,
      sum.map((each, i) => each + view.getBigUint64(i * 8, true)),
    )
    map.close()
  }
  const text = JSON.stringify([...sums].map(([object, sum]) => ({ object, counts: sum.map(String) })))
  if (sums.size > 0) writeFileSync(join(counts, `${randomUUID()}.json`), text)
})
