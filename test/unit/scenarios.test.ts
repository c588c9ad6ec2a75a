import { describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config/read.js'
import { IndexPool } from '../../src/dataplane/ebpf/index-pool.js'
import { maglevSize, maglevTable } from '../../src/dataplane/ebpf/maglev.js'
import { convert, isAbsent } from '../../src/k8s/convert.js'
import type { Cidr } from '../../src/model/cidr.js'
import type { SourceEvent, WatchedKind } from '../../src/model/objects.js'
import { Planner, type PlannerOptions } from '../../src/plan/planner.js'
import { Store } from '../../src/state/store.js'
import { MemoryNode, tcp } from './memory-kit.js'
import { frozen, HERE } from './plan-kit.js'

/**
 * What went wrong with Services in the field, each report as a scenario with a number of its
 * own: raw objects in, desired state out.
 */

type Raw = Readonly<Record<string, unknown>>

/** An agent's control plane: raw objects through convert, store and planner, all of them frozen. */
class World {
  readonly #store = new Store()
  readonly planner: Planner
  /** Problems that were told, in order. */
  readonly told: string[] = []
  /** Those of the plan that are over. */
  readonly settled: string[] = []

  constructor(options: Partial<PlannerOptions> = {}) {
    this.planner = new Planner({ nodeName: HERE, nodePortAddresses: [], defaultScheduler: 'random', ...options })
  }

  /** The objects as a source delivers them; the ids of the Service ports that changed. */
  put(...objects: readonly Raw[]): string[] {
    return this.#apply(objects.flatMap(raw => eventsOf(raw)))
  }

  remove(...objects: readonly Raw[]): string[] {
    return this.#apply(objects.map(raw => ({ type: 'delete', kind: kindOf(raw), key: keyOf(raw) })))
  }

  synced(): string[] {
    return this.#apply((['Service', 'EndpointSlice', 'Node'] as const).map(kind => ({ type: 'synced', kind })))
  }

  /** `KIND ADDRESS:PORT` of all frontends of a Service, or of all Services. */
  frontends(service = ''): string[] {
    return this.#ports(service).flatMap(port =>
      port.frontends.map(each => `${each.kind} ${each.address} ${each.port}/${port.protocol}`),
    )
  }

  /** `ADDRESS:PORT LISTS` of the backends of a Service port. */
  backends(id: string): string[] {
    const lists = (each: { inCluster: boolean; inLocal: boolean }) =>
      [each.inCluster && 'cluster', each.inLocal && 'local'].filter(Boolean).join(' ') || 'kept'
    return (this.planner.state.services.get(id)?.backends ?? []).map(
      each => `${each.address}:${each.port} ${lists(each)}`,
    )
  }

  port(id = WEB) {
    return this.planner.state.services.get(id)
  }

  #ports(service: string) {
    const all = [...this.planner.state.services.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
    return all.filter(port => service === '' || port.name === service)
  }

  #apply(events: readonly SourceEvent[]): string[] {
    const change = this.#store.apply(frozen(events))
    const plan = this.planner.update(this.#store, change)
    for (const event of [...change.problems, ...plan.problems.filter(each => each.type === 'problem')]) {
      this.told.push(`${event.where}: ${event.field} ${event.message}`)
    }
    this.settled.push(...plan.problems.filter(each => each.type === 'resolved').map(each => each.where))
    return [...plan.changed].sort()
  }
}

const kindOf = (raw: Raw) => raw.kind as WatchedKind
function keyOf(raw: Raw): string {
  const { name, namespace = 'default' } = raw.metadata as { name: string; namespace?: string }
  return kindOf(raw) === 'Node' ? name : `${namespace}/${name}`
}

function eventsOf(raw: Raw): SourceEvent[] {
  const converted = convert(kindOf(raw), frozen(raw))
  const where = `${kindOf(raw)} ${keyOf(raw)}`
  const problems = converted.problems.map(({ field, message }) => ({ type: 'problem', where, field, message }) as const)
  if (converted.object !== undefined) return [...problems, { type: 'upsert', object: converted.object }]
  return isAbsent(converted) ? [{ type: 'delete', kind: kindOf(raw), key: keyOf(raw) }] : problems
}

const WEB = 'default/web:/TCP/IPv4'
const V = '203.0.113.10'

function service(spec: Raw = {}, more: Raw & { labels?: Raw; name?: string; created?: string } = {}): Raw {
  const { labels, name = 'web', created, ...rest } = more
  return {
    kind: 'Service',
    metadata: { name, ...(labels && { labels }), ...(created && { creationTimestamp: created }) },
    spec: { clusterIP: V, ports: [{ port: 80 }], ...spec },
    ...rest,
  }
}

function slice(endpoints: readonly unknown[], part: Raw & { name?: string; of?: string } = {}): Raw {
  const { name = 'web-1', of = 'web', ...rest } = part
  return {
    kind: 'EndpointSlice',
    metadata: { name, labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    ports: [{ port: 8080 }],
    endpoints,
    ...rest,
  }
}

const node = (name: string, ...addresses: string[]): Raw => ({
  kind: 'Node',
  metadata: { name },
  status: { addresses: addresses.map(address => ({ type: 'InternalIP', address })) },
})

/** a1 is on this node, b1 on another one. */
const a1 = { addresses: ['198.51.100.11'], nodeName: HERE }
const b1 = { addresses: ['198.51.100.141'], nodeName: 'node-b' }
const b2 = { addresses: ['198.51.100.142'], nodeName: 'node-b' }

/** The same list in another order for each seed. */
function shuffled<T>(list: readonly T[], seed: number): T[] {
  const rest = [...list]
  const out: T[] = []
  for (let state = seed + 1; rest.length > 0; ) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    out.push(...rest.splice((state >> 8) % rest.length, 1))
  }
  return out
}

describe('readiness and termination', () => {
  test('B005: an endpoint that is not ready changes nothing, and is there once it is', () => {
    const world = new World()
    world.put(service({ ports: [{ port: 80, protocol: 'UDP' }] }))
    const ports = [{ port: 8080, protocol: 'UDP' }]
    const unready = { ...b1, conditions: { ready: false, serving: false } }
    expect(world.put(slice([unready], { ports }))).toEqual([])
    expect(world.put(slice([b1], { ports }))).toEqual(['default/web:/UDP/IPv4'])
    expect(world.backends('default/web:/UDP/IPv4')).toEqual(['198.51.100.141:8080 cluster'])
  })

  const values = [true, false, undefined]
  const rows = values.flatMap(ready =>
    values.flatMap(serving => values.map(terminating => ({ ready, serving, terminating }))),
  )
  /** What an endpoint is for, alone and beside a ready one. */
  test.each(rows)('B044: conditions %j', conditions => {
    const { ready = true, serving = true, terminating = false } = conditions
    const wanted = ready
      ? ['cluster local', 'cluster local']
      : serving
        ? [terminating ? 'cluster local' : 'kept', 'kept']
        : [undefined, undefined]
    const seen = [[], [{ ...a1, addresses: ['198.51.100.12'] }]].map(others => {
      const world = new World()
      world.put(service(), slice([{ ...a1, conditions }, ...others]))
      return world.backends(WEB).find(each => each.startsWith('198.51.100.11:'))
    })
    expect(seen).toEqual(wanted.map(lists => lists && `198.51.100.11:8080 ${lists}`))
  })

  test('B073: frontends of every kind, policy, affinity and source range without endpoints: there to refuse', () => {
    for (const policy of ['Cluster', 'Local']) {
      for (const sessionAffinity of ['None', 'ClientIP']) {
        for (const loadBalancerSourceRanges of [undefined, ['192.0.2.0/24'], ['bad']]) {
          for (const endpoints of [undefined, []]) {
            const world = new World()
            world.put(
              node(HERE, '192.0.2.10'),
              service(
                {
                  type: 'LoadBalancer',
                  externalIPs: ['203.0.113.150'],
                  ports: [{ port: 80, nodePort: 30080 }],
                  internalTrafficPolicy: policy,
                  externalTrafficPolicy: policy,
                  sessionAffinity,
                  loadBalancerSourceRanges,
                },
                { status: { loadBalancer: { ingress: [{ ip: '203.0.113.140' }] } } },
              ),
              ...(endpoints ? [slice(endpoints)] : []),
            )
            expect(world.frontends()).toEqual([
              `ClusterIP ${V} 80/TCP`,
              'ExternalIP 203.0.113.150 80/TCP',
              'LoadBalancer 203.0.113.140 80/TCP',
              'NodePort 192.0.2.10 30080/TCP',
            ])
            expect(world.backends(WEB)).toEqual([])
          }
        }
      }
    }
  })
})

describe('session affinity', () => {
  test('B022: the timeout is seconds, 10,800 if the object does not say it', () => {
    const world = new World()
    world.put(service({ sessionAffinity: 'ClientIP' }))
    expect(world.port()?.affinitySeconds).toBe(10_800)
    world.put(service({ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } }))
    expect(world.port()?.affinitySeconds).toBe(10_800)
  })

  test('B026: each port of a Service binds clients by itself', () => {
    const world = new World()
    const ports = [
      { name: 'a', port: 80 },
      { name: 'b', port: 443 },
    ]
    world.put(service({ sessionAffinity: 'ClientIP', ports }))
    const ids = ['default/web:a/TCP/IPv4', 'default/web:b/TCP/IPv4']
    expect(ids.map(id => world.port(id)?.affinitySeconds)).toEqual([10_800, 10_800])
  })

  test('B027: with affinity, Maglev chooses by the client alone: every port of it, every node, one backend', () => {
    const sticky = { sessionAffinity: 'ClientIP' }
    for (const [scheduler, spec, want] of [
      ['maglev', sticky, 'source-hash'],
      ['maglev', {}, 'maglev'],
      ['rr', sticky, 'rr'],
    ] as const) {
      const world = new World({ defaultScheduler: scheduler })
      world.put(service(spec), slice([a1, b1]))
      expect(world.port()?.scheduler).toBe(want)
    }
  })

  test('B028: an edited timeout is followed', () => {
    const world = new World()
    const lasting = (timeoutSeconds: number) =>
      service({ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds } } })
    world.put(lasting(60))
    expect(world.port()?.affinitySeconds).toBe(60)
    expect(world.put(lasting(120))).toEqual([WEB])
    expect(world.port()?.affinitySeconds).toBe(120)
  })
})

describe('what is local', () => {
  test('B034: a Local node port has the endpoints of this node alone', () => {
    const world = new World()
    world.put(
      node(HERE, '192.0.2.10'),
      service({ type: 'NodePort', externalTrafficPolicy: 'Local', ports: [{ port: 80, nodePort: 30080 }] }),
      slice([a1, b1]),
    )
    expect(world.backends(WEB)).toEqual(['198.51.100.11:8080 cluster local', '198.51.100.141:8080 cluster'])
    expect(world.port()).toMatchObject({ internalLocal: false, externalLocal: true })
  })

  test('B035: each policy binds its own side', () => {
    const world = new World()
    const external = { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] }
    world.put(service({ ...external, externalTrafficPolicy: 'Local' }), slice([b1]))
    expect(world.port()).toMatchObject({ internalLocal: false, externalLocal: true })
    expect(world.backends(WEB)).toEqual(['198.51.100.141:8080 cluster'])
    world.put(service({ ...external, internalTrafficPolicy: 'Local' }))
    expect(world.port()).toMatchObject({ internalLocal: true, externalLocal: false })
  })

  test('B036: a node name that no Node has is told, and endpoints of the right one are local', () => {
    const wrong = new World({ nodeName: 'NODE-A' })
    wrong.put(node('node-a', '192.0.2.10'), service(), slice([{ ...a1, nodeName: 'node-a' }]))
    wrong.synced()
    expect(wrong.told).toEqual([
      'node NODE-A: metadata.name no Node object has this name, so no node port is served; correct the node name or add the Node',
    ])
    expect(wrong.backends(WEB)).toEqual(['198.51.100.11:8080 cluster'])
    const right = new World({ nodeName: 'node-a' })
    right.put(node('node-a', '192.0.2.10'), service(), slice([{ ...a1, nodeName: 'node-a' }]))
    right.synced()
    expect([right.told, right.backends(WEB)]).toEqual([[], ['198.51.100.11:8080 cluster local']])
  })

  test('B039: endpoints without node name are local nowhere', () => {
    const world = new World()
    world.put(service(), slice([{ addresses: ['192.0.2.201'] }, { addresses: ['192.0.2.202'] }]))
    expect(world.backends(WEB)).toEqual(['192.0.2.201:8080 cluster', '192.0.2.202:8080 cluster'])
  })

  const hint = (zone: string, last: number, ready = true) => ({
    addresses: [`198.51.100.${last}`],
    conditions: { ready, serving: ready },
    ...(zone && { hints: { forZones: [{ name: zone }] } }),
  })
  test.each([
    ['the hinted endpoint is not ready', 'z1', [hint('z1', 1, false), hint('z2', 2), hint('z2', 3)], [2, 3]],
    ['an endpoint without hint', 'z1', [hint('z1', 1), hint('z2', 2), hint('', 3)], [1, 2, 3]],
    ['a node without zone', '', [hint('z1', 1), hint('z2', 2)], [1, 2]],
    ['hints for a zone that is not ours', 'z1', [hint('z9', 1), hint('z8', 2)], [1, 2]],
  ])('B040: hints: %s', (_, zone, endpoints, want) => {
    const world = new World()
    const labels = zone === '' ? {} : { 'topology.kubernetes.io/zone': zone }
    world.put({ kind: 'Node', metadata: { name: HERE, labels } }, service(), slice(endpoints))
    expect(world.backends(WEB)).toEqual(want.map(last => `198.51.100.${last}:8080 cluster`))
  })
})

describe('slices', () => {
  test('B047: one address with two ports is two backends', () => {
    const ports = (port: number) => [{ name: 'web', port }]
    const world = new World()
    const host = { addresses: ['192.0.2.10'] }
    world.put(
      service({ ports: [{ name: 'web', port: 80 }] }),
      slice([host], { ports: ports(8080) }),
      slice([host], { ports: ports(8081), name: 'web-2' }),
    )
    expect(world.backends('default/web:web/TCP/IPv4')).toEqual(['192.0.2.10:8080 cluster', '192.0.2.10:8081 cluster'])
  })

  const pod = (name: string, conditions: Raw) => ({ ...a1, conditions, targetRef: { kind: 'Pod', name } })
  test.each([
    ['different pods', pod('old', { ready: false, serving: true, terminating: true }), pod('new', { ready: true })],
    ['one pod', pod('same', { ready: false, serving: false }), pod('same', { ready: true })],
  ])('B048: an address in two slices, of %s: the more usable counts, whichever came first', (_, worse, better) => {
    for (const [first, second] of [
      [worse, better],
      [better, worse],
    ] as const) {
      const world = new World()
      world.put(service(), slice([first]))
      world.put(slice([second], { name: 'web-2' }))
      expect(world.backends(WEB)).toEqual(['198.51.100.11:8080 cluster local'])
    }
  })

  test('B049: an address that one slice lists ready and not ready: in 1,000 orders the same, and then no change', () => {
    const world = new World()
    const twice = [a1, { ...a1, conditions: { ready: false } }, b1, { ...b2, conditions: { ready: false } }, b2]
    world.put(service(), slice(twice))
    const first = world.port()
    for (let seed = 0; seed < 1000; seed++) expect(world.put(slice(shuffled(twice, seed)))).toEqual([])
    expect(world.port()).toBe(first)
  })

  test('B052: objects that are watched are never changed by us', () => {
    const ports = [
      { name: 'z', port: 443 },
      { name: 'a', port: 80 },
    ]
    const raw = [
      node(HERE, '192.0.2.11', '192.0.2.10'),
      service({ type: 'NodePort', ports, externalIPs: ['203.0.113.151', '203.0.113.150'] }),
      slice([b2, b1, a1], { ports }),
    ]
    const before = structuredClone(raw)
    const world = new World()
    world.put(...raw)
    world.remove(...raw)
    expect(raw).toEqual(before)
    expect(raw.every(Object.isFrozen)).toBe(true)
  })

  test('B054: entries of a foreign family are left out one by one, and told once', () => {
    const world = new World()
    const foreign = slice([{ addresses: ['2001:db8::1'] }, a1])
    const names = slice([{ addresses: ['a.example'] }], { name: 'names', addressType: 'FQDN' })
    world.put(service(), foreign, names, service({ clusterIP: '2001:db8:3::10' }, { name: 'six' }))
    for (let again = 0; again < 100; again++) world.put(foreign, names)
    expect(world.backends(WEB)).toEqual(['198.51.100.11:8080 cluster local'])
    expect(world.told).toEqual([
      'EndpointSlice default/web-1: endpoints[0].addresses[0] 2001:db8::1 is not IPv4 as addressType says (endpoint skipped)',
    ])
  })

  test.each([
    [undefined, 9376],
    [8080, 9090],
    ['http', 9090],
  ])('B055: targetPort %s, the slice says %d: that is the number', (targetPort, port) => {
    const world = new World()
    world.put(service({ ports: [{ port: 80, targetPort }] }), slice([a1], { ports: [{ port }] }))
    expect(world.backends(WEB)).toEqual([`198.51.100.11:${port} cluster local`])
  })

  test('B056: a port has the endpoints of the slices that list it', () => {
    const es = { name: 'es', port: 9200 }
    const mq = { name: 'mq', port: 5672 }
    const world = new World()
    world.put(
      service({ ports: [es, mq] }),
      slice([a1], { ports: [es] }),
      slice([b1], { ports: [mq], name: 'web-2' }),
      slice([b2], { ports: [es, mq], name: 'web-3' }),
    )
    expect(world.backends('default/web:es/TCP/IPv4')).toEqual([
      '198.51.100.11:9200 cluster local',
      '198.51.100.142:9200 cluster',
    ])
    expect(world.backends('default/web:mq/TCP/IPv4')).toEqual([
      '198.51.100.141:5672 cluster',
      '198.51.100.142:5672 cluster',
    ])
  })

  test('B057: one name, a number for each endpoint', () => {
    const world = new World()
    world.put(
      service({ ports: [{ name: 'http', port: 80 }] }),
      slice([a1], { ports: [{ name: 'http', port: 8080 }] }),
      slice([b1], { ports: [{ name: 'http', port: 9090 }], name: 'web-2' }),
    )
    expect(world.backends('default/web:http/TCP/IPv4')).toEqual([
      '198.51.100.11:8080 cluster local',
      '198.51.100.141:9090 cluster',
    ])
  })
})

describe('Services', () => {
  test('B058: TCP and UDP of one number are two, at one Service and at an address that two share', () => {
    const udp = { name: 'dns', port: 53, protocol: 'UDP' }
    const tcp = { name: 'dns', port: 53 }
    const ports = [
      { name: 'dns', port: 1053, protocol: 'UDP' },
      { name: 'dns-tcp', port: 2053 },
    ]
    const world = new World()
    world.put(service({ ports: [udp, { ...tcp, name: 'dns-tcp' }] }), slice([a1], { ports }))
    expect(world.backends('default/web:dns/UDP/IPv4')).toEqual(['198.51.100.11:1053 cluster local'])
    expect(world.backends('default/web:dns-tcp/TCP/IPv4')).toEqual(['198.51.100.11:2053 cluster local'])
    expect(world.put(service({ ports: [{ ...tcp, name: 'dns-tcp' }] }))).toEqual(['default/web:dns/UDP/IPv4'])

    const shared = (name: string, clusterIP: string, protocol: string) =>
      service(
        { type: 'LoadBalancer', clusterIP, ports: [{ port: 443, protocol }] },
        { name, status: { loadBalancer: { ingress: [{ ip: '203.0.113.140' }] } } },
      )
    world.put(shared('s1', '203.0.113.11', 'TCP'), shared('s2', '203.0.113.12', 'UDP'))
    expect(world.frontends('s1')).toContain('LoadBalancer 203.0.113.140 443/TCP')
    expect(world.frontends('s2')).toContain('LoadBalancer 203.0.113.140 443/UDP')
    expect(world.told).toEqual([])
  })

  test.each([
    ['with an external address', { externalIPs: ['203.0.113.140'] }],
    ['without ports', { ports: undefined }],
    ['of type NodePort', { type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] }],
  ])('B059: a headless Service %s is nothing, one that gets an address is new', (_, spec) => {
    const world = new World()
    expect(world.put(service({ ...spec, clusterIP: 'None' }), slice([a1]))).toEqual([])
    expect([world.frontends(), world.told]).toEqual([[], []])
    expect(world.put(service())).toEqual([WEB])
  })

  test("B060: another proxy's label takes a living Service away, and gives it back", () => {
    const world = new World()
    const labels = { 'service.kubernetes.io/service-proxy-name': 'other' }
    world.put(service(), slice([a1]))
    expect(world.put(service({}, { labels }))).toEqual([WEB])
    expect(world.frontends()).toEqual([])
    world.put(service())
    expect(world.backends(WEB)).toEqual(['198.51.100.11:8080 cluster local'])
    // So does the server's delete event, when the label no longer matches what is watched.
    world.remove(service({}, { labels }))
    expect(world.frontends()).toEqual([])
  })

  test('B061: to ExternalName and back, without a word from the slice', () => {
    const world = new World()
    const before = service({ type: 'NodePort', ports: [{ port: 80, nodePort: 30080 }] })
    world.put(node(HERE, '192.0.2.10'), before, slice([a1]))
    const frontends = world.frontends()
    expect(frontends).toHaveLength(2)
    world.put(service({ type: 'ExternalName', externalName: 'example.com' }))
    expect(world.frontends()).toEqual([])
    world.put(before)
    expect(world.frontends()).toEqual(frontends)
    expect(world.backends(WEB)).toEqual(['198.51.100.11:8080 cluster local'])
  })

  test('B062: of the addresses of a load balancer only those that nodes may answer, also when that changes', () => {
    const world = new World()
    const balanced = (...modes: (string | undefined)[]) =>
      service(
        { type: 'LoadBalancer' },
        {
          status: {
            loadBalancer: {
              ingress: [
                ...modes.map((ipMode, i) => ({ ip: `203.0.113.14${i}`, ...(ipMode && { ipMode }) })),
                { hostname: 'x' },
              ],
            },
          },
        },
      )
    const served = () => world.frontends().filter(each => each.startsWith('LoadBalancer'))
    world.put(balanced('VIP', 'Proxy'))
    expect(served()).toEqual(['LoadBalancer 203.0.113.140 80/TCP'])
    world.put(balanced('Proxy', undefined))
    expect(served()).toEqual(['LoadBalancer 203.0.113.141 80/TCP'])
  })

  test('B064: an external address that two claim is the older one’s in every order, and changes hands at once', () => {
    const claim = (name: string, last: number, created: string) =>
      service({ clusterIP: `203.0.113.${last}`, externalIPs: ['203.0.113.200'] }, { name, created })
    const both = [claim('s1', 11, '2026-01-02T00:00:00Z'), claim('s2', 12, '2026-01-01T00:00:00Z')]
    const external = 'ExternalIP 203.0.113.200 80/TCP'
    for (let restart = 0; restart < 5; restart++) {
      const world = new World()
      world.put(...shuffled(both, restart))
      expect([world.frontends('s1').includes(external), world.frontends('s2').includes(external)]).toEqual([
        false,
        true,
      ])
      expect(world.told).toEqual([
        'default/s1:/TCP/IPv4: frontends not served: 203.0.113.200:80 is ExternalIP of default/s2:/TCP/IPv4; choose another address or port',
      ])
      world.remove(both[1] as Raw)
      expect(world.frontends('s1')).toContain(external)
    }
  })

  test('B065: no external address takes what belongs to the machine or to the API server', () => {
    const world = new World()
    const apiServer = slice([{ addresses: ['192.0.2.30'] }], {
      of: 'kubernetes',
      name: 'kubernetes',
      ports: [{ port: 6443 }],
    })
    const externalIPs = ['127.0.0.1', '0.0.0.0', '224.0.0.1', '192.0.2.30', '192.0.2.10', '203.0.113.250']
    world.put(node(HERE, '192.0.2.10'), apiServer, service({ externalIPs, ports: [{ port: 6443 }] }))
    // The node's own address is taken for the one port that the Service lists.
    expect(world.frontends()).toEqual([
      `ClusterIP ${V} 6443/TCP`,
      'ExternalIP 192.0.2.10 6443/TCP',
      'ExternalIP 203.0.113.250 6443/TCP',
    ])
    expect(world.told.map(each => each.replace(/^(\S+ ?\S*): .*/, '$1'))).toEqual([
      'Service default/web',
      'Service default/web',
      'Service default/web',
      'default/web:/TCP/IPv4',
    ])
  })

  test('B065: with an allow list external addresses outside of it are not served, and that is told', () => {
    const world = new World({ externalIPCIDRs: ['203.0.113.128/26', '2001:db8:4::/48'] as Cidr[] })
    const externalIPs = ['203.0.113.140', '203.0.113.250', '2001:db8:4::1', '2001:db8:5::1']
    world.put(
      service(
        { type: 'LoadBalancer', clusterIPs: [V, '2001:db8:3::10'], externalIPs },
        { status: { loadBalancer: { ingress: [{ ip: '203.0.113.251' }] } } },
      ),
    )
    expect(world.frontends().filter(each => !each.startsWith('ClusterIP'))).toEqual([
      'ExternalIP 203.0.113.140 80/TCP',
      'LoadBalancer 203.0.113.251 80/TCP',
      'ExternalIP 2001:db8:4::1 80/TCP',
    ])
    const outside = 'is outside of --external-ip-cidrs; choose another address, or add its network there'
    expect(world.told).toEqual([
      `default/web:/TCP/IPv4: frontends not served: 203.0.113.250:80 ${outside}`,
      `default/web:/TCP/IPv6: frontends not served: [2001:db8:5::1]:80 ${outside}`,
    ])
    const nobody = new World({ externalIPCIDRs: [] })
    nobody.put(service({ externalIPs }))
    expect(nobody.frontends()).toEqual([`ClusterIP ${V} 80/TCP`])
  })

  test('B068: source ranges bind load-balancer addresses, not node ports', () => {
    const memory = new MemoryNode()
    memory.apply({
      frontends: ['LoadBalancer 203.0.113.140:80', 'NodePort 192.168.0.1:30080'],
      backends: ['10.0.1.5:8080 here'],
      sourceRanges: { ranges: [], node: false, pods: false },
    })
    const at = (to: string) => memory.send(tcp('203.0.113.7:40000', to, 'S')).outcome
    expect(at('203.0.113.140:80')).not.toBe(at('192.168.0.1:30080'))
    expect(at('192.168.0.1:30080')).toBe('delivered')
  })

  test('B069: 50 good Services and one with an address of another family: 51 served, one warning', () => {
    const world = new World()
    const many = Array.from({ length: 50 }, (_, i) =>
      service({ clusterIP: `2001:db8:3::${i + 1}`, externalIPs: [`2001:db8:4::${i + 1}`] }, { name: `s${i}` }),
    )
    world.put(...many, service({ clusterIP: '2001:db8:3::ffff', externalIPs: ['203.0.113.5'] }))
    expect(world.frontends()).toHaveLength(101)
    expect(world.told).toEqual([
      'Service default/web: spec.externalIPs[0] 203.0.113.5 is IPv4, and the Service has no such cluster IP (skipped)',
    ])
  })

  test('B071: source ranges that cannot be read are left out, and never mean open', () => {
    const ranged = (loadBalancerSourceRanges: unknown[]) =>
      service(
        { type: 'LoadBalancer', loadBalancerSourceRanges },
        { status: { loadBalancer: { ingress: [{ ip: '203.0.113.140' }] } } },
      )
    const world = new World()
    world.put(ranged([' 192.0.2.0/24 ', '192.0.2.1', 'banana', '', '::/0', '192.0.2.5/24']))
    expect(world.port()?.sourceRanges?.ranges).toEqual(['192.0.2.0/24'])
    expect(world.told).toHaveLength(3)
    world.put(ranged(['banana', '']))
    expect(world.port()?.sourceRanges?.ranges).toEqual([])
  })

  test('B096: a link-local address of the Node serves no node port, and that is told', () => {
    const spec = { type: 'NodePort', clusterIP: '2001:db8:3::10', ports: [{ port: 80, nodePort: 30080 }] }
    const world = new World()
    world.put(node(HERE, 'fe80::1', '2001:db8:1::10'), service(spec))
    expect(world.frontends()).toEqual(['ClusterIP 2001:db8:3::10 80/TCP', 'NodePort 2001:db8:1::10 30080/TCP'])
    world.synced()
    expect(world.told).toEqual([
      expect.stringContaining('Node node-a: status.addresses[0].address fe80::1 is a link-local address'),
    ])
    world.put(node(HERE, 'fe80::1', '192.0.2.10'))
    expect(world.frontends()).toEqual(['ClusterIP 2001:db8:3::10 80/TCP'])
    world.put(service({ ...spec, ports: [{ port: 81, nodePort: 30081 }] }))
    expect(world.told.slice(1)).toEqual([
      'node node-a: status.addresses has no IPv6 address for node ports, so node ports of that family are silent; add one to the Node, or widen --nodeport-addresses',
    ])
    expect(world.settled).toEqual([])
    world.remove(service(spec))
    expect(world.settled).toEqual(['node node-a'])
  })
})

describe('around the plan', () => {
  const read = (flags: Record<string, string[]>, file?: string) =>
    readConfig({
      flags: new Map(Object.entries(flags)),
      unknownFlags: [],
      environment: {},
      file: file === undefined ? undefined : { path: '/etc/waggle.yaml', text: file },
      machine: { hostname: 'node-a', cgroup: '/sys/fs/cgroup' },
    }).config

  const addresses = [
    ['192.0.2.10:1', { host: '192.0.2.10', port: 1 }],
    ['[2001:db8::1]:2', { host: '2001:db8::1', port: 2 }],
    ['[::]:3', { host: '::', port: 3 }],
  ] as const
  test.each(
    (['health', 'metrics'] as const).flatMap(which => addresses.map(([text, want]) => ({ which, text, want }))),
  )('B127: $which address $text, from flag, file and both', ({ which, text, want }) => {
    const key = which === 'health' ? 'healthzBindAddress' : 'metricsBindAddress'
    const flag = which === 'health' ? 'healthz-bind-address' : 'metrics-bind-address'
    expect(read({ [flag]: [text] })[key]).toEqual(want)
    expect(read({}, `${key}: "${text}"\n`)[key]).toEqual(want)
    expect(read({ [flag]: [text] }, `${key}: "192.0.2.99:9"\n`)[key]).toEqual(want)
    expect(read({})[key]).toMatchObject({ port: which === 'health' ? 10256 : 10249 })
  })

  test('B151: 70,000 indexes, then 300,000 releases and allocations: none twice, none before its rest is over', {
    timeout: 60_000,
  }, () => {
    const restMs = 1000
    const pool = new IndexPool(70_001 + 5000, restMs)
    const taken: number[] = []
    const inUse = new Set<number>()
    const released = new Map<number, number>()
    const take = (now: number) => {
      const index = pool.allocate(now) as number
      if (index === undefined || inUse.has(index) || now - (released.get(index) ?? -restMs) < restMs) {
        throw new Error(`${index} at ${now}`)
      }
      inUse.add(index)
      taken.push(index)
    }
    for (let i = 0; i < 70_000; i++) take(0)
    expect(Math.max(...taken.slice(-1))).toBeGreaterThan(65_535)
    let state = 1
    for (let now = 1; now <= 300_000; now++) {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
      const at = (state >> 8) % taken.length
      const index = taken[at] as number
      taken[at] = taken[taken.length - 1] as number
      taken.pop()
      inUse.delete(index)
      released.set(index, now)
      pool.release(index, now)
      take(now)
    }
    expect(inUse.size).toBe(70_000)
  })

  test('B156: the consistent table is the same for every order of backends, and hardly moves', {
    timeout: 60_000,
  }, () => {
    const all = Array.from({ length: 50 }, (_, i) => ({ key: `10.244.0.${i}|8080`, weight: 1 }))
    const tableOf = (members: typeof all) =>
      Array.from(maglevTable('shop/web:/TCP/IPv4', members), i => members[i]?.key)
    const table = tableOf(all)
    for (let seed = 0; seed < 30; seed++) expect(tableOf(shuffled(all, seed))).toEqual(table)
    const fewer = all.slice(1)
    expect(maglevSize(fewer)).toBe(maglevSize(all))
    const after = tableOf(fewer)
    const moved = table.filter((key, slot) => key !== all[0]?.key && key !== after[slot]).length
    expect(moved / table.length).toBeLessThan(0.05)
    // Of another size: no slot is empty.
    expect(tableOf(all.slice(0, 3)).every(Boolean)).toBe(true)
  })
})
