import { expect, test } from 'vitest'
import type { BpfMap, BpfProgram } from '../../src/ebpf/native.js'
import { bpfDescriptors } from './descriptors.js'
import { addon, describeKernel, Rig, thrown } from './rig.js'

/** The records of one delivery: u32 length and bytes, repeated. */
function split(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const records: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at, true)
    records.push(bytes.slice(at + 4, at + 4 + length))
    at += 4 + length
  }
  return records
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await new Promise(resolve => setTimeout(resolve, 10))
  expect(condition()).toBe(true)
}

describeKernel('ring buffers', () => {
  const rig = new Rig()

  function parts(): { events: BpfMap; emit: BpfProgram; close: () => void } {
    const object = rig.fixture()
    const events = object.map('events')
    const emit = object.program('emit')
    object.close()
    return {
      events,
      emit,
      close: () => {
        events.close()
        emit.close()
      },
    }
  }

  test('records arrive whole and in order, also those from before', async () => {
    const { events, emit, close } = parts()
    emit.testRun({ data: new Uint8Array(64) })
    const records: Uint8Array[] = []
    const ring = addon().openRingBuffer(events, bytes => records.push(...split(bytes)))
    events.close()
    emit.testRun({ data: new Uint8Array(64), repeat: 500 })
    await until(() => records.length === 1002)
    expect(records[0]).toEqual(new Uint8Array([0x00, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]))
    expect(records[1001]).toEqual(new TextEncoder().encode('abc'))
    ring.close()
    close()
  })

  test('many records at once are one delivery', async () => {
    const { events, emit, close } = parts()
    const deliveries: number[] = []
    const ring = addon().openRingBuffer(events, bytes => deliveries.push(split(bytes).length))
    emit.testRun({ data: new Uint8Array(64), repeat: 100 })
    await until(() => deliveries.length > 0)
    expect(deliveries).toEqual([200])
    ring.close()
    close()
  })

  test('a full ring loses records and goes on', async () => {
    const { events, emit, close } = parts()
    let count = 0
    const ring = addon().openRingBuffer(events, bytes => (count += split(bytes).length))
    emit.testRun({ data: new Uint8Array(64), repeat: 10_000 })
    await until(() => count > 0)
    expect(count).toBeLessThan(20_000)
    const lossy = count
    emit.testRun({ data: new Uint8Array(64), repeat: 2 })
    await until(() => count === lossy + 4)
    ring.close()
    close()
  })

  test('closed within its own callback, nothing more arrives', async () => {
    const { events, emit, close } = parts()
    let calls = 0
    const ring = addon().openRingBuffer(events, () => {
      calls++
      ring.close()
      ring.close()
      emit.testRun({ data: new Uint8Array(64) })
    })
    emit.testRun({ data: new Uint8Array(64) })
    await until(() => calls === 1)
    await new Promise(resolve => setTimeout(resolve, 50))
    expect(calls).toBe(1)
    close()
  })

  test('closed at once, it never calls; descriptors are given back', async () => {
    const { events, emit, close } = parts()
    const before = bpfDescriptors()
    emit.testRun({ data: new Uint8Array(64) })
    const ring = addon().openRingBuffer(events, () => expect.unreachable())
    ring.close()
    ring.close()
    expect(thrown(() => ring.ref())).toMatchObject({ code: 'ERR_CLOSED', object: 'events' })
    expect(thrown(() => ring.unref())).toMatchObject({ code: 'ERR_CLOSED' })
    await new Promise(resolve => setTimeout(resolve, 30))
    expect(bpfDescriptors()).toBe(before)
    close()
  })

  test('a second reader of the same ring opens', () => {
    const { events, close } = parts()
    const one = addon().openRingBuffer(events, () => {})
    const two = addon().openRingBuffer(events, () => {})
    one.close()
    two.close()
    close()
  })

  test('another kind of map', () => {
    const map = addon().createMap({ type: 1, name: 'waggle_hash', keySize: 4, valueSize: 4, maxEntries: 1 })
    expect(thrown(() => addon().openRingBuffer(map, () => {}))).toMatchObject({ code: 'EINVAL', object: 'waggle_hash' })
    map.close()
  })
})
