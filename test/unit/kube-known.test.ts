import { describe, expect, test } from 'vitest'
import { isOlder, Known } from '../../src/k8s/kube-known.js'
import type { SourceEvent } from '../../src/model/objects.js'
import { type RawObject, service } from './kube-fake-api.js'

const at = (version: string, object: RawObject): RawObject => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: version },
})

/** Events in short: `+default/a`, `-default/a`, `synced`, `!field`, `ok where`. */
function short(events: readonly SourceEvent[]): string[] {
  return events.map(event => {
    if (event.type === 'upsert') return `+${event.object.name}`
    if (event.type === 'delete') return `-${event.key}`
    if (event.type === 'problem') return `!${event.where} ${event.field}`
    if (event.type === 'resolved') return `ok ${event.where}`
    return event.type
  })
}

function list(known: Known, objects: readonly RawObject[], now = 0) {
  const relist = known.relist()
  for (const object of objects) relist.add(object)
  return relist.finish(now)
}

const many = (count: number) => Array.from({ length: count }, (_, i) => at('1', service(`s${i}`)))
const invalid = (version: string) => at(version, { ...service('a'), spec: { clusterIPs: 'none' } })
const headless = (version: string) =>
  at(version, { ...service('a'), spec: { clusterIP: 'None', clusterIPs: ['None'] } })

describe('what an earlier run left', () => {
  const keys = many(20).map(object => `default/${object.metadata.name}`)

  test('goes when the first list lacks it', () => {
    const known = new Known('Service')
    known.seed([...keys, 'default/old'])
    const { events, deletes } = list(known, many(20))
    expect(deletes).toBe(1)
    expect(short(events).slice(-2)).toEqual(['-default/old', 'synced'])
  })

  test('stays when the first list lacks most of it, and nothing is synced before that is settled', () => {
    const known = new Known('Service')
    known.seed(keys)
    const first = list(known, many(9))
    expect(first).toMatchObject({ upserts: 9, deletes: 0, held: 11 })
    expect(short(first.events)).not.toContain('synced')
    expect(known.synced).toBe(false)
    // A list that is sane again ends it at once; one that still lacks it, after a minute.
    expect(short(list(known, many(9), 59_999).events)).toEqual([])
    const settled = list(known, many(9), 60_000)
    expect(settled).toMatchObject({ deletes: 11, held: 0 })
    expect(short(settled.events).at(-1)).toBe('synced')
  })

  test('is the object itself when the first list is sane again', () => {
    const known = new Known('Service')
    known.seed(keys)
    list(known, [])
    expect(short(list(known, many(20), 1).events).at(-1)).toBe('synced')
    expect(known.size).toBe(20)
  })
})

describe('lists', () => {
  test('the first one delivers all, the next one only differences, as one batch', () => {
    const known = new Known('Service')
    expect(short(list(known, [at('1', service('a')), at('2', service('b'))]).events)).toEqual(['+a', '+b', 'synced'])
    const second = list(known, [at('1', service('a')), at('7', service('c'))])
    expect(short(second.events)).toEqual(['+c', '-default/b'])
    expect(second).toMatchObject({ upserts: 1, deletes: 1, held: 0 })
  })

  test('an empty collection is synced, too', () => {
    expect(short(list(new Known('Node'), []).events)).toEqual(['synced'])
  })

  test('one that breaks off changes nothing', () => {
    const known = new Known('Service')
    list(known, [at('1', service('a'))])
    known.relist().add(headless('2'))
    expect(short(list(known, [headless('2')]).events)).toEqual(['-default/a'])
  })

  test('after distrust everything comes again', () => {
    const known = new Known('Service')
    list(known, [at('1', service('a'))])
    known.distrust()
    expect(short(list(known, [at('1', service('a'))]).events)).toEqual(['+a'])
  })
})

describe('objects', () => {
  test('the same version twice is told once', () => {
    const known = new Known('Service')
    expect(short(known.upsert(at('5', service('a'))))).toEqual(['+a'])
    expect(short(known.upsert(at('5', service('a'))))).toEqual([])
    expect(short(known.delete(at('6', service('a'))))).toEqual(['-default/a'])
    expect(short(known.delete(at('6', service('a'))))).toEqual([])
  })

  test('one that stops being for us is deleted', () => {
    const known = new Known('Service')
    known.upsert(at('1', service('a')))
    expect(short(known.upsert(headless('2')))).toEqual(['-default/a'])
    expect(known.size).toBe(0)
    expect(short(known.upsert(at('3', service('a'))))).toEqual(['+a'])
  })

  test('an invalid one keeps its last good state until it is mended or gone', () => {
    const known = new Known('Service')
    known.upsert(at('1', service('a')))
    const problem = short(known.upsert(invalid('2')))
    expect(problem[0]).toMatch(/^!Service default\/a spec\.clusterIPs/)
    expect(known.size).toBe(1)
    expect(short(list(known, [invalid('2')]).events)).toEqual(['synced'])
    expect(short(known.upsert(at('3', service('a'))))).toEqual(['ok Service default/a', '+a'])
    known.upsert(invalid('4'))
    expect(short(known.delete(invalid('5')))).toEqual(['ok Service default/a', '-default/a'])
  })

  test('one that was never valid is not deleted', () => {
    const known = new Known('Service')
    known.upsert(invalid('1'))
    expect(short(known.delete(invalid('2')))).toEqual(['ok Service default/a'])
  })
})

describe('the fuse', () => {
  test.each([
    { name: '19 of 19 vanish: too few to be suspicious', before: 19, after: 0, held: 0 },
    { name: '10 of 20 vanish: half is believed', before: 20, after: 10, held: 0 },
    { name: '11 of 20 vanish: held', before: 20, after: 9, held: 11 },
    { name: '1000 of 1000 vanish: held', before: 1000, after: 0, held: 1000 },
  ])('$name', ({ before, after, held }) => {
    const known = new Known('Service')
    list(known, many(before))
    const result = list(known, many(after))
    expect(result).toMatchObject({ held, deletes: before - after - held })
    expect(known.size).toBe(after + held)
  })

  test('a second list confirms after a minute, not before', () => {
    const known = new Known('Service')
    list(known, many(30))
    expect(list(known, many(2), 1_000)).toMatchObject({ held: 28, deletes: 0 })
    expect(list(known, many(2), 60_999)).toMatchObject({ held: 28, deletes: 0 })
    expect(list(known, many(2), 61_000)).toMatchObject({ held: 0, deletes: 28 })
    expect(known.size).toBe(2)
  })

  test('what comes back stays without a word; new changes and real deletions go on', () => {
    const known = new Known('Service')
    list(known, many(30))
    list(known, [], 1_000)
    expect(short(known.delete(at('50', service('s3'))))).toEqual(['-default/s3'])
    expect(short(known.upsert(at('51', service('s4'))))).toEqual(['+s4'])
    expect(known.held).toBe(28)
    const back = many(30).filter(object => !['s3', 's4'].includes(object.metadata.name))
    expect(list(known, [...back, at('51', service('s4'))], 61_000)).toMatchObject({ upserts: 0, deletes: 0, held: 0 })
  })
})

test.each([
  ['9', '10', true],
  ['10', '9', false],
  ['10', '10', false],
  ['18446744073709551614', '18446744073709551615', true],
  ['', '10', false],
  ['abc', '10', false],
])('version %s is older than %s: %s', (a, b, want) => {
  expect(isOlder(a, b)).toBe(want)
})
