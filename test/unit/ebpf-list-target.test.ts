import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listTarget, type Member, slotCounts, spread } from '../../src/dataplane/ebpf/list-target.js'

const weights = (...list: readonly number[]): Member[] =>
  list.map((weight, i) => ({ index: i + 1, key: `10.244.0.${i}|80`, weight }))

test.each([
  { given: [1, 1, 1], slots: [1, 1, 1] },
  { given: [7], slots: [1] },
  { given: [5, 5, 5], slots: [1, 1, 1] },
  { given: [100, 50, 25], slots: [4, 2, 1] },
  { given: [3, 2], slots: [3, 2] },
  { given: [], slots: [] },
])('weights $given take $slots slots', ({ given, slots }) => {
  expect([...slotCounts(weights(...given)).values()]).toEqual(slots)
})

test('many heavy backends: weights are rounded, nobody is left out', () => {
  const given = weights(...Array.from({ length: 1000 }, (_, i) => (i === 0 ? 1 : 99)))
  const counts = [...slotCounts(given).values()]
  expect(Math.min(...counts)).toBe(1)
  expect(counts.reduce((a, b) => a + b)).toBeLessThanOrEqual(4200)
})

test('a backend of several slots is spread over the list', () => {
  expect(
    spread(
      new Map([
        [1, 4],
        [2, 2],
        [3, 1],
      ]),
    ),
  ).toEqual([1, 2, 1, 3, 1, 2, 1])
})

test('a new list has the slots that were counted', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 20 }), given => {
      const counts = new Map(given.map((count, i) => [i + 1, count]))
      const list = spread(counts)
      for (const [backend, count] of counts) expect(list.filter(each => each === backend).length).toBe(count)
    }),
  )
})

test('positions count for maglev and source-hash alone', () => {
  const members = weights(1, 2)
  const kinds = (['random', 'rr', 'least-conn', 'maglev', 'source-hash'] as const).map(
    scheduler => listTarget(scheduler, 'a/b:/TCP/IPv4', members).kind,
  )
  expect(kinds).toEqual(['counts', 'counts', 'counts', 'table', 'table'])
  const table = listTarget('maglev', 'a/b:/TCP/IPv4', members)
  if (table.kind !== 'table') throw new Error('not a table')
  expect(new Set(table.slots)).toEqual(new Set([1, 2]))
})
