import { afterEach, describe, expect, test } from 'vitest'
import { dumpMaps } from '../../src/dataplane/ebpf/adopt.js'
import { endpointKey } from '../../src/dataplane/ebpf/applied.js'
import type { KernelMaps } from '../../src/dataplane/ebpf/kernel-maps.js'
import type { Address } from '../../src/model/address.js'
import type { DesiredState, Scheduler } from '../../src/model/desired.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import { createMaps, startProcess } from './maps-rig.js'

/** Tables of the schedulers that hash, on real maps. */
describe('a Maglev table', () => {
  const opened: KernelMaps[] = []
  afterEach(() => {
    for (const maps of opened.splice(0)) maps.close()
  })

  /** A node: its maps and one process that applies. */
  function node() {
    const maps = createMaps()
    opened.push(maps)
    const clock = new FakeClock()
    const { applier } = startProcess(maps, clock)
    let revision = 0
    return {
      maps,
      clock,
      apply(
        hosts: readonly number[],
        scheduler: Scheduler = 'maglev',
        weights: ReadonlyMap<number, number> = new Map(),
      ) {
        const report = applier.apply(desired(++revision, hosts, scheduler, weights), undefined, true)
        expect(report.failed).toEqual([])
        clock.advance(5000)
        return report.writes
      },
    }
  }

  function desired(
    revision: number,
    hosts: readonly number[],
    scheduler: Scheduler,
    weights: ReadonlyMap<number, number>,
  ): DesiredState {
    const port = {
      id: 'default/web:http/TCP/IPv4',
      namespace: 'default',
      name: 'web',
      portName: 'http',
      protocol: 'TCP',
      family: 'IPv4',
      scheduler,
      affinitySeconds: 0,
      internalLocal: false,
      externalLocal: false,
      frontends: [{ kind: 'ClusterIP', address: '10.96.0.1' as Address, port: 80 }],
      backends: hosts.map(host => ({
        address: `10.244.0.${host}` as Address,
        port: 8080,
        local: false,
        inCluster: true,
        inLocal: false,
        weight: weights.get(host) ?? 1,
      })),
    } as const
    return { revision, services: new Map([[port.id, port]]) }
  }

  /** Base of the list and the endpoint in each of its slots. */
  function tableOf(maps: KernelMaps): { base: number; slots: string[] } {
    const dump = dumpMaps(maps)
    const endpoints = new Map(dump.backends.map(each => [each.index, endpointKey(each.address, each.port)]))
    const [service] = dump.services.values()
    const slots = (service?.cluster.members ?? []).map(index => endpoints.get(index) ?? 'nobody')
    return { base: service?.cluster.base ?? 0, slots }
  }

  const TEN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]

  test('a backend goes: the slots that differ are written and nothing else, where they are', () => {
    const { maps, apply } = node()
    apply(TEN)
    const before = tableOf(maps)
    const writes = apply(TEN.filter(each => each !== 4))
    const after = tableOf(maps)
    const dirty = before.slots.filter((endpoint, slot) => endpoint !== after.slots[slot]).length
    expect(after.base).toBe(before.base)
    expect(before.slots).toHaveLength(16381)
    expect(dirty).toBeGreaterThan(1600)
    expect(dirty).toBeLessThan(1800)
    expect(writes).toBe(dirty)
  })

  test('the same again: nothing is written', () => {
    const { apply } = node()
    apply(TEN)
    expect(apply(TEN)).toBe(0)
  })

  test('two nodes that came there by different ways have the same table', () => {
    const [a, b] = [node(), node()]
    a.apply(TEN)
    for (const hosts of [[9, 3], [9, 3, 77], [3, 9, 1, 77, 10, 2], [...TEN].reverse()]) b.apply(hosts)
    expect(tableOf(b.maps).slots).toEqual(tableOf(a.maps).slots)
  })

  test('another scheduler, another list: and back to the same table', () => {
    const { maps, apply } = node()
    apply(TEN)
    const before = tableOf(maps)
    apply(TEN, 'rr')
    expect(tableOf(maps).slots).toHaveLength(10)
    apply(TEN, 'source-hash')
    expect(tableOf(maps).slots).toEqual(before.slots)
  })

  test('a weight that changes moves slots to the heavier one', () => {
    const { maps, apply } = node()
    apply(TEN)
    const share = () => tableOf(maps).slots.filter(each => each === '10.244.0.7|8080').length / 16381
    expect(share()).toBeCloseTo(1 / 10, 2)
    apply(TEN, 'maglev', new Map([[7, 3]]))
    expect(share()).toBeCloseTo(3 / 12, 2)
  })

  test('a table that no longer finds room leaves the old one', () => {
    const { maps } = node()
    const clock = new FakeClock()
    const { applier } = startProcess(maps, clock)
    const weights = new Map<number, number>()
    expect(applier.apply(desired(1, TEN, 'maglev', weights), undefined, true).failed).toEqual([])
    const before = tableOf(maps)
    // 131,072 of 262,144 slots are free but for what is in use: one such table fits, two do not.
    const many = Array.from({ length: 90 }, (_, i) => i + 1)
    expect(applier.apply(desired(2, many, 'maglev', weights), undefined, true).failed).toEqual([])
    const large = tableOf(maps)
    expect(large.slots).toHaveLength(131071)
    const { failed } = applier.apply(desired(3, many.slice(0, 60), 'rr', weights), undefined, true)
    expect(failed).toEqual([])
    const again = applier.apply(desired(4, many, 'maglev', weights), undefined, true)
    expect(again.failed.map(each => String(each.error))).toEqual([expect.stringContaining('--max-slots')])
    expect(tableOf(maps).slots).toHaveLength(60)
    expect(before.slots).toHaveLength(16381)
    clock.advance(5000)
    expect(applier.apply(desired(5, many, 'maglev', weights), undefined, true).failed).toEqual([])
    expect(tableOf(maps).slots).toEqual(large.slots)
  })
})
