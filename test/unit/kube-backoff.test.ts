import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import { Backoff, defaultBackoff, sleep } from '../../src/k8s/kube-backoff.js'
import { parseRetryAfter } from '../../src/k8s/kube-errors.js'

describe('back-off', () => {
  test('grows from 0.8-1.6 s to 15-30 s', () => {
    const least = new Backoff(defaultBackoff, () => 0)
    expect(Array.from({ length: 7 }, () => least.next(0))).toEqual([800, 1600, 3200, 6400, 12_800, 15_000, 15_000])
    const most = new Backoff(defaultBackoff, () => 0.999999)
    expect(Array.from({ length: 7 }, () => Math.ceil(most.next(0)))).toEqual([
      1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
    ])
  })

  test('stays within its bounds for any random numbers and any number of failures', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { maxLength: 200 }), rs => {
        const backoff = new Backoff(defaultBackoff, () => rs.pop() ?? 0.5)
        for (let i = 0; i < 100; i++) {
          const wait = backoff.next(59_999)
          expect(wait).toBeGreaterThanOrEqual(800)
          expect(wait).toBeLessThanOrEqual(30_000)
        }
      }),
    )
  })

  test('begins anew after a healthy minute, and only then', () => {
    const backoff = new Backoff(defaultBackoff, () => 0)
    backoff.next(0)
    backoff.next(0)
    expect(backoff.next(59_999)).toBe(3200)
    expect(backoff.next(60_000)).toBe(800)
    expect(backoff.next(0)).toBe(1600)
  })

  test('waits at least as long as the server asks, and not in step with others', () => {
    const at = (random: number) => new Backoff(defaultBackoff, () => random).next(0, 7_000)
    expect(at(0)).toBe(7_000)
    expect(at(0.5)).toBeCloseTo(7_350)
  })

  test('a sleep ends at once when it is aborted', async () => {
    const stop = new AbortController()
    const slept = sleep(systemClock, 60_000, stop.signal)
    stop.abort()
    await slept
    await sleep(systemClock, 60_000, stop.signal)
  })
})

test.each([
  { name: 'absent', value: undefined, want: 0 },
  { name: 'seconds', value: '12', want: 12_000 },
  { name: 'a date', value: 'Thu, 01 Jan 2026 00:00:30 GMT', want: 30_000 },
  { name: 'a date gone by', value: 'Thu, 01 Jan 2015 00:00:30 GMT', want: 0 },
  { name: 'nonsense', value: 'soon', want: 0 },
  { name: 'a day', value: '86400', want: 300_000 },
])('Retry-After: $name', ({ value, want }) => {
  expect(parseRetryAfter(value, new Date('2026-01-01T00:00:00Z'))).toBe(want)
})
