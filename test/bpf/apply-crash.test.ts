import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { adopt, dumpMaps } from '../../src/dataplane/ebpf/adopt.js'
import { type AppliedList, endpointKey } from '../../src/dataplane/ebpf/applied.js'
import { backendFlags } from '../../src/dataplane/ebpf/encode.js'
import type { KernelMaps } from '../../src/dataplane/ebpf/kernel-maps.js'
import { usesTable } from '../../src/dataplane/ebpf/list-target.js'
import { maglevTable } from '../../src/dataplane/ebpf/maglev.js'
import type { Address } from '../../src/model/address.js'
import {
  type Backend,
  type DesiredState,
  type Frontend,
  SCHEDULERS,
  type Scheduler,
  type ServicePort,
} from '../../src/model/desired.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import { createMaps, refuseTenth, startProcess } from './maps-rig.js'

/**
 * The control plane dies, or the kernel refuses, between any two writes: what stands then
 * serves, and the next run ends at exactly what is desired. On real maps.
 */
// --- desired states ------------------------------------------------------------

const frontendPool: Frontend[] = [
  { kind: 'ClusterIP', address: '10.96.0.1' as Address, port: 80 },
  { kind: 'ClusterIP', address: '10.96.0.1' as Address, port: 443 },
  { kind: 'ClusterIP', address: '10.96.0.2' as Address, port: 80 },
  { kind: 'LoadBalancer', address: '198.51.100.7' as Address, port: 80 },
  { kind: 'ExternalIP', address: '198.51.100.8' as Address, port: 80 },
  { kind: 'NodePort', address: '192.168.0.11' as Address, port: 30080 },
  { kind: 'NodePort', address: '192.168.0.11' as Address, port: 30081 },
]

const portArbitrary = fc.record({
  name: fc.constantFrom('a', 'b', 'c', 'd'),
  frontends: fc.subarray(frontendPool),
  backends: fc.uniqueArray(
    fc.record({
      host: fc.integer({ min: 1, max: 30 }),
      local: fc.boolean(),
      usable: fc.boolean(),
      weight: fc.constantFrom(1, 1, 1, 2, 3),
    }),
    { selector: each => each.host, maxLength: 24 },
  ),
  affinitySeconds: fc.constantFrom(0, 60),
  scheduler: fc.constantFrom(...SCHEDULERS),
  externalLocal: fc.boolean(),
})

/** So many have the smallest table: larger ones take time and show nothing else. */
const TABLE_BACKENDS = 5

/** Frontends are given to the first that asks, as the planner does. */
const stateArbitrary = fc.uniqueArray(portArbitrary, { selector: each => each.name, maxLength: 4 }).map(ports => {
  const taken = new Set<Frontend>()
  return ports.map(({ name, frontends, backends, ...settings }): ServicePort => {
    const mine = frontends.filter(each => !taken.has(each))
    for (const each of mine) taken.add(each)
    return {
      id: `default/${name}:http/TCP/IPv4`,
      namespace: 'default',
      name,
      portName: 'http',
      protocol: 'TCP',
      family: 'IPv4',
      internalLocal: false,
      ...settings,
      frontends: mine,
      backends: (usesTable(settings.scheduler) ? backends.slice(0, TABLE_BACKENDS) : backends).map(
        ({ host, local, usable, weight }) => ({
          address: `10.244.0.${host}` as Address,
          port: 8080,
          local,
          inCluster: usable,
          inLocal: usable && local,
          weight,
        }),
      ),
    }
  })
})

function desired(revision: number, ports: readonly ServicePort[]): DesiredState {
  return { revision, services: new Map(ports.map(port => [port.id, port])) }
}

// --- what the maps say -----------------------------------------------------------

/** The whole content of the maps in words, nothing left out: equal states, equal text. */
function contentOf(maps: KernelMaps) {
  const dump = dumpMaps(maps)
  const { services, orphans } = adopt(dump)
  const endpointOf = new Map(dump.backends.map(each => [each.index, endpointKey(each.address, each.port)]))
  const slots = (scheduler: Scheduler, { members }: AppliedList) => {
    const endpoints = members.map(index => endpointOf.get(index) ?? 'nobody')
    return (usesTable(scheduler) ? endpoints : endpoints.sort()).join(' ')
  }
  return {
    services: services
      .map(each => ({
        id: each.id,
        settings: [each.scheduler, each.affinitySeconds, each.internalLocal, each.externalLocal],
        frontends: [...each.frontends.values()].map(f => `${f.kind} ${endpointKey(f.address, f.port)}`).sort(),
        backends: [...each.backends].map(([key, b]) => `${key} ${b.flags} ${b.weight}`).sort(),
        cluster: slots(each.scheduler, each.cluster),
        local: slots(each.scheduler, each.local),
      }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    addresses: [...dump.addresses.keys()].sort(),
    orphans,
  }
}

function contentWanted(ports: readonly ServicePort[]): ReturnType<typeof contentOf> {
  const key = (each: { address: Address; port: number }) => endpointKey(each.address, each.port)
  return {
    services: ports
      .map(each => ({
        id: each.id,
        settings: [each.scheduler, each.affinitySeconds, each.internalLocal, each.externalLocal],
        frontends: each.frontends.map(f => `${f.kind} ${key(f)}`).sort(),
        backends: each.backends.map(b => `${key(b)} ${backendFlags(b)} ${b.weight}`).sort(),
        cluster: slotsWanted(
          each,
          each.backends.filter(b => b.inCluster),
        ),
        local: slotsWanted(
          each,
          each.backends.filter(b => b.inLocal),
        ),
      }))
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    addresses: [
      ...new Set(ports.flatMap(each => each.frontends.filter(f => f.kind !== 'NodePort').map(f => f.address))),
    ].sort(),
    orphans: { names: [], frontends: [], addresses: [], backends: [] },
  }
}

/** A table in its order, any other list sorted: weights 1, 2 and 3 have no common divisor but equal ones. */
function slotsWanted({ id, scheduler }: ServicePort, backends: readonly Backend[]): string {
  const members = backends.map(each => ({ key: endpointKey(each.address, each.port), weight: each.weight }))
  if (usesTable(scheduler)) return Array.from(maglevTable(id, members), at => members[at]?.key).join(' ')
  const same = members.every(each => each.weight === members[0]?.weight)
  return members
    .flatMap(({ key, weight }) => Array.from({ length: same ? 1 : weight }, () => key))
    .sort()
    .join(' ')
}

/** What a packet may meet at any moment: no frontend leads nowhere, no list names a stranger. */
function expectServing(maps: KernelMaps, before: readonly ServicePort[], after: readonly ServicePort[]) {
  const dump = dumpMaps(maps)
  const owner = new Map(dump.backends.map(each => [each.index, each]))
  const names = new Map(dump.names.map(each => [each.index, each.id]))
  for (const frontend of dump.frontends) {
    const id = names.get(frontend.service)
    expect(id, `frontend ${frontend.address}:${frontend.port} leads to a named service`).toBeDefined()
    const service = dump.services.get(frontend.service)
    const known = [...before, ...after].filter(each => each.id === id).flatMap(each => each.backends)
    const allowed = new Set(known.map(each => endpointKey(each.address, each.port)))
    for (const index of new Set([...(service?.cluster.members ?? []), ...(service?.local.members ?? [])])) {
      const backend = owner.get(index)
      expect(backend?.service).toBe(frontend.service)
      expect(allowed).toContain(backend && endpointKey(backend.address, backend.port))
    }
    const has = (ports: readonly ServicePort[]) => ports.find(each => each.id === id)?.backends.some(b => b.inCluster)
    if (has(before) && has(after)) expect(service?.cluster.members.length).toBeGreaterThan(0)
  }
}

const RUNS = Number(process.env.N ?? 60)

describe('apply, interrupted', () => {
  test('a process that dies after any write leaves a state that serves, and the next one finishes', () => {
    fc.assert(
      fc.property(
        stateArbitrary,
        stateArbitrary,
        // Also in the middle of a table.
        fc.oneof(fc.integer({ min: 0, max: 80 }), fc.integer({ min: 0, max: 5000 })),
        fc.boolean(),
        (from, to, n, late) => {
          const maps = createMaps()
          try {
            const clock = new FakeClock()
            const first = startProcess(maps, clock)
            expect(first.applier.apply(desired(1, from), undefined, true).failed).toEqual([])
            clock.advance(5000)
            first.grace.stop()

            let dead = false
            const second = startProcess(maps, clock, write => {
              dead ||= write >= n
              return dead
            })
            second.applier.apply(desired(2, to), undefined, true)
            if (late) clock.advance(5000)
            second.grace.stop()
            expectServing(maps, from, to)

            const third = startProcess(maps, clock)
            expect(third.applier.apply(desired(3, to), undefined, true).failed).toEqual([])
            expectServing(maps, from, to)
            clock.advance(5000)
            expect(contentOf(maps)).toEqual(contentWanted(to))
            expect(third.applier.apply(desired(3, to), undefined, true).writes).toBe(0)
          } finally {
            maps.close()
          }
        },
      ),
      { numRuns: RUNS },
    )
  })

  test('a tenth of the writes fail: repeating apply ends at what is desired', () => {
    fc.assert(
      fc.property(stateArbitrary, stateArbitrary, fc.integer({ min: 0, max: 1e6 }), (from, to, seed) => {
        const maps = createMaps()
        try {
          const clock = new FakeClock()
          const { applier } = startProcess(maps, clock, refuseTenth(seed))
          for (const [revision, ports] of [from, to].entries()) {
            for (let round = 0; ; round++) {
              const { failed } = applier.apply(desired(revision + 1, ports), undefined, true)
              expectServing(maps, from, to)
              if (failed.length === 0) break
              expect(round).toBeLessThan(400)
            }
          }
          clock.advance(5000)
          const next = startProcess(maps, clock)
          next.applier.apply(desired(9, to), undefined, true)
          clock.advance(5000)
          expect(contentOf(maps)).toEqual(contentWanted(to))
        } finally {
          maps.close()
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('while sources are incomplete nothing that was adopted changes, and new Services are served', () => {
    fc.assert(
      fc.property(stateArbitrary, stateArbitrary, (from, to) => {
        const maps = createMaps()
        try {
          const clock = new FakeClock()
          const first = startProcess(maps, clock)
          first.applier.apply(desired(1, from), undefined, true)
          clock.advance(5000)
          first.grace.stop()
          const before = contentOf(maps)

          const second = startProcess(maps, clock)
          second.applier.apply(desired(2, to), undefined, false)
          clock.advance(5000)
          const now = contentOf(maps)
          for (const service of before.services) {
            const same = now.services.find(each => each.id === service.id)
            expect({ ...same, frontends: [] }).toEqual({ ...service, frontends: [] })
          }
          second.applier.apply(desired(3, to), new Set(), true)
          clock.advance(5000)
          expect(contentOf(maps)).toEqual(contentWanted(to))
        } finally {
          maps.close()
        }
      }),
      { numRuns: RUNS },
    )
  })
})
