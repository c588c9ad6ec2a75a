import { expect, test } from 'vitest'
import type { BpfMap } from '../../src/ebpf/native.js'
import { MapType } from './kernel-enums.js'
import { addon, describeKernel, thrown, u32, u64 } from './rig.js'

const NO_PREALLOC = 1

function create(type: number, valueSize: number, maxEntries: number, flags = 0, keySize = 4): BpfMap {
  return addon().createMap({ type, name: 'waggle_batch', keySize, valueSize, maxEntries, flags })
}

/** Keys 0 to count - 1 and for each a value of `size` bytes that repeats the key's lowest byte. */
function sample(count: number, size: number): { keys: Uint8Array; values: Uint8Array } {
  const keys = new Uint8Array(new Uint32Array(Array.from({ length: count }, (_, i) => i)).buffer)
  const values = new Uint8Array(count * size)
  for (let i = 0; i < count; i++) values.fill(i & 0xff, i * size, (i + 1) * size)
  return { keys, values }
}

/** Entries as a table from key to the value in hex. */
function table(entries: { keys: Uint8Array; values: Uint8Array; count: number }): Map<number, string> {
  const keys = new Uint32Array(entries.keys.slice().buffer)
  const size = entries.values.length / Math.max(entries.count, 1)
  return new Map(
    Array.from(keys, (key, i) => [key, Buffer.from(entries.values.subarray(i * size, (i + 1) * size)).toString('hex')]),
  )
}

describeKernel('batches', () => {
  test.each([
    { name: 'hash', type: MapType.hash, entries: 10_000, flags: 0 },
    { name: 'hash without preallocation', type: MapType.hash, entries: 10_000, flags: NO_PREALLOC },
    { name: 'LRU hash', type: MapType.lruHash, entries: 10_000, flags: 0 },
    { name: 'per-CPU hash', type: MapType.percpuHash, entries: 5_000, flags: 0 },
    { name: 'array', type: MapType.array, entries: 10_000, flags: 0 },
    { name: 'per-CPU array', type: MapType.percpuArray, entries: 5_000, flags: 0 },
  ])('$name: all that was written is read', ({ type, entries, flags }) => {
    // Twice as large, since an LRU map may evict before it is full.
    const map = create(type, 8, type === MapType.lruHash ? entries * 2 : entries, flags)
    const { keys, values } = sample(entries, map.userValueSize)
    map.updateBatch(keys, values)
    const all = map.entries()
    expect(all.count).toBe(entries)
    expect(all.keys.length).toBe(entries * 4)
    expect(table(all)).toEqual(table({ keys, values, count: entries }))
    map.close()
  })

  test('an empty map has no entries, an array always all', () => {
    const hash = create(MapType.hash, 8, 100)
    expect(hash.entries()).toEqual({ keys: new Uint8Array(0), values: new Uint8Array(0), count: 0 })
    const array = create(MapType.array, 8, 100)
    expect(array.entries().count).toBe(100)
    hash.close()
    array.close()
  })

  test('a map of one entry', () => {
    const map = create(MapType.hash, 8, 1)
    map.update(u32(9), u64(1n))
    expect(map.entries()).toEqual({ keys: u32(9), values: u64(1n), count: 1 })
    map.close()
  })

  test('a prefix trie, whose position is a key', () => {
    const map = create(MapType.lpmTrie, 4, 3000, NO_PREALLOC, 20)
    const keys = new Uint8Array(3000 * 20)
    for (let i = 0; i < 3000; i++) {
      keys.set(u32(128), i * 20)
      keys.set(u32(i), i * 20 + 4)
    }
    map.updateBatch(keys, new Uint8Array(3000 * 4))
    const all = map.entries()
    expect(all.count).toBe(3000)
    const numbers = Array.from({ length: 3000 }, (_, i) => new DataView(all.keys.buffer).getUint32(i * 20 + 4, true))
    expect(new Set(numbers).size).toBe(3000)
    map.close()
  })

  test('large values take many calls and one growing buffer', () => {
    const map = create(MapType.hash, 32_768, 200)
    const { keys, values } = sample(200, 32_768)
    map.updateBatch(keys, values)
    expect(table(map.entries())).toEqual(table({ keys, values, count: 200 }))
    map.close()
  })

  test('a map that fills up: how many were written', () => {
    const map = create(MapType.hash, 8, 5000)
    const { keys, values } = sample(6000, 8)
    const error = thrown(() => map.updateBatch(keys, values))
    expect(error).toMatchObject({ code: 'E2BIG', syscall: 'bpf_map_update_batch', object: 'waggle_batch' })
    expect(error.done).toBe(map.entries().count)
    expect(error.done).toBe(5000)
    map.close()
  })

  test('an index behind the end of an array: what was before it is written', () => {
    const map = create(MapType.array, 8, 4)
    const error = thrown(() => map.updateBatch(u32(0, 3, 4, 1), u64(1n, 2n, 3n, 4n)))
    expect(error).toMatchObject({ code: 'E2BIG', done: 2 })
    expect(map.lookup(u32(3))).toEqual(u64(2n))
    expect(map.lookup(u32(1))).toEqual(u64(0n))
    map.close()
  })

  test('deletes what is there, steps over the rest, and counts', () => {
    const map = create(MapType.hash, 8, 10_000)
    const { keys, values } = sample(10_000, 8)
    map.updateBatch(keys, values)
    for (const absent of [0, 1, 4095, 4096, 9999]) map.delete(u32(absent))
    expect(map.deleteBatch(keys)).toBe(9995)
    expect(map.entries().count).toBe(0)
    expect(map.deleteBatch(keys.subarray(0, 400))).toBe(0)
    expect(map.deleteBatch(new Uint8Array(0))).toBe(0)
    map.close()
  })

  test('nothing to write is nothing', () => {
    const map = create(MapType.hash, 8, 10)
    map.updateBatch(new Uint8Array(0), new Uint8Array(0))
    expect(map.entries().count).toBe(0)
    map.close()
  })

  test('sizes that do not fit together', () => {
    const map = create(MapType.hash, 8, 10)
    expect(thrown(() => map.updateBatch(new Uint8Array(5), new Uint8Array(8)))).toMatchObject({
      message: 'updateBatch: keys must be a multiple of 4 bytes, not 5',
    })
    expect(thrown(() => map.updateBatch(u32(1, 2), u64(1n)))).toMatchObject({
      message: 'updateBatch: values must have 16 bytes, not 8',
    })
    expect(thrown(() => map.deleteBatch(new Uint8Array(3)))).toMatchObject({ name: 'RangeError' })
    map.close()
  })

  test('an array cannot delete', () => {
    const map = create(MapType.array, 8, 4)
    expect(thrown(() => map.deleteBatch(u32(1))).errno).toBeGreaterThan(0)
    expect(thrown(() => map.delete(u32(1))).code).toBe('EINVAL')
    map.close()
  })
})
