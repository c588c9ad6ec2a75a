import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { dumpMaps } from '../../src/dataplane/ebpf/adopt.js'
import type { KernelMaps } from '../../src/dataplane/ebpf/kernel-maps.js'
import { POD_NETWORKS } from '../../src/dataplane/ebpf/source-range-table.js'
import type { Address } from '../../src/model/address.js'
import { type Cidr, cidrOfMapped } from '../../src/model/cidr.js'
import type { DesiredState, ServicePort, SourceRanges } from '../../src/model/desired.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import { createMaps, startProcess } from './maps-rig.js'

/**
 * Source ranges and pod networks under interruptions: at no moment does a load-balancer
 * frontend let in anybody whom neither the old nor the new list names, nor keep out
 * anybody whom both do; and the next run ends at exactly what is desired. On real maps.
 */
const POOL = {
  IPv4: ['10.0.0.0/8', '192.0.2.0/24', '192.0.2.0/25', '198.51.100.7/32'] as Cidr[],
  IPv6: ['2001:db8::/32', '2001:db8:1::/48', '::/1', '2001:db8::7/128'] as Cidr[],
}
const VIP = { IPv4: '203.0.113.141' as Address, IPv6: '2001:db8:198::1' as Address }

const portArbitrary = fc
  .record({ name: fc.constantFrom('a', 'b', 'c'), family: fc.constantFrom('IPv4' as const, 'IPv6' as const) })
  .chain(({ name, family }) =>
    fc.record({
      name: fc.constant(name),
      family: fc.constant(family),
      sourceRanges: fc.option(
        fc.record({ ranges: fc.subarray(POOL[family]), node: fc.boolean(), pods: fc.boolean() }),
        { nil: undefined },
      ),
    }),
  )
  .map(
    ({ name, family, sourceRanges }): ServicePort => ({
      id: `default/${name}:http/TCP/${family}`,
      namespace: 'default',
      name,
      portName: 'http',
      protocol: 'TCP',
      family,
      scheduler: 'random',
      affinitySeconds: 0,
      internalLocal: false,
      externalLocal: false,
      ...(sourceRanges && { sourceRanges }),
      frontends: [{ kind: 'LoadBalancer', address: VIP[family], port: 80 + name.charCodeAt(0) }],
      backends: [],
    }),
  )

const stateArbitrary = fc.record({
  ports: fc.uniqueArray(portArbitrary, { selector: each => each.id, maxLength: 4 }),
  podNetworks: fc.subarray([...POOL.IPv4, ...POOL.IPv6]),
})
type State = { readonly ports: readonly ServicePort[]; readonly podNetworks: readonly Cidr[] }

function desired(revision: number, { ports, podNetworks }: State): DesiredState {
  return { revision, services: new Map(ports.map(port => [port.id, port])), podNetworks }
}

function rangesByService(maps: KernelMaps): Map<number, string[]> {
  const ranges = new Map<number, string[]>()
  for (const { service, base, prefix } of dumpMaps(maps).ranges) {
    ranges.set(service, [...(ranges.get(service) ?? []), cidrOfMapped(base, prefix)].sort())
  }
  return ranges
}

/** The whole of it in words: equal states, equal text. */
function contentOf(maps: KernelMaps) {
  const dump = dumpMaps(maps)
  const left = rangesByService(maps)
  const take = (index: number) => {
    const found = left.get(index) ?? []
    left.delete(index)
    return found
  }
  return {
    podNetworks: take(POD_NETWORKS),
    services: dump.names
      .map(({ id, index }) => ({ id, classes: dump.services.get(index)?.sourceRanges, ranges: take(index) }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    strays: [...left],
  }
}

function contentWanted({ ports, podNetworks }: State): ReturnType<typeof contentOf> {
  const classes = (given: SourceRanges | undefined) => given && { node: given.node, pods: given.pods }
  return {
    podNetworks: [...podNetworks].sort(),
    services: ports
      .map(({ id, sourceRanges }) => ({
        id,
        classes: classes(sourceRanges),
        ranges: [...(sourceRanges?.ranges ?? [])].sort(),
      }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    strays: [],
  }
}

/** Who gets through each frontend that is there now. */
function expectGuarded(maps: KernelMaps, before: State, after: State): void {
  const dump = dumpMaps(maps)
  const ranges = rangesByService(maps)
  const names = new Map(dump.names.map(each => [each.index, each.id]))
  for (const { service } of dump.frontends) {
    const id = names.get(service)
    const versions = [before, after].flatMap(state => state.ports.filter(port => port.id === id))
    const restricted = dump.services.get(service)?.sourceRanges !== undefined
    if (versions.every(each => each.sourceRanges !== undefined)) expect(restricted, `${id} is open`).toBe(true)
    if (versions.every(each => each.sourceRanges === undefined)) expect(restricted, `${id} is shut`).toBe(false)
    if (!restricted) continue
    const letIn = ranges.get(service) ?? []
    const named = versions.flatMap(each => each.sourceRanges?.ranges ?? [])
    for (const range of letIn) expect(named, `${range} of ${id}`).toContain(range)
    const always = named.filter(range => versions.every(each => each.sourceRanges?.ranges.includes(range) ?? true))
    for (const range of always) expect(letIn, `${range} of ${id}`).toContain(range)
  }
  for (const range of before.podNetworks.filter(each => after.podNetworks.includes(each))) {
    expect(ranges.get(POD_NETWORKS)).toContain(range)
  }
}

const RUNS = Number(process.env.N ?? 100)

describe('source ranges, interrupted', () => {
  test('a process that dies after any write leaves nobody in who is out, and the next one finishes', () => {
    const point = fc.integer({ min: 0, max: 40 })
    fc.assert(
      fc.property(stateArbitrary, stateArbitrary, point, fc.boolean(), (from, to, n, late) => {
        const maps = createMaps()
        try {
          const clock = new FakeClock()
          const first = startProcess(maps, clock)
          expect(first.applier.apply(desired(1, from), undefined, true).failed).toEqual([])
          expect(contentOf(maps)).toEqual(contentWanted(from))
          clock.advance(5000)
          first.grace.stop()

          let dead = false
          const second = startProcess(maps, clock, write => {
            dead ||= write >= n
            return dead
          })
          second.applier.apply(desired(2, to), undefined, true)
          expectGuarded(maps, from, to)
          if (late) clock.advance(5000)
          second.grace.stop()

          const third = startProcess(maps, clock)
          expect(third.applier.apply(desired(3, to), undefined, true).failed).toEqual([])
          expectGuarded(maps, from, to)
          clock.advance(5000)
          expect(contentOf(maps)).toEqual(contentWanted(to))
          third.grace.stop()
          const fourth = startProcess(maps, clock)
          expect(fourth.applier.apply(desired(3, to), undefined, true).writes).toBe(0)
        } finally {
          maps.close()
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('before the sources are complete nothing is taken away', () => {
    fc.assert(
      fc.property(stateArbitrary, stateArbitrary, (from, to) => {
        const maps = createMaps()
        try {
          const clock = new FakeClock()
          const first = startProcess(maps, clock)
          first.applier.apply(desired(1, from), undefined, true)
          first.grace.stop()
          const before = rangesByService(maps)
          const second = startProcess(maps, clock)
          second.applier.apply(desired(2, to), undefined, false)
          const now = rangesByService(maps)
          for (const [service, ranges] of before) expect(now.get(service)).toEqual(expect.arrayContaining(ranges))
        } finally {
          maps.close()
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('a full map restricts all the same, and says what to raise', () => {
    const maps = createMaps()
    try {
      const many = Array.from({ length: 300 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24` as Cidr)
      const port: ServicePort = {
        id: 'default/a:http/TCP/IPv4',
        namespace: 'default',
        name: 'a',
        portName: 'http',
        protocol: 'TCP',
        family: 'IPv4',
        scheduler: 'random',
        affinitySeconds: 0,
        internalLocal: false,
        externalLocal: false,
        frontends: [{ kind: 'LoadBalancer', address: VIP.IPv4, port: 80 }],
        backends: [],
      }
      const { applier } = startProcess(maps, new FakeClock())
      const open = { ports: [port], podNetworks: [] }
      const shut = { ports: [{ ...port, sourceRanges: { ranges: many, node: false, pods: false } }], podNetworks: [] }
      expect(applier.apply(desired(1, open), undefined, true).failed).toEqual([])
      const { failed } = applier.apply(desired(2, shut), undefined, true)
      expect(failed[0]?.error?.message).toContain('raise --max-source-ranges (256)')
      expect(contentOf(maps).services[0]?.classes).toEqual({ node: false, pods: false })
      expect(applier.apply(desired(3, open), undefined, true).failed).toEqual([])
      expect(contentOf(maps)).toEqual(contentWanted(open))
    } finally {
      maps.close()
    }
  })
})
