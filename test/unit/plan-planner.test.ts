import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { DesiredState, ServicePort } from '../../src/model/desired.js'
import type { SourceEvent, WatchedObject } from '../../src/model/objects.js'
import { Planner } from '../../src/plan/planner.js'
import { Store } from '../../src/state/store.js'
import { address, bench, endpoint, frozen, HERE, service, slice } from './plan-kit.js'

const WEB = 'default/web:http/TCP/IPv4'
const node = (...ips: string[]): WatchedObject => ({ kind: 'Node', name: HERE, internalIPs: ips.map(address) })

describe('Service ports', () => {
  test('one for each port and family; frontends and backends share the family', () => {
    const { put, planner } = bench()
    const plan = put(
      node('192.0.2.10', '2001:db8:1::10'),
      service({
        clusterIPs: ['203.0.113.10', '2001:db8:3::10'].map(address),
        externalIPs: ['203.0.113.140', '2001:db8:4::1'].map(address),
        loadBalancerIPs: ['203.0.113.141'].map(address),
        ports: [
          { name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 },
          { name: 'dns', protocol: 'UDP', port: 53, nodePort: 0 },
        ],
        affinitySeconds: 60,
        externalLocal: true,
      }),
      slice('v4', ['198.51.100.11 ready here']),
      slice('v6', ['2001:db8:2::11 ready']),
    )
    expect([...plan.changed].sort()).toEqual([
      'default/web:dns/UDP/IPv4',
      'default/web:dns/UDP/IPv6',
      'default/web:http/TCP/IPv4',
      'default/web:http/TCP/IPv6',
    ])
    expect(planner.state.services.get(WEB)).toEqual({
      id: WEB,
      namespace: 'default',
      name: 'web',
      portName: 'http',
      protocol: 'TCP',
      family: 'IPv4',
      scheduler: 'random',
      affinitySeconds: 60,
      internalLocal: false,
      externalLocal: true,
      frontends: [
        { kind: 'ClusterIP', address: '203.0.113.10', port: 80 },
        { kind: 'ExternalIP', address: '203.0.113.140', port: 80 },
        { kind: 'LoadBalancer', address: '203.0.113.141', port: 80 },
        { kind: 'NodePort', address: '192.0.2.10', port: 30080 },
      ],
      backends: [{ address: '198.51.100.11', port: 8080, local: true, inCluster: true, inLocal: true, weight: 1 }],
    })
    const v6 = planner.state.services.get('default/web:http/TCP/IPv6')
    expect(v6?.frontends.map(f => f.address)).toEqual(['2001:db8:3::10', '2001:db8:4::1', '2001:db8:1::10'])
    expect(v6?.backends.map(b => b.address)).toEqual(['2001:db8:2::11'])
  })

  test('without slices a Service port has frontends and no backends', () => {
    const { put, planner } = bench()
    put(service({ affinitySeconds: 10800, internalLocal: true }))
    expect(planner.state.services.get(WEB)).toMatchObject({ backends: [], frontends: [{ address: '203.0.113.10' }] })
  })

  test('a family without cluster IP is not served, external addresses of it neither', () => {
    const { put, planner } = bench()
    put(service({ clusterIPs: [], externalIPs: [address('203.0.113.140')] }))
    expect(planner.state.services.size).toBe(0)
  })

  test('the Service chooses the scheduler, else the node', () => {
    const { put, planner } = bench({ defaultScheduler: 'rr' })
    put(service(), service({ name: 'other', clusterIPs: [address('203.0.113.11')], scheduler: 'random' }))
    expect(planner.state.services.get(WEB)?.scheduler).toBe('rr')
    expect(planner.state.services.get('default/other:http/TCP/IPv4')?.scheduler).toBe('random')
  })

  test('an address that is external IP and load-balancer address at once is one frontend, bound by source ranges', () => {
    const { put, frontends } = bench()
    const twice = [address('203.0.113.140')]
    put(service({ externalIPs: twice, loadBalancerIPs: twice }))
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 80', 'LoadBalancer 203.0.113.140 80'])
  })

  test('slices that come before their Service, and outlive it, count when it is there', () => {
    const { put, remove, planner } = bench()
    expect(put(slice('a', ['198.51.100.11 ready'])).changed.size).toBe(0)
    put(service())
    expect(planner.state.services.get(WEB)?.backends).toHaveLength(1)
    expect([...remove('Service', 'default/web').changed]).toEqual([WEB])
    expect(planner.state.services.size).toBe(0)
    put(service())
    expect(planner.state.services.get(WEB)?.backends).toHaveLength(1)
  })
})

describe('what did not change', () => {
  test('keeps its identity, and the state its revision', () => {
    const { put, planner } = bench()
    const other = service({ name: 'other', clusterIPs: [address('203.0.113.11')] })
    put(service(), other, slice('a', ['198.51.100.11 ready', '198.51.100.12 ready']))
    const before = planner.state
    const port = before.services.get(WEB)
    const otherPort = before.services.get('default/other:http/TCP/IPv4')

    // A relist, other order of endpoints, and the same endpoints spread over two slices.
    expect(put(service(), slice('a', ['198.51.100.12 ready', '198.51.100.11 ready'])).changed.size).toBe(0)
    put(slice('b', ['198.51.100.12 ready']))
    put(slice('a', ['198.51.100.11 ready']))
    expect(planner.state).toBe(before)

    const plan = put(slice('b', ['198.51.100.12 serving terminating']))
    expect([...plan.changed]).toEqual([WEB])
    expect(plan.state.revision).toBe(before.revision + 1)
    const next = plan.state.services.get(WEB)
    expect(next?.frontends).toBe(port?.frontends)
    expect(next?.backends[0]).toBe(port?.backends[0])
    expect(plan.state.services.get('default/other:http/TCP/IPv4')).toBe(otherPort)
    // The earlier state still says what it said.
    expect(before.services.get(WEB)).toBe(port)
  })

  test('an endpoint that is not ready yet changes nothing; once it is, it does', () => {
    const { put } = bench()
    put(service(), slice('a', ['198.51.100.11 ready']))
    expect(put(slice('a', ['198.51.100.11 ready', '198.51.100.141'])).changed.size).toBe(0)
    expect(put(slice('a', ['198.51.100.11 ready', '198.51.100.141 ready'])).changed.size).toBe(1)
  })
})

describe('whatever may change is noticed', () => {
  const base = service({ externalIPs: [address('203.0.113.140')] })
  const port = { name: 'http', protocol: 'TCP', port: 80, nodePort: 0 } as const
  test.each([
    ['scheduler', service({ ...base, scheduler: 'rr' })],
    ['affinity', service({ ...base, affinitySeconds: 120 })],
    ['internal policy', service({ ...base, internalLocal: true })],
    ['external policy', service({ ...base, externalLocal: true })],
    ['cluster IP', service({ ...base, clusterIPs: [address('203.0.113.11')] })],
    ['kind of an address', service({ ...base, externalIPs: [], loadBalancerIPs: [address('203.0.113.140')] })],
    ['an address less', service({ ...base, externalIPs: [] })],
    ['port', service({ ...base, ports: [{ ...port, port: 81 }] })],
    ['node port', service({ ...base, ports: [{ ...port, nodePort: 30080 }] })],
    ['backend port', slice('a', ['198.51.100.11 ready here'], { ports: [{ ...port, port: 9090 }] })],
    ['backend more', slice('a', ['198.51.100.11 ready here', '198.51.100.12 ready'])],
    ['backend less', slice('a', [], { family: 'IPv4' })],
    ['backend elsewhere', slice('a', ['198.51.100.11 ready'])],
    [
      'backend drains beside a ready one here',
      slice('a', ['198.51.100.11 serving terminating here', '198.51.100.12 ready here']),
    ],
  ])('%s', (_, object) => {
    const { put, planner } = bench()
    put(node('192.0.2.10'), base, slice('a', ['198.51.100.11 ready here']))
    expect([...put(object).changed]).toEqual([WEB])
    const scratch = bench()
    scratch.put(
      node('192.0.2.10'),
      ...(object.kind === 'Service' ? [object, slice('a', ['198.51.100.11 ready here'])] : [base, object]),
    )
    expect(listed(planner.state)).toEqual(listed(scratch.planner.state))
  })

  test('a backend in no list that turns out to be elsewhere', () => {
    const { put } = bench()
    put(service(), slice('a', ['198.51.100.11 serving here', '198.51.100.12 ready']))
    expect([...put(slice('a', ['198.51.100.11 serving', '198.51.100.12 ready'])).changed]).toEqual([WEB])
  })

  test('a backend that leaves the local list only', () => {
    const { put, planner } = bench()
    const drains = '198.51.100.11 serving terminating here'
    put(service(), slice('a', [drains, '198.51.100.12 here', '198.51.100.141 ready']))
    const local = () =>
      planner.state.services
        .get(WEB)
        ?.backends.filter(b => b.inLocal)
        .map(b => b.address)
    expect(local()).toEqual(['198.51.100.11'])
    put(slice('a', [drains, '198.51.100.12 ready here', '198.51.100.141 ready']))
    expect(local()).toEqual(['198.51.100.12'])
  })
})

describe('node ports', () => {
  const nodePort = service({ ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }] })
  const addresses = ['192.0.2.10', '192.0.2.138', '2001:db8:1::10']

  test.each([
    { wanted: [], serve: ['192.0.2.10'] },
    { wanted: ['primary'], serve: ['192.0.2.10'] },
    { wanted: ['all'], serve: ['192.0.2.10', '192.0.2.138'] },
    { wanted: ['192.0.2.128/25'], serve: ['192.0.2.138'] },
    { wanted: ['192.0.2.128/25', 'primary'], serve: ['192.0.2.10', '192.0.2.138'] },
    { wanted: ['2001:db8::/32'], serve: [] },
  ])('at $wanted', ({ wanted, serve }) => {
    const { put, frontends } = bench({ nodePortAddresses: wanted })
    put(node(...addresses), nodePort)
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 80', ...serve.map(ip => `NodePort ${ip} 30080`)])
  })

  test('follow the addresses of the node, and stay when its object goes', () => {
    const { put, remove, frontends } = bench()
    const other = service({ name: 'other', clusterIPs: [address('203.0.113.11')] })
    put(nodePort, other)
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 80'])
    expect([...put(node('192.0.2.10')).changed]).toEqual([WEB])
    expect(frontends(WEB)).toContain('NodePort 192.0.2.10 30080')
    put(node('192.0.2.50'))
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 80', 'NodePort 192.0.2.50 30080'])
    expect(remove('Node', HERE).changed.size).toBe(0)
    expect(frontends(WEB)).toContain('NodePort 192.0.2.50 30080')
  })

  test('another node is none of our business', () => {
    const { put } = bench()
    put(nodePort)
    expect(put({ kind: 'Node', name: 'node-b', internalIPs: [address('192.0.2.11')] }).changed.size).toBe(0)
  })

  test('a node that moves to another zone chooses anew where there are hints', () => {
    const { put, planner } = bench()
    const place = (zone: string): WatchedObject => ({ kind: 'Node', name: HERE, internalIPs: [], zone })
    put(place('a'), service(), slice('a', ['198.51.100.11 ready zones=a', '198.51.100.141 ready zones=b']))
    const chosen = () =>
      planner.state.services
        .get(WEB)
        ?.backends.filter(b => b.inCluster)
        .map(b => b.address)
    expect(chosen()).toEqual(['198.51.100.11'])
    expect([...put(place('b')).changed]).toEqual([WEB])
    expect(chosen()).toEqual(['198.51.100.141'])
  })

  test('a wrong node name is reported once every list is in, and taken back', () => {
    const { store, planner, put } = bench()
    const kinds = ['Service', 'EndpointSlice', 'Node'] as const
    const synced = (kind: (typeof kinds)[number]) => planner.update(store, store.apply([{ type: 'synced', kind }]))
    expect(kinds.map(kind => synced(kind).problems.length)).toEqual([0, 0, 1])
    expect(put(service()).problems).toEqual([])
    expect(put(node('192.0.2.10')).problems).toEqual([{ type: 'resolved', where: `node ${HERE}` }])
  })
})

describe('two Services want one frontend', () => {
  const EXTERNAL = address('203.0.113.200')
  const claim = (name: string, ip: string, created?: number) =>
    service({ name, clusterIPs: [address(ip)], externalIPs: [EXTERNAL], created })
  const id = (name: string) => `default/${name}:http/TCP/IPv4`
  const taken = 'ExternalIP 203.0.113.200 80'
  const owner = (frontends: (id: string) => string[] | undefined, ...names: string[]) =>
    names.filter(name => frontends(id(name))?.includes(taken))

  test.each([[['s1', 's2', 's3']], [['s3', 's2', 's1']], [['s2', 's3', 's1']]])('the oldest has it: %j', order => {
    const age: Record<string, number> = { s1: 300, s2: 100, s3: 200 }
    const { put, remove, frontends } = bench()
    for (const name of order) put(claim(name, `203.0.113.${name.slice(1)}`, age[name]))
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s2'])
    expect([...remove('Service', 'default/s2').changed].sort()).toEqual([id('s2'), id('s3')])
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s3'])
    put(service({ name: 's3', clusterIPs: [address('203.0.113.3')], created: 200 }))
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s1'])
  })

  test('where no age is known, the one that has it keeps it; at first the first by name', () => {
    const { put, frontends } = bench()
    put(claim('s3', '203.0.113.3'), claim('s2', '203.0.113.2'))
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s2'])
    put(claim('s1', '203.0.113.1'))
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s2'])
    put({ ...claim('s2', '203.0.113.2'), affinitySeconds: 5 })
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s2'])
    put(claim('s3', '203.0.113.3', 100))
    expect(owner(frontends, 's1', 's2', 's3')).toEqual(['s3'])
  })

  test('the others are told who has it, again when that changes, and when it is over', () => {
    const { put, remove } = bench()
    put(claim('s1', '203.0.113.1', 1))
    const told = put(claim('s2', '203.0.113.2', 2), claim('s3', '203.0.113.3', 3)).problems
    const message = (name: string) =>
      `not served: 203.0.113.200:80 is ExternalIP of ${id(name)}; choose another address or port`
    expect(told).toEqual(
      ['s2', 's3'].map(n => ({ type: 'problem', where: id(n), field: 'frontends', message: message('s1') })),
    )
    expect(remove('Service', 'default/s1').problems).toEqual(
      expect.arrayContaining([
        { type: 'resolved', where: id('s2') },
        { type: 'resolved', where: id('s3') },
        { type: 'problem', where: id('s3'), field: 'frontends', message: message('s2') },
      ]),
    )
    expect(remove('Service', 'default/s3').problems).toEqual([{ type: 'resolved', where: id('s3') }])
  })

  test('a frontend changes hands within one batch', () => {
    const { store, planner, put, frontends } = bench()
    put(claim('s1', '203.0.113.1', 1))
    const moved = [
      service({ name: 's1', clusterIPs: [address('203.0.113.1')], created: 1 }),
      claim('s2', '203.0.113.2', 2),
    ]
    const plan = planner.update(store, store.apply(moved.map(object => ({ type: 'upsert', object }))))
    expect(plan.problems).toEqual([])
    expect(owner(frontends, 's1', 's2')).toEqual(['s2'])
  })

  test('no external IP takes a cluster IP or a node port, however old its Service is', () => {
    const { put, frontends } = bench()
    const thief = service({ name: 'thief', clusterIPs: [address('203.0.113.66')], created: 1 })
    put(node('192.0.2.10'))
    put({ ...thief, externalIPs: ['203.0.113.10', '192.0.2.10'].map(address) })
    expect(frontends(id('thief'))).toHaveLength(3)
    put(service({ created: 100, ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 80 }] }))
    expect(frontends(id('thief'))).toEqual(['ClusterIP 203.0.113.66 80'])
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 80', 'NodePort 192.0.2.10 80'])
  })

  test('other protocols and ports of one address do not clash', () => {
    const { put } = bench()
    const port = (protocol: 'TCP' | 'UDP', port: number) => [{ name: 'http', protocol, port, nodePort: 0 }]
    const plans = [port('TCP', 443), port('UDP', 443), port('TCP', 80)].map((ports, i) =>
      put({ ...claim(`s${i}`, `203.0.113.${i + 1}`), ports }),
    )
    expect(plans.flatMap(plan => plan.problems)).toEqual([])
  })

  test('what an API server listens on is its own, also when it moves', () => {
    const { put, frontends } = bench()
    const api = service({
      name: 'kubernetes',
      clusterIPs: [address('203.0.113.1')],
      ports: [{ name: 'https', protocol: 'TCP', port: 443, nodePort: 0 }],
    })
    const at = (ip: string) =>
      slice('kubernetes', [`${ip} ready`], {
        service: 'kubernetes',
        ports: [{ name: 'https', protocol: 'TCP', port: 6443 }],
      })
    const ports = [{ name: 'http', protocol: 'TCP', port: 6443, nodePort: 0 }] as const
    put(api, at('192.0.2.30'), service({ ports, externalIPs: ['192.0.2.30', '192.0.2.31'].map(address) }))
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 6443', 'ExternalIP 192.0.2.31 6443'])
    put(at('192.0.2.31'))
    expect(frontends(WEB)).toEqual(['ClusterIP 203.0.113.10 6443', 'ExternalIP 192.0.2.30 6443'])
  })
})

/** A small world in which names, addresses and ports collide all the time. */
const anyEvent: fc.Arbitrary<SourceEvent> = (() => {
  const name = fc.constantFrom('s1', 's2', 's3')
  const ip = fc.constantFrom('203.0.113.1', '203.0.113.2', '203.0.113.3').map(address)
  const port = fc.record({
    name: fc.constantFrom('a', 'b'),
    protocol: fc.constantFrom('TCP' as const, 'UDP' as const),
    port: fc.constantFrom(80, 81),
    nodePort: fc.constantFrom(0, 80),
  })
  const unique = { selector: (p: { name: string; protocol: string }) => `${p.name}/${p.protocol}`, maxLength: 3 }
  const services = fc
    .record({
      name,
      clusterIPs: fc.tuple(ip),
      externalIPs: fc.uniqueArray(ip, { maxLength: 2 }),
      loadBalancerIPs: fc.uniqueArray(ip, { maxLength: 2 }),
      ports: fc.uniqueArray(port, unique),
      created: fc.nat(3),
    })
    .map(part => service(part))
  const endpoints = fc.array(
    fc
      .tuple(
        fc.constantFrom('198.51.100.1', '198.51.100.2'),
        fc.subarray(['ready', 'serving', 'terminating', 'here', 'zones=a']),
      )
      .map(([ip, words]) => endpoint([ip, ...words].join(' '))),
    { maxLength: 3 },
  )
  const slices = fc
    .record({
      name: fc.constantFrom('x', 'y'),
      service: name,
      endpoints,
      ports: fc.array(
        fc.constantFrom('a', 'b').map(name => ({ name, protocol: 'TCP' as const, port: 8080 })),
        { maxLength: 2 },
      ),
    })
    .map(part => slice('', [], { ...part, family: 'IPv4' }))
  const nodes = fc
    .record({ internalIPs: fc.uniqueArray(ip, { maxLength: 2 }), zone: fc.constantFrom('a', 'b') })
    .map(part => ({ kind: 'Node' as const, name: HERE, ...part }))
  const upserts = fc
    .oneof(services, services, slices, slices, nodes)
    .map(object => ({ type: 'upsert' as const, object: frozen(object) }))
  const deletes = fc
    .constantFrom(
      ['Service', 'default/s1'],
      ['Service', 'default/s2'],
      ['EndpointSlice', 'default/x'],
      ['EndpointSlice', 'default/y'],
    )
    .map(([kind, key]) => ({ type: 'delete' as const, kind: kind as 'Service', key: key as string }))
  return fc.oneof({ weight: 4, arbitrary: upserts }, { weight: 1, arbitrary: deletes })
})()

const OPTIONS = { nodeName: HERE, nodePortAddresses: ['all'], defaultScheduler: 'random' } as const
const listed = (state: DesiredState) => [...state.services.values()].sort((a, b) => (a.id < b.id ? -1 : 1))

test('step by step gives what a start from scratch gives, and says exactly what changed', () => {
  fc.assert(
    fc.property(fc.array(fc.array(anyEvent, { minLength: 1, maxLength: 4 }), { maxLength: 12 }), batches => {
      const store = new Store()
      const planner = new Planner(OPTIONS)
      let before: ReadonlyMap<string, ServicePort> = new Map()
      for (const batch of batches) {
        const { state, changed } = planner.update(store, store.apply(batch))
        const ids = new Set([...before.keys(), ...state.services.keys()])
        expect([...changed].sort()).toEqual([...ids].filter(id => before.get(id) !== state.services.get(id)).sort())
        before = new Map(state.services)
      }
      const scratchStore = new Store()
      const scratch = new Planner(OPTIONS)
      const rest = new Map(
        batches.flat().map(event => [event.type === 'upsert' ? keyOf(event.object) : keyOfDelete(event), event]),
      )
      const plan = scratch.update(scratchStore, scratchStore.apply([...rest.values()].reverse()))
      expect(listed(planner.state)).toEqual(listed(plan.state))

      const claimed = listed(plan.state).flatMap(p => p.frontends.map(f => `${f.address} ${f.port} ${p.protocol}`))
      expect(new Set(claimed).size).toBe(claimed.length)
    }),
    { numRuns: 400 },
  )
})

function keyOf(object: WatchedObject): string {
  return object.kind === 'Node' ? `Node ${object.name}` : `${object.kind} default/${object.name}`
}

function keyOfDelete(event: SourceEvent): string {
  if (event.type !== 'delete') throw new TypeError(event.type)
  return `${event.kind} ${event.key}`
}
