import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** What traffic policies bind whom to, and what is refused or dropped. */

const PORTS = [
  { name: 'tcp', port: 80, nodePort: 30080 },
  { name: 'udp', protocol: 'UDP' as const, port: 80, nodePort: 30080 },
]
const ports = (nodePort: number) => PORTS.map(port => ({ ...port, nodePort }))

const OBJECTS = [
  ...service({
    name: 'local',
    ip: 10,
    loadBalancer: 10,
    ports: ports(30080),
    pods: ['pod-a2'],
    spec: { externalTrafficPolicy: 'Local' },
  }),
  ...service({
    name: 'internal-local',
    ip: 11,
    ports: ports(30081),
    pods: ['pod-a2'],
    spec: { internalTrafficPolicy: 'Local' },
  }),
  ...service({ name: 'empty', ip: 12, loadBalancer: 12, ports: ports(30082), pods: [] }),
  ...service({
    name: 'terminating',
    ip: 13,
    ports: ports(30083),
    pods: [
      { pod: 'pod-a2', conditions: { ready: false, serving: true, terminating: true } },
      { pod: 'pod-b1', conditions: { ready: false, serving: false, terminating: true } },
    ],
  }),
]

/** A frontend in both families. */
const both = (v4: string, v6: string, port: number) => [`${v4}:${port}`, `[${v6}]:${port}`]
const nodeA = (port: number) => both('192.168.0.11', '2001:db8:192::11', port)
const nodeB = (port: number) => both('192.168.0.12', '2001:db8:192::12', port)
const cluster = (last: number, port = 80) => both(`10.96.0.${last}`, `2001:db8:96::${last}`, port)
const balancer = (last: number, port = 80) => both(`198.51.100.${last}`, `2001:db8:198::${last}`, port)
const CLIENT = ['203.0.113.10', '2001:db8:203::10']

describe.skipIf(CANNOT_RUN)(titled('policies and refusals'), () => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: OBJECTS })
  })
  afterAll(() => lab?.down())

  const MODES = ['tcp', 'udp'] as const

  describe('externalTrafficPolicy: Local', () => {
    describe.each(MODES)('%s', mode => {
      test.each([...nodeA(30080), ...balancer(10)])('keeps the address of an outside client: %s', async target => {
        const result = await lab.load('client', target, { mode, count: 50 })
        expect(result).toMatchObject({ backends: { 'pod-a2': 50 }, errors: {} })
        expect(CLIENT).toContain(Object.keys(result.peers)[0])
        expect(Object.keys(result.peers)).toHaveLength(1)
      })

      test.each(nodeB(30080))('drops where no backend is on the node: %s', async target => {
        expect(await lab.load('client', target, { mode, count: 3, timeout: 700 })).toMatchObject({
          ok: 0,
          errors: { TIMEOUT: 3 },
        })
      })

      test.each([...balancer(10), ...cluster(10)])('does not bind a pod on another node: %s', async target => {
        expect(await lab.load('pod-b1', target, { mode, count: 50 })).toMatchObject({
          backends: { 'pod-a2': 50 },
          errors: {},
        })
      })
    })
  })

  describe('internalTrafficPolicy: Local', () => {
    test.each(cluster(11))('uses a backend on the node of the caller: %s', async target => {
      expect(await lab.load('pod-a1', target, { count: 50 })).toMatchObject({ backends: { 'pod-a2': 50 }, errors: {} })
    })
    test.each(cluster(11))('has none elsewhere: %s', async target => {
      expect(await lab.load('pod-b1', target, { count: 5, timeout: 700 })).toMatchObject({
        ok: 0,
        errors: { ECONNREFUSED: 5 },
      })
    })
    test.each(nodeB(30081))('does not bind outside clients: %s', async target => {
      expect(await lab.load('client', target, { count: 50 })).toMatchObject({ backends: { 'pod-a2': 50 }, errors: {} })
    })
  })

  describe('row 40: refused at once', () => {
    const cases = [
      ['a port that the Service does not have', [...cluster(10, 81), ...balancer(10, 81)]],
      ['a Service without backends', [...cluster(12), ...balancer(12)]],
      ['a node port without backends, of this node', nodeA(30082)],
    ] as const
    describe.each(cases)('%s', (_, targets) => {
      describe.each(['pod-a1', 'node-a'])('from %s', host => {
        test.each(targets)('TCP %s', async target => {
          const result = await lab.load(host, target, { count: 20 })
          expect(result).toMatchObject({ ok: 0, errors: { ECONNREFUSED: 20 } })
          expect(result.seconds).toBeLessThan(1)
        })
        test.each(targets)('UDP %s', async target => {
          expect(await lab.load(host, target, { mode: 'udp', count: 20 })).toMatchObject({
            ok: 0,
            errors: { ECONNREFUSED: 20 },
          })
        })
      })
    })
  })

  describe('a node port that nobody serves', () => {
    test.each(nodeA(30999))("belongs to the node's own stack: %s", async target => {
      expect(await lab.load('client', target, { count: 5 })).toMatchObject({ errors: { ECONNREFUSED: 5 } })
    })
  })

  describe('when no endpoint is ready', () => {
    test.each(cluster(13))('row 42: those that still serve while terminating are used: %s', async target => {
      expect(await lab.load('pod-a1', target, { count: 50 })).toMatchObject({ backends: { 'pod-a2': 50 }, errors: {} })
    })
  })
})
