import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { EndpointSliceObject } from '../../src/model/objects.js'
import { backendsOf } from '../../src/plan/endpoints.js'
import { endpoint, frozen, HERE, slice } from './plan-kit.js'

const HTTP = { name: 'http', protocol: 'TCP' } as const

function plan(slices: readonly EndpointSliceObject[], zone: string | undefined = undefined) {
  const backends = backendsOf(frozen(slices), HTTP, 'IPv4', { nodeName: HERE, zone })
  const last = (list: typeof backends) => list.map(b => b.address.slice(b.address.lastIndexOf('.') + 1)).join(' ')
  return {
    cluster: last(backends.filter(b => b.inCluster)),
    local: last(backends.filter(b => b.inLocal)),
    kept: last(backends.filter(b => !b.inCluster && !b.inLocal)),
  }
}

/** Endpoints by the last part of their address; `local` is what a Local policy uses, `kept` serves flows it has. */
describe('choice of endpoints', () => {
  test.each([
    // Readiness and termination.
    { name: 'no endpoint', given: [], cluster: '', local: '' },
    { name: 'ready ones', given: ['10.0.0.1 ready here', '10.0.0.2 ready'], cluster: '1 2', local: '1' },
    { name: 'ready, none here', given: ['10.0.0.1 ready', '10.0.0.2 ready'], cluster: '1 2', local: '' },
    { name: 'ready, all here', given: ['10.0.0.1 ready here', '10.0.0.2 ready here'], cluster: '1 2', local: '1 2' },
    { name: 'unready are not used', given: ['10.0.0.1 here', '10.0.0.2 ready'], cluster: '2', local: '' },
    { name: 'none ready, none serving', given: ['10.0.0.1 here', '10.0.0.2 terminating'], cluster: '', local: '' },
    {
      name: 'serving while terminating, if none is ready',
      given: ['10.0.0.1 serving terminating here', '10.0.0.2 serving terminating'],
      cluster: '1 2',
      local: '1',
    },
    {
      name: 'terminating but no longer serving',
      given: ['10.0.0.1 terminating here', '10.0.0.2 serving terminating'],
      cluster: '2',
      local: '',
    },
    {
      name: 'here only terminating, ready elsewhere',
      given: ['10.0.0.1 serving terminating here', '10.0.0.2 ready'],
      cluster: '2',
      local: '1',
    },
    {
      name: 'here ready and terminating',
      given: ['10.0.0.1 serving terminating here', '10.0.0.2 ready here'],
      cluster: '2',
      local: '2',
      kept: '1',
    },
    { name: 'here nothing, terminating elsewhere', given: ['10.0.0.2 serving terminating'], cluster: '2', local: '' },
    {
      name: 'ready elsewhere, terminating elsewhere',
      given: ['10.0.0.1 serving terminating', '10.0.0.2 ready'],
      cluster: '2',
      local: '',
      kept: '1',
    },
    {
      name: 'serving but neither ready nor terminating',
      given: ['10.0.0.1 serving here', '10.0.0.2 ready'],
      cluster: '2',
      local: '',
      kept: '1',
    },
    {
      name: 'serving, not terminating, is no fallback',
      given: ['10.0.0.1 serving here'],
      cluster: '',
      local: '',
      kept: '1',
    },
    {
      name: 'ready wins although terminating (publishNotReadyAddresses)',
      given: ['10.0.0.1 ready terminating here', '10.0.0.2 serving terminating'],
      cluster: '1',
      local: '1',
      kept: '2',
    },
    { name: 'without node name: never local', given: ['10.0.0.1 ready', '10.0.0.2 ready'], cluster: '1 2', local: '' },
    {
      name: 'a node that is called alike in capitals is another one',
      given: ['10.0.0.1 ready node=NODE-A'],
      cluster: '1',
      local: '',
    },
    // Topology hints for zones.
    {
      name: 'hints everywhere',
      zone: 'a',
      given: [
        '10.0.0.1 ready zones=a here',
        '10.0.0.2 ready zones=b',
        '10.0.0.3 ready zones=c',
        '10.0.0.4 ready zones=a',
      ],
      cluster: '1 4',
      local: '1',
      kept: '2 3',
    },
    {
      name: 'node without zone',
      given: ['10.0.0.1 ready zones=a', '10.0.0.2 ready zones=b'],
      cluster: '1 2',
      local: '',
    },
    {
      name: 'nothing for this zone',
      zone: 'd',
      given: ['10.0.0.1 ready zones=a', '10.0.0.2 ready zones=b'],
      cluster: '1 2',
      local: '',
    },
    {
      name: 'one endpoint without hint',
      zone: 'a',
      given: ['10.0.0.1 ready zones=a', '10.0.0.2 ready'],
      cluster: '1 2',
      local: '',
    },
    {
      name: 'hints with several zones',
      zone: 'a',
      given: ['10.0.0.1 ready zones=a,b', '10.0.0.2 ready zones=b,c', '10.0.0.3 ready zones=c,a'],
      cluster: '1 3',
      local: '',
      kept: '2',
    },
    {
      name: 'local ignores hints',
      zone: 'a',
      given: ['10.0.0.1 ready zones=a', '10.0.0.2 ready zones=b here'],
      cluster: '1',
      local: '2',
    },
    {
      name: 'only an unready endpoint is hinted for this zone',
      zone: 'a',
      given: ['10.0.0.1 zones=a', '10.0.0.2 ready zones=b', '10.0.0.3 ready zones=b'],
      cluster: '2 3',
      local: '',
    },
    {
      name: 'an unready endpoint without hint does not count',
      zone: 'a',
      given: ['10.0.0.1', '10.0.0.2 ready zones=a', '10.0.0.3 ready zones=b'],
      cluster: '2',
      local: '',
      kept: '3',
    },
    {
      name: 'terminating ones are chosen without topology',
      zone: 'a',
      given: ['10.0.0.1 serving terminating zones=a', '10.0.0.2 serving terminating zones=b'],
      cluster: '1 2',
      local: '',
    },
    {
      name: 'hints: a terminating one in the zone is no reason',
      zone: 'a',
      given: ['10.0.0.1 serving terminating zones=a', '10.0.0.2 ready zones=b'],
      cluster: '2',
      local: '',
      kept: '1',
    },
    // Hints for nodes.
    {
      name: 'same node',
      zone: 'a',
      given: ['10.0.0.1 ready nodes=node-a zones=a here', '10.0.0.2 ready nodes=node-b zones=a'],
      cluster: '1',
      local: '1',
      kept: '2',
    },
    {
      name: 'same node, not on it',
      given: ['10.0.0.1 ready nodes=node-b here', '10.0.0.2 ready nodes=node-a'],
      cluster: '2',
      local: '1',
    },
    {
      name: 'no hint for this node: same zone',
      zone: 'a',
      given: ['10.0.0.1 ready nodes=node-b zones=a', '10.0.0.2 ready nodes=node-c zones=b'],
      cluster: '1',
      local: '',
      kept: '2',
    },
    {
      name: 'no hint for this node nor zone: all',
      zone: 'c',
      given: ['10.0.0.1 ready nodes=node-b zones=a', '10.0.0.2 ready nodes=node-c zones=b'],
      cluster: '1 2',
      local: '',
    },
    {
      name: 'a node hint is missing: same zone',
      zone: 'a',
      given: ['10.0.0.1 ready nodes=node-a zones=b', '10.0.0.2 ready zones=a'],
      cluster: '2',
      local: '',
      kept: '1',
    },
    {
      name: 'node hints, node without zone',
      given: ['10.0.0.1 ready nodes=node-a', '10.0.0.2 ready nodes=node-b'],
      cluster: '1',
      local: '',
      kept: '2',
    },
    {
      name: 'same node, several nodes in a hint',
      given: ['10.0.0.1 ready nodes=node-b,node-a', '10.0.0.2 ready nodes=node-b'],
      cluster: '1',
      local: '',
      kept: '2',
    },
  ])(
    '$name',
    ({
      given,
      zone,
      cluster,
      local,
      kept,
    }: {
      given: string[]
      zone?: string
      cluster: string
      local: string
      kept?: string
    }) => {
      const got = plan([slice('s', given, { family: 'IPv4' })], zone)
      expect(got).toEqual({ cluster, local, kept: kept ?? '' })
    },
  )

  /** ready, serving, terminating as the API has them after defaults, alone and beside a ready endpoint elsewhere. */
  test.each([
    ['ready', 'new', 'new'],
    ['ready terminating', 'new', 'new'],
    ['serving terminating', 'new', 'old'],
    ['serving', 'old', 'old'],
    ['terminating', 'gone', 'gone'],
    ['', 'gone', 'gone'],
  ])('an endpoint that is "%s" gets %s flows, and beside a ready one %s flows', (flags, alone, beside) => {
    const state = (extra: string[]) => {
      const given = [slice('s', [`10.0.0.1 ${flags}`, ...extra], { family: 'IPv4' })]
      const found = backendsOf(given, HTTP, 'IPv4', { nodeName: HERE, zone: undefined }).find(
        b => b.address === '10.0.0.1',
      )
      return found === undefined ? 'gone' : found.inCluster ? 'new' : 'old'
    }
    expect([state([]), state(['10.0.0.2 ready'])]).toEqual([alone, beside])
  })
})

describe('slices are merged', () => {
  const backends = (slices: EndpointSliceObject[], port: Parameters<typeof backendsOf>[1] = HTTP) =>
    backendsOf(frozen(slices), port, 'IPv4', { nodeName: HERE, zone: undefined }).map(
      b => `${b.address}:${b.port}${b.local ? ' here' : ''}${b.inCluster ? '' : ' old'}`,
    )

  test('of several slices and of one slice that lists the port twice', () => {
    const twice = [
      { name: 'http', protocol: 'TCP', port: 8080 },
      { name: 'http', protocol: 'TCP', port: 9090 },
    ] as const
    expect(backends([slice('b', ['10.0.0.2 ready'], { ports: twice }), slice('a', ['10.0.0.1 ready'])])).toEqual([
      '10.0.0.1:8080',
      '10.0.0.2:8080',
      '10.0.0.2:9090',
    ])
  })

  test('one name with other numbers in other slices, even on one address', () => {
    const other = { ports: [{ name: 'http', protocol: 'TCP', port: 9090 }] } as const
    expect(backends([slice('a', ['10.0.0.1 ready']), slice('b', ['10.0.0.1 ready'], other)])).toEqual([
      '10.0.0.1:8080',
      '10.0.0.1:9090',
    ])
  })

  test('only slices that have the port by name and protocol count', () => {
    const slices = [
      slice('a', ['10.0.0.1 ready'], { ports: [{ name: 'es', protocol: 'TCP', port: 9200 }] }),
      slice('b', ['10.0.0.2 ready'], { ports: [{ name: 'mq', protocol: 'TCP', port: 5672 }] }),
      slice('c', ['10.0.0.3 ready'], { ports: [{ name: 'es', protocol: 'UDP', port: 9200 }] }),
      slice('d', ['10.0.0.4 ready'], { ports: [] }),
    ]
    expect(backends(slices, { name: 'es', protocol: 'TCP' })).toEqual(['10.0.0.1:9200'])
    expect(backends(slices, { name: 'mq', protocol: 'TCP' })).toEqual(['10.0.0.2:5672'])
    expect(backends(slices, { name: '', protocol: 'TCP' })).toEqual([])
  })

  test('of two endpoints with one address the more usable counts, then the local one', () => {
    const stuck = slice('a', ['10.0.0.1 serving terminating here', '10.0.0.2', '10.0.0.3 ready'])
    const fresh = slice('b', ['10.0.0.1 ready', '10.0.0.2 ready', '10.0.0.3 ready here'])
    const want = ['10.0.0.1:8080', '10.0.0.2:8080', '10.0.0.3:8080 here']
    expect(backends([stuck, fresh])).toEqual(want)
    expect(backends([fresh, stuck])).toEqual(want)
  })

  test('the other family is not mixed in', () => {
    expect(backends([slice('a', ['10.0.0.1 ready']), slice('b', ['2001:db8::1 ready'])])).toEqual(['10.0.0.1:8080'])
  })
})

const anyEndpoint = fc
  .record({
    address: fc.constantFrom('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'),
    flags: fc.subarray(['ready', 'serving', 'terminating', 'here', 'zones=a', 'nodes=node-a']),
  })
  .map(({ address, flags }) => [address, ...flags].join(' '))

test('the order of slices and endpoints does not matter, and lists keep their promises', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(anyEndpoint, { maxLength: 6 }), { maxLength: 5 }),
      fc.infiniteStream(fc.nat()),
      (lists, luck) => {
        const shuffle = <T>(list: readonly T[]) =>
          list
            .map(value => ({ value, at: luck.next().value as number }))
            .sort((a, b) => a.at - b.at)
            .map(e => e.value)
        const of = (groups: readonly (readonly string[])[]) =>
          backendsOf(
            groups.map((group, i) => slice(`s${i}`, group, { family: 'IPv4' })),
            HTTP,
            'IPv4',
            { nodeName: HERE, zone: 'a' },
          )
        const got = of(lists)
        expect(of(shuffle(lists.map(shuffle)))).toEqual(got)
        expect(new Set(got.map(b => b.address)).size).toBe(got.length)
        const ready = new Set(
          lists
            .flat()
            .map(endpoint)
            .filter(e => e.ready)
            .map(e => e.addresses[0]),
        )
        for (const b of got) {
          if (b.inLocal) expect(b.local).toBe(true)
          if (b.inCluster && ready.size > 0) expect(ready.has(b.address)).toBe(true)
        }
        // Somebody usable anywhere means somebody is chosen.
        if (ready.size > 0) expect(got.some(b => b.inCluster)).toBe(true)
      },
    ),
    { numRuns: 500 },
  )
})
