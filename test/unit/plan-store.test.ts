import { expect, test } from 'vitest'
import type { SourceEvent, WatchedObject } from '../../src/model/objects.js'
import { SnapshotMap } from '../../src/plan/snapshot-map.js'
import { Problems } from '../../src/state/problems.js'
import { Store } from '../../src/state/store.js'
import { address, frozen, service, slice } from './plan-kit.js'

const up = (...objects: WatchedObject[]): SourceEvent[] =>
  objects.map(object => ({ type: 'upsert', object: frozen(object) }))
const dirty = (store: Store, events: readonly SourceEvent[]) => [...store.apply(events).services].sort()

test('a batch makes exactly the Services dirty that it touches', () => {
  const store = new Store()
  expect(dirty(store, up(service(), service({ name: 'other' })))).toEqual(['default/other', 'default/web'])
  expect(dirty(store, up(slice('a', ['10.0.0.1 ready'])))).toEqual(['default/web'])
  expect(dirty(store, up(slice('a', ['10.0.0.1 ready']), service()))).toEqual([])
  // A slice that is handed to another Service concerns both.
  expect(dirty(store, up(slice('a', ['10.0.0.1 ready'], { service: 'other' })))).toEqual([
    'default/other',
    'default/web',
  ])
  expect([...store.slicesOf('default/web')]).toEqual([])
  expect(dirty(store, [{ type: 'delete', kind: 'EndpointSlice', key: 'default/a' }])).toEqual(['default/other'])
  expect(dirty(store, [{ type: 'delete', kind: 'EndpointSlice', key: 'default/a' }])).toEqual([])
  expect(dirty(store, [{ type: 'delete', kind: 'Service', key: 'default/web' }])).toEqual(['default/web'])
})

test('an object that comes again unchanged keeps its identity', () => {
  const store = new Store()
  store.apply(up(service()))
  const first = store.service('default/web')
  store.apply(up(service()))
  expect(store.service('default/web')).toBe(first)
  expect(dirty(store, up(service({ created: 5 })))).toEqual(['default/web'])
})

test('the last event of a batch counts', () => {
  const store = new Store()
  expect(
    dirty(store, [
      ...up(service()),
      { type: 'delete', kind: 'Service', key: 'default/web' },
      ...up(service({ affinitySeconds: 9 })),
    ]),
  ).toEqual(['default/web'])
  expect(store.service('default/web')?.affinitySeconds).toBe(9)
})

test('synced once every kind has said so', () => {
  const store = new Store()
  const say = (kind: 'Service' | 'EndpointSlice' | 'Node') => store.apply([{ type: 'synced', kind }]).synced
  expect([say('Service'), say('Node'), say('Node')]).toEqual([false, false, false])
  expect(store.awaited).toEqual(['EndpointSlice'])
  expect(say('EndpointSlice')).toBe(true)
  expect(store.apply([]).synced).toBe(true)
})

test('nodes that came, changed or left are named', () => {
  const store = new Store()
  const node = (ip: string): WatchedObject => ({ kind: 'Node', name: 'n', internalIPs: [address(ip)] })
  const named = (events: readonly SourceEvent[]) => [...store.apply(events).nodes]
  expect(named(up(node('192.0.2.1')))).toEqual(['n'])
  expect(named(up(node('192.0.2.1')))).toEqual([])
  expect(named(up(node('192.0.2.2')))).toEqual(['n'])
  expect(named([{ type: 'delete', kind: 'Node', key: 'n' }])).toEqual(['n'])
  expect(named([{ type: 'delete', kind: 'Node', key: 'n' }])).toEqual([])
})

test('nothing stays of what is gone', () => {
  const store = new Store()
  const names = Array.from({ length: 100 }, (_, i) => `s${i}`)
  store.apply(names.flatMap(name => up(service({ name }), slice(`${name}-x`, ['10.0.0.1 ready'], { service: name }))))
  expect(store.size).toEqual({ Service: 100, EndpointSlice: 100, Node: 0 })
  store.apply(
    names.flatMap(name => [
      { type: 'delete', kind: 'Service', key: `default/${name}` } as const,
      { type: 'delete', kind: 'EndpointSlice', key: `default/${name}-x` } as const,
    ]),
  )
  expect(store.size).toEqual({ Service: 0, EndpointSlice: 0, Node: 0 })
  expect(names.flatMap(name => [...store.slicesOf(`default/${name}`)])).toEqual([])
})

test('problems: news once, all until resolved', () => {
  const problems = new Problems()
  const problem = (where: string, message: string) => ({ type: 'problem', where, field: 'f', message }) as const
  expect(problems.apply([problem('a', '1'), problem('a', '2'), problem('b', '1')])).toHaveLength(3)
  expect(problems.apply([problem('a', '2'), problem('b', '3')])).toEqual([problem('b', '3')])
  // Taken back and said again within one batch is no news.
  expect(problems.apply([{ type: 'resolved', where: 'a' }, problem('a', '2')])).toEqual([])
  expect(problems.list()).toEqual([problem('b', '1'), problem('b', '3'), problem('a', '2')])
  expect(
    problems.apply([
      { type: 'resolved', where: 'b' },
      { type: 'resolved', where: 'c' },
    ]),
  ).toEqual([])
  expect(problems.list()).toEqual([problem('a', '2')])
})

test('the store says what is new in the problems of its sources', () => {
  const store = new Store()
  const event = { type: 'problem', where: 'web.yaml:3', field: 'spec', message: 'm' } as const
  expect(store.apply([event]).problems).toEqual([event])
  expect(store.apply([event]).problems).toEqual([])
  expect(store.apply([{ type: 'resolved', where: 'web.yaml:3' }, event]).problems).toEqual([])
  expect(store.problems).toEqual([event])
  store.apply([{ type: 'resolved', where: 'web.yaml:3' }])
  expect(store.problems).toEqual([])
})

test('a version of a map stays as it is while later ones change', () => {
  const keys = Array.from({ length: 2000 }, (_, i) => `key${i}`)
  const first = SnapshotMap.empty<number>().with(new Map(keys.map((key, i) => [key, i])))
  const second = first.with(
    new Map([
      ['key1', undefined],
      ['key2', 7],
      ['new', 8],
      ['never', undefined],
    ]),
  )
  expect([first.size, second.size]).toEqual([2000, 2000])
  expect(new Map(first)).toEqual(new Map(keys.map((key, i) => [key, i])))
  expect([second.has('key1'), second.get('key2'), second.get('new'), second.has('never')]).toEqual([false, 7, 8, false])
  expect([...second.keys()].length).toBe(2000)
  expect([...second.values()].reduce((a, b) => a + b, 0)).toBe(
    [...first.values()].reduce((a, b) => a + b, 0) - 1 - 2 + 7 + 8,
  )
})
