import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { BpfMap } from '../../src/ebpf/native.js'
import { bpfDescriptors } from './descriptors.js'
import { MapType } from './kernel-enums.js'
import { addon, describeKernel, Rig, thrown, u32, u64 } from './rig.js'

function create(type: number, keySize: number, valueSize: number, maxEntries: number, flags = 0): BpfMap {
  return addon().createMap({ type, name: 'waggle_test', keySize, valueSize, maxEntries, flags })
}

describeKernel('maps', () => {
  const rig = new Rig()

  test('update, look up and delete, absence being no error', () => {
    const map = create(MapType.hash, 4, 8, 4)
    expect(map.lookup(u32(1))).toBeUndefined()
    map.update(u32(1), u64(10n))
    expect(map.lookup(u32(1))).toEqual(u64(10n))
    expect(map.delete(u32(1))).toBe(true)
    expect(map.delete(u32(1))).toBe(false)
    map.close()
  })

  test('flags: only new ones, only present ones', () => {
    const map = create(MapType.hash, 4, 8, 4)
    expect(thrown(() => map.update(u32(1), u64(1n), 2))).toMatchObject({
      code: 'ENOENT',
      errno: 2,
      syscall: 'bpf_map_update_elem',
      object: 'waggle_test',
      log: '',
    })
    map.update(u32(1), u64(1n), 1)
    expect(thrown(() => map.update(u32(1), u64(2n), 1))).toMatchObject({ code: 'EEXIST' })
    expect(map.lookup(u32(1))).toEqual(u64(1n))
    map.close()
  })

  test('a full map', () => {
    const map = create(MapType.hash, 4, 8, 1)
    map.update(u32(1), u64(1n))
    expect(thrown(() => map.update(u32(2), u64(1n))).code).toBe('E2BIG')
    map.close()
  })

  test('a view into a larger buffer is written at its own place', () => {
    const map = create(MapType.hash, 4, 8, 4)
    const buffer = new Uint8Array([0xff, ...u32(7), ...u64(8n), 0xff])
    map.update(buffer.subarray(1, 5), buffer.subarray(5, 13))
    expect(map.lookup(u32(7))).toEqual(u64(8n))
    map.close()
  })

  test('per-CPU values: one for each possible CPU, rounded up to 8 bytes', () => {
    const map = create(MapType.percpuArray, 4, 12, 2)
    expect(map.userValueSize).toBe(16 * addon().possibleCpus())
    const value = new Uint8Array(map.userValueSize)
    value[16 * (addon().possibleCpus() - 1)] = 42
    map.update(u32(1), value)
    expect(map.lookup(u32(1))).toEqual(value)
    expect(thrown(() => map.update(u32(1), new Uint8Array(12)))).toMatchObject({ name: 'RangeError' })
    map.close()
  })

  test('a queue has no keys', () => {
    const map = create(MapType.queue, 0, 8, 4)
    map.update(new Uint8Array(0), u64(3n))
    expect(map.lookup(new Uint8Array(0))).toEqual(u64(3n))
    expect(thrown(() => map.entries()).errno).toBeGreaterThan(0)
    expect(thrown(() => map.updateBatch(new Uint8Array(0), new Uint8Array(0))).code).toBe('ENOTSUPP')
    map.close()
  })

  test('a map that programs write: the value that they left', () => {
    const object = rig.fixture()
    const words = object.map('words')
    const program = object.program('put_word')
    const ctxIn = new Uint8Array(192)
    new DataView(ctxIn.buffer).setUint32(8, 99, true) // __sk_buff.mark
    program.testRun({ data: new Uint8Array(60), ctxIn })
    expect(words.lookup(u32(99))).toEqual(u64(60n))
    for (const handle of [program, words, object]) handle.close()
  })

  test('pinned and opened again, it is the same map', () => {
    const path = join(rig.bpffs(), 'words')
    const map = create(MapType.hash, 4, 8, 4)
    map.pin(path)
    expect(thrown(() => map.pin(path))).toMatchObject({ code: 'EEXIST', syscall: 'bpf_obj_pin', object: path })
    map.update(u32(1), u64(1n))
    map.close()
    const again = addon().openMap(path)
    expect(again.info).toMatchObject({
      name: 'waggle_test',
      type: MapType.hash,
      keySize: 4,
      valueSize: 8,
      maxEntries: 4,
    })
    expect(again.lookup(u32(1))).toEqual(u64(1n))
    expect(thrown(() => addon().openProgram(path))).toMatchObject({ code: 'EINVAL', object: path })
    expect(thrown(() => addon().openLink(path))).toMatchObject({ code: 'EINVAL', object: path })
    again.close()
  })

  test('a pin outside of a bpffs, or absent', () => {
    const map = create(MapType.hash, 4, 8, 4)
    expect(thrown(() => map.pin(join(rig.dir, 'here'))).errno).toBeGreaterThan(0)
    expect(thrown(() => addon().openMap(join(rig.dir, 'absent')))).toMatchObject({
      code: 'ENOENT',
      syscall: 'bpf_obj_get',
    })
    map.close()
  })

  test('closing: once is enough, twice is harmless, use afterwards is an error', () => {
    const before = bpfDescriptors()
    const map = create(MapType.hash, 4, 8, 4)
    expect(bpfDescriptors()).toBe(before + 1)
    map.close()
    map.close()
    expect(bpfDescriptors()).toBe(before)
    expect(map.info.name).toBe('waggle_test')
    const calls: (() => unknown)[] = [
      () => map.lookup(u32(1)),
      () => map.update(u32(1), u64(1n)),
      () => map.delete(u32(1)),
      () => map.updateBatch(u32(1), u64(1n)),
      () => map.deleteBatch(u32(1)),
      () => map.entries(),
      () => map.mmap(),
      () => map.pin('/x'),
      () => addon().openRingBuffer(map, () => {}),
    ]
    for (const call of calls)
      expect(thrown(call)).toMatchObject({ code: 'ERR_CLOSED', errno: 0, object: 'waggle_test' })
  })

  test.each([
    { name: 'an unknown type', options: { type: 9999, maxEntries: 1 }, code: 'EINVAL' },
    { name: 'no entries', options: { type: MapType.hash, maxEntries: 0 }, code: 'EINVAL' },
    { name: 'more memory than there is', options: { type: MapType.hash, maxEntries: 2 ** 32 - 1 }, code: 'E2BIG' },
    { name: 'unknown flags', options: { type: MapType.hash, maxEntries: 1, flags: 2 ** 31 }, code: 'EINVAL' },
    {
      name: 'a long name',
      options: { type: MapType.hash, maxEntries: 1, name: 'sixteen_letters_' },
      code: 'ERR_OUT_OF_RANGE',
    },
    { name: 'an odd name', options: { type: MapType.hash, maxEntries: 1, name: 'a b' }, code: 'EINVAL' },
  ])('a map that cannot be made: $name', ({ options, code }) => {
    const create = () => addon().createMap({ name: 'waggle_test', keySize: 4, valueSize: 4, ...options })
    expect(thrown(create).code).toBe(code)
  })
})
