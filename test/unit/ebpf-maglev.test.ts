import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { maglevSize, maglevTable, type Weighted } from '../../src/dataplane/ebpf/maglev.js'

const SERVICE = 'shop/web:http/TCP/IPv4'
const backends = (n: number, weight = (_: number) => 1): Weighted[] =>
  Array.from({ length: n }, (_, i) => ({ key: `10.244.${i >> 8}.${i & 255}|8080`, weight: weight(i) }))

/** The key in each slot. */
function keysOf(members: readonly Weighted[]): string[] {
  return Array.from(maglevTable(SERVICE, members), at => members[at]?.key ?? 'nobody')
}

function slotsOf(table: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const key of table) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

/** Share of the slots that hold another backend in the second table. */
function moved(before: readonly string[], after: readonly string[]): number {
  expect(after.length).toBe(before.length)
  return before.filter((key, slot) => key !== after[slot]).length / before.length
}

describe('a Maglev table', () => {
  test('100 backends: none has a fiftieth more than the mean', () => {
    const counts = [...slotsOf(keysOf(backends(100))).values()]
    const mean = counts.reduce((a, b) => a + b) / counts.length
    expect(counts.length).toBe(100)
    expect(Math.max(...counts) / mean).toBeLessThanOrEqual(1.02)
    expect(Math.min(...counts) / mean).toBeGreaterThanOrEqual(0.98)
  })

  // The method moves a little more than it has to (paper, section 5.3).
  test.each([3, 5, 10, 20, 50, 100])('one of %d leaves: its slots move, and less than a hundredth of the others', n => {
    const all = backends(n)
    const before = keysOf(all)
    for (const gone of [0, Math.floor(n / 2), n - 1]) {
      const rest = all.filter((_, i) => i !== gone)
      if (maglevSize(rest) !== maglevSize(all)) throw new Error('another size: not what is tested here')
      expect(moved(before, keysOf(rest))).toBeLessThanOrEqual(1 / n + 0.001 + 0.01)
      expect(slotsOf(keysOf(rest)).has(all[gone]?.key ?? '')).toBe(false)
    }
  })

  test('one comes: it takes about its share, and few others move', () => {
    const before = keysOf(backends(50))
    const after = keysOf(backends(51))
    expect(moved(before, after)).toBeLessThanOrEqual(1 / 51 + 0.01)
  })

  test('the same on every node: order does not count', () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray(
          backends(12, i => 1 + (i % 3)),
          { minLength: 12 },
        ),
        shuffled => {
          expect(keysOf(shuffled)).toEqual(keysOf(backends(12, i => 1 + (i % 3))))
        },
      ),
      { numRuns: 20 },
    )
  })

  test('another Service has another table', () => {
    const members = backends(5)
    expect([...maglevTable('shop/other:http/TCP/IPv4', members)]).not.toEqual([...maglevTable(SERVICE, members)])
  })

  test('slots are in proportion to the weights', () => {
    const members = backends(6, i => [1, 1, 2, 5, 10, 100][i] ?? 1)
    const table = keysOf(members)
    const counts = slotsOf(table)
    for (const { key, weight } of members) {
      const share = (counts.get(key) ?? 0) / table.length
      expect(Math.abs(share / (weight / 119) - 1)).toBeLessThan(0.02)
    }
  })

  test('any backends, any weights: every slot is taken, everybody has one', () => {
    const member = fc.record({ key: fc.string({ minLength: 1 }), weight: fc.integer({ min: 1, max: 100 }) })
    fc.assert(
      fc.property(fc.uniqueArray(member, { selector: each => each.key, maxLength: 30 }), members => {
        const table = maglevTable(SERVICE, members)
        expect(table.length).toBe(maglevSize(members))
        expect([...new Set(table)].sort((a, b) => a - b)).toEqual(members.map((_, i) => i))
      }),
      { numRuns: 50 },
    )
  })

  test.each([
    { n: 0, size: 0 },
    { n: 1, size: 1 },
    { n: 2, size: 4093 },
    { n: 5, size: 4093 },
    { n: 6, size: 16381 },
    { n: 20, size: 16381 },
    { n: 21, size: 65521 },
    { n: 81, size: 65521 },
    { n: 82, size: 131071 },
    { n: 5000, size: 131071 },
  ])('$n backends take $size slots', ({ n, size }) => {
    expect(maglevSize(backends(n))).toBe(size)
  })

  test('sizes are prime, so that a backend can reach every slot', () => {
    for (const size of [2, 6, 21, 82].map(n => maglevSize(backends(n)))) {
      for (let d = 2; d * d <= size; d++) expect(size % d).not.toBe(0)
    }
  })
})
