import { expect, test } from 'vitest'
import { IndexPool } from '../../src/dataplane/ebpf/index-pool.js'

test('index 0 is never handed out, and fresh indexes come before rested ones', () => {
  const pool = new IndexPool(4, 1000)
  expect(pool.allocate(0)).toBe(1)
  pool.release(1, 0)
  expect(pool.allocate(5000)).toBe(2)
  expect(pool.allocate(5000)).toBe(3)
  expect(pool.allocate(5000)).toBe(1)
  expect(pool.allocate(5000)).toBeUndefined()
})

test('a released index rests until its quarantine ends', () => {
  const pool = new IndexPool(2, 1000)
  expect(pool.allocate(0)).toBe(1)
  pool.release(1, 100)
  expect(pool.allocate(1099)).toBeUndefined()
  expect(pool.allocate(1100)).toBe(1)
})

test('an index that is still in use somewhere is passed over', () => {
  const pool = new IndexPool(3, 0)
  pool.allocate(0)
  pool.allocate(0)
  pool.release(1, 0)
  pool.release(2, 0)
  expect(pool.allocate(1, index => index !== 1)).toBe(2)
  expect(pool.allocate(1, index => index !== 1)).toBeUndefined()
})

test('an adopted index is not handed out; one found twice or out of range is refused', () => {
  const pool = new IndexPool(4, 1000)
  expect(pool.reserve(2)).toBe(true)
  expect(pool.reserve(2)).toBe(false)
  expect(pool.reserve(0)).toBe(false)
  expect(pool.reserve(4)).toBe(false)
  expect([pool.allocate(0), pool.allocate(0), pool.allocate(0)]).toEqual([1, 3, undefined])
  expect(pool.used).toBe(3)
})
