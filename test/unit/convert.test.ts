import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { convert, isAbsent } from '../../src/k8s/convert.js'
import type { EndpointSliceObject, ServiceObject, WatchedKind } from '../../src/model/objects.js'
import { frozen } from './plan-kit.js'

type Raw = Record<string, unknown>

const PROXY_NAME = 'service.kubernetes.io/service-proxy-name'
const HEADLESS = 'service.kubernetes.io/headless'

const rawService = (spec: Raw = {}, more: Raw = {}): Raw => ({
  metadata: { name: 'web', namespace: 'shop' },
  spec: { clusterIP: '203.0.113.10', ports: [{ port: 80 }], ...spec },
  ...more,
})
const rawSlice = (part: Raw = {}): Raw => ({
  metadata: { name: 'web-x', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
  addressType: 'IPv4',
  ports: [{ port: 8080 }],
  endpoints: [{ addresses: ['198.51.100.11'] }],
  ...part,
})
const labelled = (raw: Raw, labels: Raw): Raw => ({ ...raw, metadata: { ...(raw.metadata as Raw), labels } })
const annotated = (annotations: Raw): Raw =>
  rawService({}, { metadata: { name: 'web', namespace: 'shop', annotations } })

function run(kind: WatchedKind, raw: unknown) {
  const { object, problems, key } = convert(kind, frozen(raw))
  return { key, object, fields: problems.map(p => p.field), problems }
}
const serviceOf = (raw: unknown) =>
  run('Service', raw) as { object: ServiceObject | undefined } & ReturnType<typeof run>
const sliceOf = (raw: unknown) =>
  run('EndpointSlice', raw) as { object: EndpointSliceObject | undefined } & ReturnType<typeof run>

describe('Service', () => {
  test('unset fields get the defaults of the API server', () => {
    expect(serviceOf(rawService())).toEqual({
      key: 'shop/web',
      fields: [],
      problems: [],
      object: {
        kind: 'Service',
        namespace: 'shop',
        name: 'web',
        type: 'ClusterIP',
        clusterIPs: ['203.0.113.10'],
        externalIPs: [],
        loadBalancerIPs: [],
        ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
        affinitySeconds: 0,
        internalLocal: false,
        externalLocal: false,
        scheduler: undefined,
        created: undefined,
      },
    })
  })

  test('set fields are taken over, addresses in canonical form', () => {
    const { object, problems } = serviceOf({
      metadata: {
        name: 'web',
        uid: 'a1b2',
        creationTimestamp: '2026-01-02T03:04:05Z',
        annotations: { 'waggle.io/scheduler': 'rr' },
      },
      spec: {
        type: 'LoadBalancer',
        clusterIP: '203.0.113.10',
        clusterIPs: ['203.0.113.10', '2001:DB8:0:0::10'],
        externalIPs: ['203.0.113.140', '203.0.113.140'],
        ports: [
          { name: 'dns', protocol: 'UDP', port: 53, targetPort: 'dns', nodePort: 30053 },
          { name: 'dns-tcp', port: 53, targetPort: 1053, nodePort: null },
        ],
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 32_000,
      },
      status: { loadBalancer: { ingress: [{ ip: '203.0.113.141' }, { ip: '2001:db8::1', ipMode: 'VIP' }] } },
    })
    expect(problems).toEqual([])
    expect(object).toEqual({
      kind: 'Service',
      namespace: 'default',
      name: 'web',
      type: 'LoadBalancer',
      clusterIPs: ['203.0.113.10', '2001:db8::10'],
      externalIPs: ['203.0.113.140'],
      loadBalancerIPs: ['203.0.113.141', '2001:db8::1'],
      ports: [
        { name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053 },
        { name: 'dns-tcp', protocol: 'TCP', port: 53, nodePort: 0 },
      ],
      affinitySeconds: 60,
      internalLocal: true,
      externalLocal: true,
      healthCheckNodePort: 32_000,
      scheduler: 'rr',
      created: 1767323045,
      uid: 'a1b2',
    })
  })

  test.each([
    ['of another type', { type: 'NodePort', externalTrafficPolicy: 'Local' }],
    ['with policy Cluster', { type: 'LoadBalancer' }],
    ['without a number', { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 0 }],
  ])('a health check node port does not count %s', (_, spec) => {
    const { object, problems } = run('Service', rawService({ healthCheckNodePort: 32_000, ...spec }))
    expect(object).not.toHaveProperty('healthCheckNodePort')
    expect(problems).toEqual([])
  })

  test('a health check node port that is none is left out and named', () => {
    const spec = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 'http' }
    const { object, problems } = run('Service', rawService(spec))
    expect(object).not.toHaveProperty('healthCheckNodePort')
    expect(problems.map(({ field }) => field)).toEqual(['spec.healthCheckNodePort'])
  })

  test.each([
    ['headless', rawService({ clusterIP: 'None' })],
    [
      'headless with external addresses and node port',
      rawService({
        clusterIP: 'None',
        clusterIPs: ['None'],
        externalIPs: ['203.0.113.140'],
        ports: [{ port: 80, nodePort: 30080 }],
      }),
    ],
    ['headless without ports', rawService({ clusterIPs: ['None'], ports: undefined })],
    ['ExternalName, with a stale cluster IP', rawService({ type: 'ExternalName', externalName: 'example.com' })],
    ["another proxy's, whatever the value", labelled(rawService(), { [PROXY_NAME]: '' })],
  ])('is absent: %s', (_, raw) => {
    expect(isAbsent(convert('Service', raw))).toBe(true)
    expect(run('Service', raw).key).toBe('shop/web')
  })

  test('labels that count on the other kind change nothing', () => {
    expect(serviceOf(labelled(rawService(), { [HEADLESS]: '' })).object?.clusterIPs).toEqual(['203.0.113.10'])
    const slice = labelled(rawSlice(), { [PROXY_NAME]: 'x', 'kubernetes.io/service-name': 'web' })
    expect(sliceOf(slice).object?.endpoints).toHaveLength(1)
  })

  test.each([
    ['no mapping', 'web', 'object'],
    ['no name', { metadata: {}, spec: {} }, 'metadata.name'],
    ['a name with control characters', { metadata: { name: 'web\n' } }, 'metadata.name'],
    ['a name in capitals', { metadata: { name: 'Web' } }, 'metadata.name'],
    ['a namespace that is a path', { metadata: { name: 'web', namespace: '../x' } }, 'metadata.namespace'],
    ['a spec that is no mapping', rawService({}, { spec: [] }), 'spec'],
    ['ports that are no list', rawService({ ports: { port: 80 } }), 'spec.ports'],
    ['an unknown type', rawService({ type: 'Loadbalancer' }), 'spec.type'],
    ['an unknown policy', rawService({ externalTrafficPolicy: 'local' }), 'spec.externalTrafficPolicy'],
    ['an unknown internal policy', rawService({ internalTrafficPolicy: true }), 'spec.internalTrafficPolicy'],
    ['an unknown affinity', rawService({ sessionAffinity: 'clientIP' }), 'spec.sessionAffinity'],
    ['no usable cluster IP', rawService({ clusterIP: '203.0.113' }), 'spec.clusterIP'],
  ])('is refused: %s', (_, raw, field) => {
    const got = run('Service', raw)
    expect(got.object).toBeUndefined()
    expect(got.fields).toContain(field)
  })

  test.each([
    ['port 0', { port: 0 }, 'spec.ports[1].port'],
    ['port 65536', { port: 65536 }, 'spec.ports[1].port'],
    ['port as text', { port: '81' }, 'spec.ports[1].port'],
    ['half a port', { port: 80.5 }, 'spec.ports[1].port'],
    ['NaN', { port: Number.NaN }, 'spec.ports[1].port'],
    ['no port', {}, 'spec.ports[1].port'],
    ['unknown protocol', { port: 81, name: 'b', protocol: 'tcp' }, 'spec.ports[1].protocol'],
    ['bad name', { port: 81, name: 'Big' }, 'spec.ports[1].name'],
    ['name used before', { port: 81, name: 'a' }, 'spec.ports[1].name'],
    ['port used before', { port: 80, name: 'b' }, 'spec.ports[1].port'],
    ['no mapping', 81, 'spec.ports[1]'],
  ])('a wrong port is left out, the rest goes on: %s', (_, port, field) => {
    const got = serviceOf(rawService({ ports: [{ name: 'a', port: 80 }, port, { name: 'c', port: 82 }] }))
    expect(got.object?.ports.map(p => p.port)).toEqual([80, 82])
    expect(got.fields).toEqual([field])
  })

  test('a wrong node port is left out, its port goes on', () => {
    const got = serviceOf(rawService({ ports: [{ port: 80, nodePort: 70000 }] }))
    expect(got.object?.ports).toEqual([{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }])
    expect(got.problems).toEqual([
      {
        path: ['spec', 'ports', 0, 'nodePort'],
        field: 'spec.ports[0].nodePort',
        message: 'is 70000; write a number from 1 to 65535 (no node port)',
      },
    ])
  })

  test('TCP and UDP may share number and name', () => {
    const got = serviceOf(rawService({ ports: [{ port: 53 }, { port: 53, protocol: 'UDP' }] }))
    expect(got.object?.ports.map(p => p.protocol)).toEqual(['TCP', 'UDP'])
    expect(got.fields).toEqual([])
  })

  test.each([
    '127.0.0.1',
    '127.255.0.1',
    '0.0.0.0',
    '0.1.2.3',
    '169.254.169.254',
    '224.0.0.1',
    '239.1.1.1',
    '255.255.255.255',
    '::',
    '::1',
    'fe80::1',
    'febf::1',
    'ff02::1',
    '::ffff:127.0.0.1',
    '203.0.113',
    '203.0.113.0256',
    '0203.0.113',
    '203.0.113.0x1',
    ' 203.0.113.1',
    '203.0.113.1/32',
    'fe80::1%eth0',
    'example.com',
    '',
    7,
    null,
  ])('no Service may use the address %j', bad => {
    const spec = { clusterIPs: ['203.0.113.10', '2001:db8::10'], externalIPs: [bad, '203.0.113.140'] }
    const external = serviceOf(rawService(spec))
    expect(external.object?.externalIPs).toEqual(['203.0.113.140'])
    expect(external.fields).toEqual(['spec.externalIPs[0]'])
    expect(serviceOf(rawService({ clusterIP: 'x', clusterIPs: [bad] })).object).toBeUndefined()

    const family = typeof bad === 'string' && bad.includes(':') && !bad.includes('.') ? 'IPv6' : 'IPv4'
    const got = sliceOf(rawSlice({ addressType: family, endpoints: [{ addresses: [bad] }] }))
    expect([got.object?.endpoints, got.fields]).toEqual([[], ['endpoints[0].addresses[0]']])
  })

  test.each([
    '223.255.255.255',
    '240.0.0.1',
    '10.0.0.1',
    '100.64.0.1',
    '169.253.0.1',
    'fe7f::1',
    'fec0::1',
    'fd00::1',
    '64:ff9b::1',
    'fe8::1',
    'ff::1',
  ])('a Service may use the address %s', good => {
    const spec = { clusterIPs: ['203.0.113.10', '2001:db8::10'], externalIPs: [good] }
    expect(serviceOf(rawService(spec)).object?.externalIPs).toEqual([good])
  })

  test.each([
    ['203.0.113.010', '203.0.113.10'],
    ['0203.000.113.009', '203.0.113.9'],
    ['::ffff:203.0.113.10', '203.0.113.10'],
    ['2001:0DB8::0010', '2001:db8::10'],
  ])('the address %s, which the API lets through, is %s', (odd, want) => {
    const clusterIPs = ['203.0.113.20', '2001:db8::20']
    expect(serviceOf(rawService({ clusterIPs, externalIPs: [odd] }))).toMatchObject({
      object: { externalIPs: [want] },
      fields: [],
    })
    const addressType = want.includes(':') ? 'IPv6' : 'IPv4'
    const { object } = sliceOf(rawSlice({ addressType, endpoints: [{ addresses: [odd] }] }))
    expect(object?.endpoints[0]?.addresses).toEqual([want])
  })

  test('addresses of a family without cluster IP are left out and named', () => {
    const status = { loadBalancer: { ingress: [{ ip: '2001:db8::1' }, { ip: '203.0.113.141' }] } }
    const got = serviceOf(rawService({ externalIPs: ['2001:db8::2', '203.0.113.140'] }, { status }))
    expect(got.object?.externalIPs).toEqual(['203.0.113.140'])
    expect(got.object?.loadBalancerIPs).toEqual(['203.0.113.141'])
    expect(got.fields).toEqual(['spec.externalIPs[0]', 'status.loadBalancer.ingress[0].ip'])
  })

  test('one cluster IP a family; without any nothing is served, and it says so', () => {
    expect(serviceOf(rawService({ clusterIPs: ['203.0.113.10', '203.0.113.11'] }))).toMatchObject({
      object: { clusterIPs: ['203.0.113.10'] },
      fields: ['spec.clusterIPs[1]'],
    })
    expect(serviceOf(rawService({ clusterIP: '' }))).toMatchObject({
      object: { clusterIPs: [] },
      fields: ['spec.clusterIP'],
    })
  })

  test('ingress entries: ipMode Proxy and host names are passed over, unknown modes named', () => {
    const ingress = [
      { ip: '203.0.113.141', ipMode: 'Proxy' },
      { hostname: 'lb.example.com' },
      { ip: '203.0.113.142', ipMode: 'VIP' },
      { ip: '203.0.113.143', ipMode: 'vip' },
      'lb',
    ]
    const got = serviceOf(rawService({}, { status: { loadBalancer: { ingress } } }))
    expect(got.object?.loadBalancerIPs).toEqual(['203.0.113.142'])
    expect(got.fields).toEqual(['status.loadBalancer.ingress[3].ipMode', 'status.loadBalancer.ingress[4]'])
  })

  test.each([
    [undefined, undefined, []],
    [null, undefined, []],
    [[], undefined, []],
    [['192.0.2.0/24', '2001:db8:1::/48'], ['192.0.2.0/24', '2001:db8:1::/48'], []],
    [[' 192.0.2.0/24 ', '192.0.2.5/24', '::/0'], ['192.0.2.0/24', '::/0'], []],
    [['::ffff:192.0.2.0/120', '::/0'], ['192.0.2.0/24', '::/0'], []],
    [['192.000.002.000/24', '::/0'], ['192.0.2.0/24', '::/0'], []],
    [['192.0.2.0/24'], ['192.0.2.0/24'], ['']],
    [['::/0'], ['::/0'], ['']],
    [
      ['192.0.2.1', 'banana', '', 7, '192.0.2.0/33', '::ffff:192.0.2.0/90'],
      [],
      ['[0]', '[1]', '[2]', '[3]', '[4]', '[5]', '', ''],
    ],
  ])('source ranges %j let in %j', (loadBalancerSourceRanges, ranges, fields) => {
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.141' }, { ip: '2001:db8::1' }] } }
    const got = serviceOf(
      rawService({ clusterIPs: ['203.0.113.10', '2001:db8::10'], loadBalancerSourceRanges }, { status }),
    )
    expect(got.object?.loadBalancerIPs).toEqual(['203.0.113.141', '2001:db8::1'])
    expect(got.object?.sourceRanges).toEqual(ranges)
    expect(got.fields).toEqual(fields.map(part => `spec.loadBalancerSourceRanges${part}`))
  })

  test('source ranges that are no list: the Service stays as it was', () => {
    expect(serviceOf(rawService({ loadBalancerSourceRanges: '192.0.2.0/24' })).object).toBeUndefined()
  })

  test('a family without a load-balancer address needs no source range', () => {
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.141' }] } }
    const got = serviceOf(rawService({ loadBalancerSourceRanges: ['192.0.2.0/24'] }, { status }))
    expect(got).toMatchObject({ object: { sourceRanges: ['192.0.2.0/24'] }, fields: [] })
  })

  test.each([
    [undefined, 10800, []],
    [null, 10800, []],
    [1, 1, []],
    [86400, 86400, []],
    [0, 10800, ['spec.sessionAffinityConfig.clientIP.timeoutSeconds']],
    [86401, 10800, ['spec.sessionAffinityConfig.clientIP.timeoutSeconds']],
    ['60', 10800, ['spec.sessionAffinityConfig.clientIP.timeoutSeconds']],
  ])('affinity timeout %j means %d seconds', (timeoutSeconds, seconds, fields) => {
    const spec = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds } } }
    expect(serviceOf(rawService(spec))).toMatchObject({ object: { affinitySeconds: seconds }, fields })
    expect(serviceOf(rawService({ ...spec, sessionAffinity: 'None' })).object?.affinitySeconds).toBe(0)
  })

  test.each([
    ['random', 'random', []],
    ['rr', 'rr', []],
    ['source-hash', 'source-hash', []],
    ['maglev', 'maglev', []],
    ['least-conn', 'least-conn', []],
    ['RR', undefined, ['metadata.annotations["waggle.io/scheduler"]']],
    ['', undefined, ['metadata.annotations["waggle.io/scheduler"]']],
  ])('scheduler annotation %j means %j', (value, scheduler, fields) => {
    expect(serviceOf(annotated({ 'waggle.io/scheduler': value }))).toMatchObject({ object: { scheduler }, fields })
  })
})

describe('EndpointSlice', () => {
  test.each([
    ['2026-01-02T03:04:05.5Z', 1_767_323_045_500],
    ['soon', undefined],
    [undefined, undefined],
  ])('the annotation with the time of the last change, %s, is %s', (value, triggered) => {
    const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': value }
    const { metadata, ...rest } = rawSlice()
    const got = sliceOf({ ...rest, metadata: { ...(metadata as object), annotations } })
    expect([got.object?.triggered, got.fields]).toEqual([triggered, []])
  })

  test.each([
    [undefined, undefined, []],
    ['1', 1, []],
    ['100', 100, []],
    ['0', undefined, ['metadata.annotations["waggle.io/weight"]']],
    ['101', undefined, ['metadata.annotations["waggle.io/weight"]']],
    ['1.5', undefined, ['metadata.annotations["waggle.io/weight"]']],
    [5, undefined, ['metadata.annotations["waggle.io/weight"]']],
  ])('weight annotation %j means %j', (value, weight, fields) => {
    const { metadata, ...rest } = rawSlice()
    const annotations = { 'waggle.io/weight': value }
    const got = sliceOf({ ...rest, metadata: { ...(metadata as object), annotations } })
    expect([got.object?.weight, got.fields]).toEqual([weight, fields])
  })

  test('unset fields get the defaults of the API server', () => {
    expect(sliceOf(rawSlice()).object).toEqual({
      kind: 'EndpointSlice',
      namespace: 'shop',
      name: 'web-x',
      service: 'web',
      family: 'IPv4',
      ports: [{ name: '', protocol: 'TCP', port: 8080 }],
      endpoints: [
        { addresses: ['198.51.100.11'], ready: true, serving: true, terminating: false, nodeName: undefined },
      ],
    })
    expect(sliceOf(rawSlice({ endpoints: null, ports: null })).object).toMatchObject({ endpoints: [], ports: [] })
  })

  const unset: readonly (boolean | undefined | null)[] = [true, false, undefined, null]
  const rows = unset.flatMap(ready =>
    unset.flatMap(serving => unset.map(terminating => ({ ready, serving, terminating }))),
  )
  test.each(rows)('conditions %j', conditions => {
    expect(
      sliceOf(rawSlice({ endpoints: [{ addresses: ['198.51.100.11'], conditions }] })).object?.endpoints[0],
    ).toMatchObject({
      ready: conditions.ready ?? true,
      serving: conditions.serving ?? true,
      terminating: conditions.terminating ?? false,
    })
  })

  test('only the first address of an endpoint counts; node name and hints are taken over', () => {
    const endpoint = {
      addresses: ['198.51.100.11', '198.51.100.12'],
      nodeName: 'node-a',
      hints: { forZones: [{ name: 'a' }, { name: 'b' }], forNodes: [{ name: 'node-a' }] },
    }
    expect(sliceOf(rawSlice({ endpoints: [endpoint] })).object?.endpoints).toEqual([
      {
        addresses: ['198.51.100.11'],
        ready: true,
        serving: true,
        terminating: false,
        nodeName: 'node-a',
        zones: ['a', 'b'],
        nodes: ['node-a'],
      },
    ])
  })

  test.each([
    ['FQDN', rawSlice({ addressType: 'FQDN' })],
    ['labelled headless', labelled(rawSlice(), { [HEADLESS]: '', 'kubernetes.io/service-name': 'web' })],
  ])('is absent: %s', (_, raw) => {
    expect(isAbsent(convert('EndpointSlice', raw))).toBe(true)
  })

  test.each([
    ['no Service label', labelled(rawSlice(), {}), 'metadata.labels["kubernetes.io/service-name"]'],
    ['unknown family', rawSlice({ addressType: 'ipv4' }), 'addressType'],
    ['endpoints that are no list', rawSlice({ endpoints: {} }), 'endpoints'],
    ['ports that are no list', rawSlice({ ports: 'http' }), 'ports'],
  ])('is refused: %s', (_, raw, field) => {
    expect(run('EndpointSlice', raw)).toMatchObject({ key: 'shop/web-x', object: undefined, fields: [field] })
  })

  test.each([
    ['no mapping', '198.51.100.12', 'endpoints[1]'],
    ['no address', {}, 'endpoints[1].addresses'],
    ['empty addresses', { addresses: [] }, 'endpoints[1].addresses'],
    ['another family', { addresses: ['2001:db8::1'] }, 'endpoints[1].addresses[0]'],
    ['loopback', { addresses: ['127.0.0.1'] }, 'endpoints[1].addresses[0]'],
    ['conditions that are none', { addresses: ['198.51.100.12'], conditions: [] }, 'endpoints[1].conditions'],
    ['ready as text', { addresses: ['198.51.100.12'], conditions: { ready: 'true' } }, 'endpoints[1].conditions.ready'],
    ['node name that is none', { addresses: ['198.51.100.12'], nodeName: {} }, 'endpoints[1].nodeName'],
  ])('a wrong endpoint is left out, the rest goes on: %s', (_, wrong, field) => {
    const got = sliceOf(
      rawSlice({ endpoints: [{ addresses: ['198.51.100.11'] }, wrong, { addresses: ['198.51.100.13'] }] }),
    )
    expect(got.object?.endpoints.map(e => e.addresses[0])).toEqual(['198.51.100.11', '198.51.100.13'])
    expect(got.fields).toEqual([field])
  })

  test.each([
    ['no number, meaning all ports', { name: 'b' }, 'ports[0].port'],
    ['port 0', { port: 0 }, 'ports[0].port'],
    ['unknown protocol', { port: 1, protocol: 'QUIC' }, 'ports[0].protocol'],
    ['name that is none', { port: 1, name: 5 }, 'ports[0].name'],
    ['no mapping', null, 'ports[0]'],
  ])('a wrong port is left out, the rest goes on: %s', (_, wrong, field) => {
    const got = sliceOf(rawSlice({ ports: [wrong, { name: 'c', port: 9090 }] }))
    expect(got.object?.ports).toEqual([{ name: 'c', protocol: 'TCP', port: 9090 }])
    expect(got.fields).toEqual([field])
  })

  test('wrong hints make an endpoint one without hints', () => {
    const got = sliceOf(
      rawSlice({
        endpoints: [{ addresses: ['198.51.100.11'], hints: { forZones: ['a'], forNodes: [{ name: 'n' }] } }],
      }),
    )
    expect(got.object?.endpoints[0]).toMatchObject({ nodes: ['n'] })
    expect(got.object?.endpoints[0]).not.toHaveProperty('zones')
    expect(got.fields).toEqual(['endpoints[0].hints.forZones'])
  })
})

test('Node: internal addresses in order, and the zone', () => {
  const addresses = [
    { type: 'Hostname', address: 'node-a' },
    { type: 'InternalIP', address: '192.0.2.10' },
    { type: 'ExternalIP', address: '203.0.113.1' },
    { type: 'InternalIP', address: 'fe80::1' },
    { type: 'InternalIP', address: '2001:db8:1::10' },
    7,
  ]
  const metadata = { name: 'node-a.example', labels: { 'topology.kubernetes.io/zone': 'a' } }
  expect(run('Node', { metadata, status: { addresses } })).toMatchObject({
    key: 'node-a.example',
    object: { kind: 'Node', name: 'node-a.example', internalIPs: ['192.0.2.10', '2001:db8:1::10'], zone: 'a' },
    fields: ['status.addresses[3].address', 'status.addresses[5]'],
  })
  expect(run('Node', { metadata: { name: 'n', labels: { 'topology.kubernetes.io/zone': '' } } }).object).toEqual({
    kind: 'Node',
    name: 'n',
    internalIPs: [],
  })
  expect(run('Node', { metadata: { name: 'n' }, status: { addresses: 'x' } }).object).toBeUndefined()
})

test('Node: a family without internal address is known by its external ones', () => {
  const addresses = [
    { type: 'ExternalIP', address: '203.0.113.1' },
    { type: 'ExternalIP', address: '2001:db8:9::1' },
    { type: 'ExternalDNS', address: 'node-a.example' },
    { type: 'InternalIP', address: '192.0.2.10' },
  ]
  expect(run('Node', { metadata: { name: 'n' }, status: { addresses } }).object).toMatchObject({
    internalIPs: ['192.0.2.10', '2001:db8:9::1'],
  })
})

test.each([
  ['deletion timestamp', { metadata: { name: 'n', deletionTimestamp: '2026-01-01T00:00:00Z' } }, true],
  ['taint', { metadata: { name: 'n' }, spec: { taints: [{ key: 'ToBeDeletedByClusterAutoscaler' }] } }, true],
  [
    'other taint',
    { metadata: { name: 'n' }, spec: { taints: [{ key: 'node.kubernetes.io/unreachable' }] } },
    undefined,
  ],
  ['odd taints', { metadata: { name: 'n' }, spec: { taints: [null, 'x'] } }, undefined],
  ['odd spec', { metadata: { name: 'n' }, spec: 'x' }, undefined],
])('Node about to go: %s', (_, raw, want) => {
  expect(run('Node', raw).object).toEqual({ kind: 'Node', name: 'n', internalIPs: [], ...(want && { leaving: true }) })
})

test("a Node's pod networks: canonical, each once, a wrong one left out", () => {
  const node = (podCIDRs: unknown) => run('Node', { metadata: { name: 'n' }, spec: { podCIDRs } })
  expect(node(['10.244.1.7/24', '2001:DB8:244:1::/64']).object).toMatchObject({
    podCIDRs: ['10.244.1.0/24', '2001:db8:244:1::/64'],
  })
  expect(node([]).object).not.toHaveProperty('podCIDRs')
  const wrong = node(['10.244.1.0', '10.244.1.0/24'])
  expect(wrong.object).toMatchObject({ podCIDRs: ['10.244.1.0/24'] })
  expect(wrong.problems.map(({ field }) => field)).toEqual(['spec.podCIDRs[0]'])
})

test.each([
  ['\u007f\u009b31m', '"\\u007f\\u009b31m"'],
  ['\u202e\u2028', '"\\u202e\\u2028"'],
  ['a'.repeat(100), `"${'a'.repeat(56)}...`],
])('what a message quotes cannot harm a terminal: %j', (clusterIP, quoted) => {
  expect(serviceOf(rawService({ clusterIP })).problems[0]?.message).toContain(`is ${quoted};`)
})

test('objects damaged in any place are never an exception, and whatever is wrong has a remedy', () => {
  const samples: readonly [WatchedKind, Raw][] = [
    [
      'Service',
      rawService(
        {
          clusterIPs: ['203.0.113.10'],
          externalIPs: ['203.0.113.1'],
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 5 } },
          loadBalancerSourceRanges: ['::/0'],
        },
        { status: { loadBalancer: { ingress: [{ ip: '203.0.113.2' }] } } },
      ),
    ],
    [
      'EndpointSlice',
      rawSlice({
        endpoints: [
          { addresses: ['198.51.100.11'], conditions: { ready: true }, hints: { forZones: [{ name: 'a' }] } },
        ],
      }),
    ],
    ['Node', { metadata: { name: 'n' }, status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } }],
  ]
  fc.assert(
    fc.property(
      fc.constantFrom(...samples),
      fc.array(fc.nat(), { maxLength: 6 }),
      fc.anything(),
      ([kind, raw], path, junk) => {
        const damaged = damage(raw, path, junk)
        const { object, problems } = convert(kind, damaged)
        for (const { field, message } of problems) {
          expect(field).not.toBe('')
          // Control characters are written as escapes.
          expect(message).toMatch(/^[^\p{Cc}]+$/u)
        }
        if (object !== undefined) expect(object.kind).toBe(kind)
      },
    ),
    { numRuns: 3000 },
  )
})

/** Replaces what stands at a random place by `junk`. */
function damage(value: unknown, path: readonly number[], junk: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined || typeof value !== 'object' || value === null) return junk
  const keys = Object.keys(value)
  const key = keys[step % Math.max(1, keys.length)]
  if (key === undefined) return junk
  if (Array.isArray(value)) return value.map((v, i) => (String(i) === key ? damage(v, rest, junk) : v))
  return { ...value, [key]: damage((value as Raw)[key], rest, junk) }
}
