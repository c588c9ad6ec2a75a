import { MessageChannel } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { MapType } from './kernel-enums.js'
import { addon, describeKernel, Rig, thrown, u32 } from './rig.js'

const MMAPABLE = 1024

function mappable(valueSize: number, maxEntries: number) {
  return addon().createMap({
    type: MapType.array,
    name: 'waggle_mmap',
    keySize: 4,
    valueSize,
    maxEntries,
    flags: MMAPABLE,
  })
}

describeKernel('maps as memory', () => {
  const rig = new Rig()

  test('a store is seen by a program, and what it writes is seen here', () => {
    const object = rig.fixture()
    const cells = object.map('cells')
    const buffer = cells.mmap()
    const words = new Uint32Array(buffer)
    words[4] = 321 // cells[1].stored: elements are 16 bytes apart
    const program = object.program('copy_cell')
    expect(program.testRun({ data: new Uint8Array(64) }).retval).toBe(321)
    expect(words[5]).toBe(321)
    expect(cells.lookup(u32(1))).toEqual(u32(321, 321, 0))
    for (const handle of [program, cells, object]) handle.close()
  })

  test('eight bytes are stored at once', () => {
    const map = mappable(32, 10)
    const words = new BigUint64Array(map.mmap())
    expect(words.length).toBe(40)
    Atomics.store(words, 5, 0x0102030405060708n)
    expect(Atomics.add(words, 5, 1n)).toBe(0x0102030405060708n)
    expect(new BigUint64Array((map.lookup(u32(1)) as Uint8Array).slice().buffer)[1]).toBe(0x0102030405060709n)
    map.close()
  })

  test('the memory outlives the handle', () => {
    const map = mappable(8, 100_000)
    const view = new BigUint64Array(map.mmap())
    map.close()
    for (let i = 0; i < view.length; i++) view[i] = BigInt(i)
    expect(view[99_999]).toBe(99_999n)
    expect(thrown(() => map.mmap()).code).toBe('ERR_CLOSED')
  })

  test('two mappings of one map are the same memory', () => {
    const map = mappable(8, 4)
    const one = new Uint8Array(map.mmap())
    const two = new Uint8Array(map.mmap())
    one[9] = 7
    expect(two[9]).toBe(7)
    map.close()
  })

  test('the memory cannot be moved to another thread, only copied', () => {
    const map = mappable(8, 4)
    const buffer = map.mmap()
    const { port1, port2 } = new MessageChannel()
    // Node 20 copies what it must not move, later ones throw.
    for (const move of [
      () => port1.postMessage(buffer, [buffer]),
      () => structuredClone(buffer, { transfer: [buffer] }),
    ]) {
      try {
        move()
      } catch (error) {
        expect(error).toMatchObject({ name: 'DataCloneError' })
      }
    }
    port1.close()
    port2.close()
    new Uint8Array(buffer)[0] = 5
    expect(map.lookup(u32(0))).toEqual(new Uint8Array([5, 0, 0, 0, 0, 0, 0, 0]))
    map.close()
  })

  test.each([
    { name: 'not mappable', options: { type: MapType.array, flags: 0 }, code: 'EINVAL' },
    { name: 'no array', options: { type: MapType.hash, flags: 0 }, code: 'EINVAL' },
    // BPF_F_RDONLY: this descriptor may not write, and a read-only page would end the process.
    { name: 'read-only', options: { type: MapType.array, flags: MMAPABLE | 8 }, code: 'EACCES' },
  ])('a map that cannot be mapped: $name', ({ options, code }) => {
    const map = addon().createMap({ name: 'waggle_mmap', keySize: 4, valueSize: 8, maxEntries: 4, ...options })
    expect(thrown(() => map.mmap())).toMatchObject({ code, syscall: 'mmap', object: 'waggle_mmap' })
    map.close()
  })
})
