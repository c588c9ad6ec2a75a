import fc from 'fast-check'
import { expect, test } from 'vitest'
import { changeInPlace, changeTable, listWord, splitWord } from '../../src/dataplane/ebpf/list-delta.js'

const members = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 24 })
const once = (...backends: readonly number[]) => new Map(backends.map(each => [each, 1]))

function countOf(list: readonly number[]): Map<number, number> {
  const counts = new Map<number, number>()
  for (const each of list) counts.set(each, (counts.get(each) ?? 0) + 1)
  return counts
}

test('every state between two writes is a list of old and new members', () => {
  fc.assert(
    fc.property(members, members, (current, wanted) => {
      const target = countOf(wanted)
      const change = changeInPlace(current, target, 64)
      if (!change) return
      const valid = new Set([...current, ...wanted])
      const slots = [...current]
      const check = (count: number) => {
        for (const backend of slots.slice(0, count)) expect(valid.has(backend)).toBe(true)
      }
      for (const { position, backend } of change.writes) {
        slots[position] = backend
        check(current.length)
      }
      check(change.count)
      expect(countOf(slots.slice(0, change.count))).toEqual(target)
      expect(slots.slice(0, change.count)).toEqual(change.members)
      expect(change.count).toBe(wanted.length)
    }),
  )
})

test('a table of the same size: the slots that differ, and no others', () => {
  const change = changeTable([1, 2, 3, 1, 2, 3], [1, 2, 4, 1, 2, 1])
  expect(change?.writes).toEqual([
    { position: 2, backend: 4 },
    { position: 5, backend: 1 },
  ])
  expect(change?.count).toBe(6)
  expect(changeTable([1, 2], [1, 2])?.writes).toEqual([])
})

test('a table of another size is a new list', () => {
  expect(changeTable([1, 2], [1, 2, 3])).toBeUndefined()
})

test('an unchanged list needs no write', () => {
  expect(changeInPlace([3, 1, 2], once(1, 2, 3), 4)).toEqual({ writes: [], count: 3, members: [3, 1, 2] })
})

test('one leaves and one comes: one slot is written, the count stays', () => {
  expect(changeInPlace([1, 2, 3], once(1, 3, 4), 4)).toEqual({
    writes: [{ position: 1, backend: 4 }],
    count: 3,
    members: [1, 4, 3],
  })
})

test('one leaves: the last one takes its place', () => {
  expect(changeInPlace([1, 2, 3], once(2, 3), 4)?.writes).toEqual([{ position: 0, backend: 3 }])
})

test('a backend in more slots than it should have loses those', () => {
  expect(changeInPlace([1, 3, 3], once(1, 3), 4)?.members).toEqual([1, 3])
})

test('a list that outgrows its block, or changes for the most part, is written anew', () => {
  expect(changeInPlace([1, 2, 3, 4], once(1, 2, 3, 4, 5), 4)).toBeUndefined()
  const many = Array.from({ length: 100 }, (_, i) => i + 1)
  expect(changeInPlace(many, once(...many.map(each => each + 50)), 128)).toBeUndefined()
})

test('the word of a list holds base and count', () => {
  expect(listWord(0xfffffff0, 0x12345678)).toBe(0x12345678fffffff0n)
  expect(splitWord(0x12345678fffffff0n)).toEqual({ base: 0xfffffff0, count: 0x12345678 })
})
