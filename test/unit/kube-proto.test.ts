import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { convert } from '../../src/k8s/convert.js'
import { LengthFramer } from '../../src/k8s/kube-frames.js'
import { parsePage, WatchReader } from '../../src/k8s/kube-messages.js'
import { decodeByLibrary, decodeObject, PROTOBUF } from '../../src/k8s/kube-proto.js'
import { Undecodable } from '../../src/k8s/kube-wire-object.js'
import type { WatchedKind } from '../../src/model/objects.js'
import { encodeEvent, encodeList, encodeObject, encodeStatus, field, frame } from './kube-proto-encode.js'

const opt = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const some = <T>(arbitrary: fc.Arbitrary<T>) => fc.array(arbitrary, { maxLength: 4 })
const record = (model: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(model).map(object => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)))
const word = fc.stringMatching(/^[a-z][a-z0-9-]{0,9}[a-z0-9]$/)
const address = fc.oneof(fc.ipV4(), fc.ipV6(), fc.constantFrom('', '127.0.0.1', '010.1.2.3', 'größe', '10.0.0.1'))
const map = fc.dictionary(
  fc.constantFrom(
    'kubernetes.io/service-name',
    'service.kubernetes.io/headless',
    'waggle.io/weight',
    'waggle.io/scheduler',
    'topology.kubernetes.io/zone',
    'endpoints.kubernetes.io/last-change-trigger-time',
  ),
  fc.constantFrom('web', '', '7', 'maglev', '2026-03-01T08:00:01.5Z', 'zone → 1'),
)
const port = fc.constantFrom(0, 1, 80, 8080, 65535, 70000)
const protocol = fc.constantFrom('TCP', 'UDP', 'SCTP', '', 'X')
const time = fc.constantFrom('2026-03-01T08:00:00Z', '1970-01-02T00:00:00Z')
const metadata = record({
  name: word,
  namespace: word,
  uid: opt(fc.uuid()),
  resourceVersion: fc.nat().map(String),
  creationTimestamp: opt(time),
  deletionTimestamp: opt(time),
  labels: opt(map),
  annotations: opt(map),
})
const named = some(record({ name: word }))
const policy = opt(fc.constantFrom('Cluster', 'Local', '', 'Else'))

const objects: Record<WatchedKind, fc.Arbitrary<Record<string, unknown>>> = {
  Service: record({
    metadata,
    spec: record({
      type: opt(fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName', '')),
      clusterIP: opt(fc.constantFrom('10.96.0.1', 'None', '')),
      clusterIPs: some(address),
      externalIPs: some(address),
      loadBalancerSourceRanges: some(fc.constantFrom('10.0.0.0/8', ' 192.0.2.0/24', '2001:db8::/32', 'x')),
      ports: some(record({ name: opt(word), protocol, port, nodePort: opt(port) })),
      sessionAffinity: opt(fc.constantFrom('None', 'ClientIP', '')),
      sessionAffinityConfig: opt(
        record({ clientIP: opt(record({ timeoutSeconds: opt(fc.constantFrom(0, 1, 10800, 90000)) })) }),
      ),
      externalTrafficPolicy: policy,
      internalTrafficPolicy: policy,
      healthCheckNodePort: opt(port),
    }),
    status: record({
      loadBalancer: record({
        ingress: some(record({ ip: opt(address), ipMode: opt(fc.constantFrom('VIP', 'Proxy', 'Else')) })),
      }),
    }),
  }),
  EndpointSlice: record({
    metadata: metadata.map(meta => ({
      ...meta,
      labels: { 'kubernetes.io/service-name': 'web', ...(meta.labels as object | undefined) },
    })),
    addressType: fc.constantFrom('IPv4', 'IPv6', 'FQDN'),
    endpoints: some(
      record({
        addresses: some(address),
        conditions: opt(
          record({ ready: opt(fc.boolean()), serving: opt(fc.boolean()), terminating: opt(fc.boolean()) }),
        ),
        nodeName: opt(word),
        hints: opt(record({ forZones: opt(named), forNodes: opt(named) })),
      }),
    ),
    ports: some(record({ name: opt(word), protocol: opt(protocol), port: opt(port) })),
  }),
  Node: record({
    metadata,
    spec: record({
      podCIDRs: some(fc.constantFrom('10.244.1.0/24', 'x')),
      taints: some(record({ key: fc.constantFrom('a', 'ToBeDeletedByClusterAutoscaler') })),
    }),
    status: record({
      addresses: some(record({ type: fc.constantFrom('InternalIP', 'ExternalIP', 'Hostname'), address })),
    }),
  }),
}

const kinds: WatchedKind[] = ['Service', 'EndpointSlice', 'Node']
/** Absent and undefined are one. */
const clean = (value: unknown) => JSON.parse(JSON.stringify(value))

describe.each(kinds)('%s', kind => {
  test('comes to the same from protobuf as from JSON', () => {
    fc.assert(
      fc.property(objects[kind], object => {
        const bytes = encodeObject(kind, object)
        expect(clean(convert(kind, decodeObject(kind, bytes)))).toEqual(clean(convert(kind, clean(object))))
      }),
      { numRuns: 500 },
    )
  })

  test('bytes that are cut or changed throw or decode, and the others of the list go on', () => {
    fc.assert(
      fc.property(objects[kind], objects[kind], fc.nat(), fc.nat(255), (object, other, at, byte) => {
        const bytes = encodeObject(kind, object)
        const broken = Buffer.from(bytes)
        broken[at % bytes.length] = byte
        for (const bad of [broken, bytes.subarray(0, at % bytes.length)]) {
          const items = [bad, encodeObject(kind, other)].map(item => field(2, item))
          const list = encodeList(kind, { resourceVersion: '7' }, [])
          const body = Buffer.concat([list.subarray(0, 4), listOf(kind, items)])
          const page = parsePage('list', kind, PROTOBUF, body)
          const [, second] = [...page.items]
          expect(clean(second)).toEqual(clean(decodeObject(kind, encodeObject(kind, other))))
        }
      }),
    )
  })
})

/** An envelope around a list whose items are given as bytes. */
function listOf(kind: string, items: readonly Buffer[]): Buffer {
  const metadata = field(1, field(2, Buffer.from('7')))
  const typeMeta = field(1, field(2, Buffer.from(`${kind}List`)))
  return Buffer.concat([typeMeta, field(2, Buffer.concat([metadata, ...items]))])
}

test('the decoder of EndpointSlices equals the library, on fields that we do not read, too', () => {
  const unread = fc.constantFrom(
    Buffer.alloc(0),
    field(9, Buffer.from('unread')),
    Buffer.from([0x58, 0xff, 0x7f]),
    Buffer.from([0x65, 1, 2, 3, 4]),
    Buffer.from([0x69, 1, 2, 3, 4, 5, 6, 7, 8]),
  )
  fc.assert(
    fc.property(objects.EndpointSlice, unread, unread, (object, before, after) => {
      const bytes = Buffer.concat([before, encodeObject('EndpointSlice', object), after])
      const [ours, library] = [decodeObject('EndpointSlice', bytes), decodeByLibrary('EndpointSlice', bytes)]
      const [mine, theirs] = [ours, library].map(raw => convert('EndpointSlice', raw))
      expect(mine?.object).toEqual(theirs?.object)
      expect(mine?.problems.map(({ field }) => field)).toEqual(theirs?.problems.map(({ field }) => field))
      expect(clean((ours as { metadata: unknown }).metadata)).toEqual(
        clean(withoutDeletion((library as { metadata: Record<string, unknown> }).metadata)),
      )
    }),
    { numRuns: 500 },
  )
})

/** The deletion time counts for Nodes alone. */
function withoutDeletion({ deletionTimestamp: _, ...rest }: Record<string, unknown>): unknown {
  return rest
}

test('an object whose name can be read is named when the rest cannot', () => {
  const meta = field(1, Buffer.concat([field(1, Buffer.from('web-1')), field(3, Buffer.from('default'))]))
  const body = Buffer.concat([
    Buffer.from('k8s\0'),
    listOf('EndpointSlice', [field(2, Buffer.concat([meta, field(2, Buffer.from([0x0a, 0x7f]))]))]),
  ])
  const [item] = [...parsePage('list', 'EndpointSlice', PROTOBUF, body).items]
  expect(item).toBeInstanceOf(Undecodable)
  expect(item).toMatchObject({ key: 'default/web-1', message: 'the message ends in the middle of a field' })
})

test.each([
  { name: 'JSON text', body: Buffer.from('{"items":[]}') },
  { name: 'nothing', body: Buffer.alloc(0) },
  { name: 'a list of another kind', body: encodeList('Node', { resourceVersion: '1' }, []) },
  { name: 'a Status', body: encodeStatus({ message: 'x' }) },
  { name: 'a list without version', body: encodeList('Service', {}, []) },
])('$name is no list of Services', ({ body }) => {
  expect(() => parsePage('list services', 'Service', PROTOBUF, body)).toThrow(/KUBE_GARBLED/)
})

test('a watch may be cut into chunks anywhere', () => {
  const slice = { metadata: { name: 'a-größe', namespace: 'default', resourceVersion: '5' }, addressType: 'IPv4' }
  const bookmark = { metadata: { resourceVersion: '9', annotations: { 'k8s.io/initial-events-end': 'true' } } }
  const error = { kind: 'Status', code: 410, message: 'too old', details: { retryAfterSeconds: 3 } }
  const body = Buffer.concat([
    encodeEvent('EndpointSlice', 'ADDED', slice),
    encodeEvent('EndpointSlice', 'BOOKMARK', bookmark),
    encodeEvent('EndpointSlice', 'ERROR', error),
  ])
  fc.assert(
    fc.property(fc.array(fc.nat(body.length)), cuts => {
      const reader = new WatchReader('EndpointSlice', `${PROTOBUF};stream=watch`)
      const places = [0, ...cuts.sort((a, b) => a - b), body.length]
      // Each chunk in memory of its own that is used again, as a socket's may be.
      const messages = places.slice(1).flatMap((end, i) => [...reader.push(Buffer.from(body.subarray(places[i], end)))])
      expect(reader.whole).toBe(true)
      expect(messages.map(({ type }) => type)).toEqual(['ADDED', 'BOOKMARK', 'ERROR'])
      expect(messages[0]?.object).toMatchObject(slice)
      expect(messages[1]?.object).toMatchObject(bookmark)
      expect(messages[2]?.object).toMatchObject({ code: 410, message: 'too old', details: { retryAfterSeconds: 3 } })
    }),
  )
})

test('frames: an incomplete one is kept, one that cannot be is refused', () => {
  const framer = new LengthFramer()
  expect([...framer.push(frame(Buffer.from('abc')).subarray(0, 5))]).toEqual([])
  expect(framer.whole).toBe(false)
  expect([...framer.push(Buffer.from('bc'))].map(String)).toEqual(['abc'])
  expect(framer.whole).toBe(true)
  expect(() => [...framer.push(Buffer.from([0x7f, 0, 0, 0]))]).toThrow(/frame of 2130706432 bytes/)
})
