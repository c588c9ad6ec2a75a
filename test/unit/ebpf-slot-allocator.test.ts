import fc from 'fast-check'
import { expect, test } from 'vitest'
import { capacityFor, SlotAllocator } from '../../src/dataplane/ebpf/slot-allocator.js'

test('blocks never overlap, and all space comes back', () => {
  const step = fc.oneof(
    fc.record({ take: fc.integer({ min: 0, max: 5 }) }),
    fc.record({ giveBack: fc.nat({ max: 40 }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), steps => {
      const allocator = new SlotAllocator(256)
      const held: { base: number; capacity: number }[] = []
      for (const each of steps) {
        if ('take' in each) {
          const capacity = 2 ** each.take
          const base = allocator.allocate(capacity)
          if (base === undefined) continue
          expect(base % capacity).toBe(0)
          expect(base).toBeGreaterThan(0)
          for (const other of held) {
            expect(base + capacity <= other.base || other.base + other.capacity <= base).toBe(true)
          }
          held.push({ base, capacity })
        } else {
          const [gone] = held.splice(each.giveBack % Math.max(1, held.length), 1)
          if (gone) allocator.release(gone.base, gone.capacity)
        }
        expect(allocator.used).toBe(1 + held.reduce((sum, block) => sum + block.capacity, 0))
      }
      for (const block of held) allocator.release(block.base, block.capacity)
      // Slot 0 is never given away, so half of the space is the largest block.
      expect(allocator.allocate(128)).toBe(128)
      expect(allocator.allocate(64)).toBe(64)
    }),
  )
})

test('a reserved block is not handed out and cannot be reserved twice', () => {
  const allocator = new SlotAllocator(64)
  expect(allocator.reserve(16, 16)).toBe(true)
  expect(allocator.reserve(16, 4)).toBe(false)
  expect(allocator.reserve(0, 64)).toBe(false)
  expect(allocator.allocate(32)).toBe(32)
  expect(allocator.allocate(16)).toBeUndefined()
  allocator.release(16, 16)
  expect(allocator.allocate(16)).toBe(16)
})

test.each([
  [0, 4],
  [4, 4],
  [5, 8],
  [8, 8],
  [9, 16],
  [1000, 1024],
])('a list of %i gets a block of %i', (count, capacity) => {
  expect(capacityFor(count)).toBe(capacity)
})

test('a size that is no power of two is refused', () => {
  expect(() => new SlotAllocator(100)).toThrow(/100 is not a power of two/)
})
