import fc from 'fast-check'
import { expect, test } from 'vitest'
import { changeInPlace, listWord, splitWord } from '../../src/dataplane/ebpf/list-delta.js'

const members = fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 24 })

test('every state between two writes is a list of old and new members', () => {
  fc.assert(
    fc.property(members, members, (current, wanted) => {
      const target = new Set(wanted)
      const change = changeInPlace(current, target, 64)
      if (!change) return
      const valid = new Set([...current, ...target])
      const slots = [...current]
      const check = (count: number) => {
        for (const backend of slots.slice(0, count)) expect(valid.has(backend)).toBe(true)
      }
      for (const { position, backend } of change.writes) {
        slots[position] = backend
        check(current.length)
      }
      check(change.count)
      expect(new Set(slots.slice(0, change.count))).toEqual(target)
      expect(slots.slice(0, change.count)).toEqual(change.members)
      expect(change.count).toBe(target.size)
    }),
  )
})

test('an unchanged list needs no write', () => {
  expect(changeInPlace([3, 1, 2], new Set([1, 2, 3]), 4)).toEqual({ writes: [], count: 3, members: [3, 1, 2] })
})

test('one leaves and one comes: one slot is written, the count stays', () => {
  expect(changeInPlace([1, 2, 3], new Set([1, 3, 4]), 4)).toEqual({
    writes: [{ position: 1, backend: 4 }],
    count: 3,
    members: [1, 4, 3],
  })
})

test('one leaves: the last one takes its place', () => {
  expect(changeInPlace([1, 2, 3], new Set([2, 3]), 4)?.writes).toEqual([{ position: 0, backend: 3 }])
})

test('a backend listed twice by an interrupted change counts once', () => {
  expect(changeInPlace([1, 3, 3], new Set([1, 3]), 4)?.members).toEqual([1, 3])
})

test('a list that outgrows its block, or changes for the most part, is written anew', () => {
  expect(changeInPlace([1, 2, 3, 4], new Set([1, 2, 3, 4, 5]), 4)).toBeUndefined()
  const many = Array.from({ length: 100 }, (_, i) => i + 1)
  expect(changeInPlace(many, new Set(many.map(each => each + 50)), 128)).toBeUndefined()
})

test('the word of a list holds base and count', () => {
  expect(listWord(0xfffffff0, 0x12345678)).toBe(0x12345678fffffff0n)
  expect(splitWord(0x12345678fffffff0n)).toEqual({ base: 0xfffffff0, count: 0x12345678 })
})
