import { describe, expect, test } from 'vitest'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import {
  affinityKey,
  flow,
  frontend4Key,
  frontendFlagNames,
  maps,
  Outcome,
  outcomeNames,
  serviceName,
  slotBlock,
} from '../../src/ebpf/generated/layouts.js'
import type { BtfType } from '../../src/ebpf/native.js'
import { emit } from '../../tools/gen-layouts/emit.js'
import { extendLock, formatLock, lockOf, parseLock } from '../../tools/gen-layouts/lock.js'
import { readLayouts } from '../../tools/gen-layouts/model.js'

const ADDR = Uint8Array.from({ length: 16 }, (_, i) => i + 1)

describe('codecs', () => {
  test('ports and addresses are in network order, everything else as the host has it', () => {
    const bytes = toBytes(frontend4Key, { addr: 0x0a000001, port: 53, proto: 17 })
    expect([...bytes]).toEqual([10, 0, 0, 1, 0, 53, 17, 0])
    expect([...toBytes(affinityKey, { client: ADDR, service: 0x01020304, byCookie: 1 })].slice(16)).toEqual([
      4, 3, 2, 1, 1, 0, 0, 0,
    ])
  })

  test('a nested value comes back as it went in', () => {
    const tuple = { src: ADDR, dst: ADDR.slice().reverse(), sport: 40000, dport: 80, proto: 6 }
    const value = {
      to: tuple,
      seenNs: 2n ** 63n,
      backend: 7,
      generation: 8,
      service: 9,
      slot: 10,
      direction: 1,
      flags: 3,
      sent: 5,
      heard: 7,
    }
    expect(fromBytes(flow, toBytes(flow, value))).toEqual(value)
  })

  test('an array comes back as it went in, and of another length is refused', () => {
    const words = Array.from({ length: 16 }, (_, i) => i * 1000)
    expect(fromBytes(slotBlock, toBytes(slotBlock, { words }))).toEqual({ words })
    expect(() => toBytes(slotBlock, { words: words.slice(1) })).toThrow('slot_block.words: 15 elements, not 16')
  })

  test('reserved bytes are written as zero', () => {
    const view = new DataView(new ArrayBuffer(16))
    new Uint8Array(view.buffer).fill(0xff)
    frontend4Key.encode(view, 4, { addr: 0, port: 0, proto: 0 })
    expect([...new Uint8Array(view.buffer)]).toEqual([255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255])
  })

  test('a field at an offset is where offsets says', () => {
    const bytes = toBytes(frontend4Key, { addr: 0, port: 0x1234, proto: 0 })
    expect(bytes[frontend4Key.offsets.port]).toBe(0x12)
  })

  test.each([
    { name: 'port above 65535', port: 65536, proto: 6, error: 'frontend4_key.port: 65536 is not 0-65535' },
    { name: 'negative', port: -1, proto: 6, error: 'frontend4_key.port: -1 is not 0-65535' },
    { name: 'fraction', port: 1.5, proto: 6, error: 'frontend4_key.port: 1.5 is not 0-65535' },
    { name: 'NaN', port: Number.NaN, proto: 6, error: 'frontend4_key.port: NaN is not 0-65535' },
    { name: 'proto above 255', port: 1, proto: 262, error: 'frontend4_key.proto: 262 is not 0-255' },
  ])('a number that does not fit is refused: $name', ({ port, proto, error }) => {
    expect(() => toBytes(frontend4Key, { addr: 0, port, proto })).toThrow(error)
  })

  test('an address of another length is refused', () => {
    expect(() => toBytes(affinityKey, { client: ADDR.slice(1), service: 0, byCookie: 0 })).toThrow(
      'affinity_key.client: 15 bytes, not 16',
    )
  })

  test('text is padded with NUL, keeps one, and too long is refused', () => {
    const value = { namespace: 'n'.repeat(63), name: 'é', port: '', proto: 6, family: 4 }
    expect(fromBytes(serviceName, toBytes(serviceName, value))).toEqual(value)
    expect(() => toBytes(serviceName, { ...value, namespace: 'n'.repeat(64) })).toThrow(/longer than 63 bytes/)
    expect(() => toBytes(serviceName, { ...value, name: 'a\0b' })).toThrow(/holds a NUL/)
  })
})

test('an outcome is known by name and by number, and the count is no label', () => {
  expect(outcomeNames[Outcome.NO_BACKEND]).toBe('no_backend')
  expect(Object.keys(outcomeNames)).toHaveLength(Outcome.COUNT)
  expect(frontendFlagNames).toEqual({ 1: 'own_address', 2: 'loopback' })
})

test('the map table says what bpf/maps.h says', () => {
  expect(maps.frontends4).toMatchObject({ name: 'frontends4_v1', type: 1, flags: 1, maxEntries: 65536 })
  expect(maps.sockConn).toMatchObject({ type: 24, maxEntries: 0 })
  expect(maps.slots.value.size).toBe(64)
})

// --- the generator on types made by hand -----------------------------------

interface Member {
  readonly name: string
  readonly type: number
  readonly bitOffset: number
  readonly bitSize?: number
}

const U32 = 1
const BE16 = 3
const BYTE = 4

/** An object with one hash map t_v1 from u32 to a struct of these members. */
function objectWith(members: readonly Member[], size: number, extra: readonly BtfType[] = [], map = 't_v1'): BtfType[] {
  const array = (id: number, count: number): BtfType => ({ kind: 'array', id, name: '', type: U32, count })
  const ptr = (id: number, type: number): BtfType => ({ kind: 'ptr', id, name: '', type })
  const full = members.map(each => ({ bitSize: 0, ...each }))
  return [
    { kind: 'int', id: U32, name: 'unsigned int', size: 4, signed: false, bool: false },
    { kind: 'int', id: 2, name: 'unsigned short', size: 2, signed: false, bool: false },
    { kind: 'typedef', id: BE16, name: '__be16', type: 2 },
    { kind: 'int', id: BYTE, name: 'unsigned char', size: 1, signed: false, bool: false },
    { kind: 'struct', id: 5, name: 'entry', size, members: full },
    array(6, 1),
    ptr(7, 6),
    array(8, 64),
    ptr(9, 8),
    ptr(10, U32),
    ptr(11, 5),
    {
      kind: 'struct',
      id: 12,
      name: '',
      size: 32,
      members: [
        { name: 'type', type: 7, bitOffset: 0, bitSize: 0 },
        { name: 'max_entries', type: 9, bitOffset: 64, bitSize: 0 },
        { name: 'key', type: 10, bitOffset: 128, bitSize: 0 },
        { name: 'value', type: 11, bitOffset: 192, bitSize: 0 },
      ],
    },
    { kind: 'var', id: 13, name: map, type: 12 },
    { kind: 'datasec', id: 14, name: '.maps', size: 32, variables: [{ type: 13, offset: 0, size: 32 }] },
    ...extra,
  ]
}

const GOOD: readonly Member[] = [
  { name: 'count', type: U32, bitOffset: 0 },
  { name: 'port', type: BE16, bitOffset: 32 },
  { name: 'proto', type: BYTE, bitOffset: 48 },
  { name: 'zero', type: BYTE, bitOffset: 56 },
]

describe('generator', () => {
  test('byte order follows from the typedef, reserved fields stay out of the interface', () => {
    const text = emit(readLayouts(objectWith(GOOD, 8)))
    expect(text).toContain("view.setUint16(at + 4, uint(value.port, 0xffff, 'entry.port'))")
    expect(text).toContain("view.setUint32(at, uint(value.count, 0xffffffff, 'entry.count'), true)")
    expect(text).toContain(
      'export interface Entry {\n  readonly count: number\n  readonly port: number\n  readonly proto: number\n}',
    )
  })

  const union: BtfType = { kind: 'union', id: 20, name: '', size: 4, members: [] }
  const pointer: BtfType = { kind: 'ptr', id: 21, name: '', type: U32 }
  test.each([
    {
      name: 'a hole between fields',
      members: [
        { name: 'proto', type: BYTE, bitOffset: 0 },
        { name: 'count', type: U32, bitOffset: 32 },
      ],
      size: 8,
      error: 'struct entry.count: 3 unnamed bytes before it',
    },
    {
      name: 'a hole at the end',
      members: GOOD.slice(0, 2),
      size: 8,
      error: 'struct entry: 2 unnamed bytes at its end',
    },
    {
      name: 'a bit-field',
      members: [{ name: 'count', type: U32, bitOffset: 0, bitSize: 3 }],
      size: 4,
      error: 'struct entry.count: a bit-field',
    },
    {
      name: 'an unnamed union',
      members: [{ name: '', type: 20, bitOffset: 0 }],
      size: 4,
      extra: [union],
      error: 'struct entry.(unnamed): a member without a name',
    },
    {
      name: 'a named union',
      members: [{ name: 'either', type: 20, bitOffset: 0 }],
      size: 4,
      extra: [union],
      error: 'struct entry.either: a union has no place in a layout',
    },
    {
      name: 'a pointer',
      members: [{ name: 'next', type: 21, bitOffset: 0 }],
      size: 8,
      extra: [pointer],
      error: 'struct entry.next: a ptr has no place in a layout',
    },
  ])('refuses $name', ({ members, size, extra, error }) => {
    expect(() => readLayouts(objectWith(members, size, extra))).toThrow(error)
  })

  test('refuses two versions of one map at a time', () => {
    const layouts = readLayouts(objectWith(GOOD, 8))
    const twice = { ...layouts, maps: layouts.maps.flatMap(map => [map, { ...map, name: 't_v2' }]) }
    expect(() => emit(twice)).toThrow('two maps are called t')
  })
})

describe('layouts.lock', () => {
  const locked = lockOf(readLayouts(objectWith(GOOD, 8)))

  test('survives being written and read', () => {
    expect(parseLock(formatLock(locked))).toEqual(locked)
    expect(formatLock(locked)).toContain('  value 8: count:u32@0 port:be16@4 proto:u8@6 zero:u8@7\n')
  })

  test.each([
    {
      name: 'a field moved',
      members: [
        { name: 'port', type: BE16, bitOffset: 0 },
        { name: 'proto', type: BYTE, bitOffset: 16 },
        { name: 'zero', type: BYTE, bitOffset: 24 },
        { name: 'count', type: U32, bitOffset: 32 },
      ],
    },
    {
      name: 'the byte order changed',
      members: GOOD.map(member => (member.name === 'port' ? { ...member, type: 2 } : member)),
    },
    {
      name: 'a reserved byte got a meaning',
      members: GOOD.map(member => (member.name === 'zero' ? { ...member, name: 'flags' } : member)),
    },
  ])('complains with both shapes when $name', ({ members }) => {
    const now = lockOf(readLayouts(objectWith(members, 8)))
    const complaint = /layout of the pinned map t_v1 changed; give it a new name \(t_v2\).*locked:.*now:/s
    expect(() => extendLock(locked, now)).toThrow(complaint)
  })

  test('takes a new version beside the old one, and never lets the old one go', () => {
    const now = lockOf(readLayouts(objectWith(GOOD.slice(0, 1), 4, [], 't_v2')))
    expect([...extendLock(locked, now).keys()]).toEqual(['t_v1', 't_v2'])
  })
})
