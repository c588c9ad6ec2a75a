import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LoadMode } from '../../tools/labkit/load/target.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** Who can dial what, and which peer the backend sees, in both families, over TCP and UDP. */

const POD_A1 = { IPv4: '10.244.1.11', IPv6: '2001:db8:244:1::11' }
const NODE_A = { IPv4: '192.168.0.11', IPv6: '2001:db8:192::11' }
const NODE_B = { IPv4: '192.168.0.12', IPv6: '2001:db8:192::12' }
const CLIENT = { IPv4: '203.0.113.10', IPv6: '2001:db8:203::10' }
type Family = keyof typeof POD_A1
type Pair = { readonly [F in Family]: string }

/** both: a backend on each node. alone: one on node-a. self: the caller is its own only backend. */
const both = { cluster: { IPv4: '10.96.0.10', IPv6: '2001:db8:96::10' }, port: 80, nodePort: 30080 }
const alone = { cluster: { IPv4: '10.96.0.11', IPv6: '2001:db8:96::11' }, port: 80, nodePort: 30081 }
const self = { cluster: { IPv4: '10.96.0.12', IPv6: '2001:db8:96::12' }, port: 80 }
const lb: Pair = { IPv4: '198.51.100.10', IPv6: '2001:db8:198::10' }
const external: Pair = { IPv4: '198.51.100.20', IPv6: '2001:db8:198::20' }

const OBJECTS = [
  ...service({
    name: 'both',
    ip: 10,
    loadBalancer: 10,
    external: 20,
    ports: [
      { name: 'tcp', port: 80, nodePort: both.nodePort },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: both.nodePort },
    ],
    pods: ['pod-a2', 'pod-b1'],
  }),
  ...service({
    name: 'alone',
    ip: 11,
    ports: [
      { name: 'tcp', port: 80, nodePort: alone.nodePort },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: alone.nodePort },
    ],
    pods: ['pod-a2'],
  }),
  ...service({
    name: 'self',
    ip: 12,
    ports: [
      { name: 'tcp', port: 80 },
      { name: 'udp', protocol: 'UDP', port: 80 },
    ],
    pods: ['pod-a1'],
  }),
]

interface Journey {
  readonly name: string
  readonly from: string
  readonly to: Pair
  readonly port: number
  /** Backends that must all answer, and no others. */
  readonly backends: readonly string[]
  /** Peers that backends may see; all of them must be seen. */
  readonly peers: readonly Pair[]
}

const BOTH = ['pod-a2', 'pod-b1']
const JOURNEYS: Journey[] = [
  { name: 'ClusterIP from a pod', from: 'pod-a1', to: both.cluster, port: 80, backends: BOTH, peers: [POD_A1] },
  { name: 'ClusterIP from a node', from: 'node-a', to: both.cluster, port: 80, backends: BOTH, peers: [NODE_A] },
  {
    name: 'ClusterIP whose backend is the caller',
    from: 'pod-a1',
    to: self.cluster,
    port: 80,
    backends: ['pod-a1'],
    peers: [POD_A1],
  },
  {
    name: 'own node port from a pod',
    from: 'pod-a1',
    to: NODE_A,
    port: both.nodePort,
    backends: BOTH,
    peers: [POD_A1],
  },
  {
    name: 'own node port from the node',
    from: 'node-a',
    to: NODE_A,
    port: both.nodePort,
    backends: BOTH,
    peers: [NODE_A],
  },
  {
    name: "another node's node port from a pod",
    from: 'pod-a1',
    to: NODE_B,
    port: alone.nodePort,
    backends: ['pod-a2'],
    peers: [NODE_B],
  },
  {
    name: "another node's node port from a node",
    from: 'node-a',
    to: NODE_B,
    port: alone.nodePort,
    backends: ['pod-a2'],
    peers: [NODE_B],
  },
  { name: 'load-balancer address from a pod', from: 'pod-a1', to: lb, port: 80, backends: BOTH, peers: [POD_A1] },
  {
    name: 'load-balancer address from the other node',
    from: 'node-b',
    to: lb,
    port: 80,
    backends: BOTH,
    peers: [NODE_B],
  },
  { name: 'external address from a pod', from: 'pod-a1', to: external, port: 80, backends: BOTH, peers: [POD_A1] },
  {
    name: 'node port from outside, backend here',
    from: 'client',
    to: NODE_A,
    port: alone.nodePort,
    backends: ['pod-a2'],
    peers: [CLIENT],
  },
  {
    name: 'node port from outside, backend elsewhere',
    from: 'client',
    to: NODE_B,
    port: alone.nodePort,
    backends: ['pod-a2'],
    peers: [NODE_B],
  },
  {
    name: 'node port from outside, backends everywhere',
    from: 'client',
    to: NODE_A,
    port: both.nodePort,
    backends: BOTH,
    peers: [CLIENT, NODE_A],
  },
  {
    name: 'load-balancer address from outside',
    from: 'client',
    to: lb,
    port: 80,
    backends: BOTH,
    peers: [CLIENT, NODE_A],
  },
  {
    name: 'external address from outside',
    from: 'client',
    to: external,
    port: 80,
    backends: BOTH,
    peers: [CLIENT, NODE_A],
  },
]

const MODES: LoadMode[] = ['tcp', 'tcp-keep', 'udp', 'udp-keep', 'udp-sendto']
const FAMILIES: Family[] = ['IPv4', 'IPv6']

describe.skipIf(CANNOT_RUN)(titled('traffic through every kind of frontend'), () => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: OBJECTS })
  })
  afterAll(() => lab?.down())

  async function expectTraffic(journey: Journey, family: Family, mode: LoadMode, address: string): Promise<void> {
    const target = address.includes(':') ? `[${address}]:${journey.port}` : `${address}:${journey.port}`
    // 40 workers: each keeps its backend where a socket is kept, so both are seen all the same.
    const result = await lab.load(journey.from, target, { mode, count: 200, concurrency: 40 })
    expect(result).toMatchObject({ ok: 200, errors: {} })
    expect(Object.keys(result.backends)).toEqual(journey.backends)
    expect(new Set(Object.keys(result.peers))).toEqual(new Set(journey.peers.map(peer => peer[family])))
  }

  describe.each(JOURNEYS)('$name', journey => {
    describe.each(FAMILIES)('%s', family => {
      test.each(MODES)('%s', mode => expectTraffic(journey, family, mode, journey.to[family]))
    })
  })

  describe('an IPv4 frontend dialled as an IPv4-mapped IPv6 address', () => {
    const mapped = JOURNEYS.filter(journey => journey.from === 'pod-a1' && journey.backends === BOTH)
    describe.each(mapped)('$name', journey => {
      test.each(MODES)('%s', mode => expectTraffic(journey, 'IPv4', mode, `::ffff:${journey.to.IPv4}`))
    })
  })

  describe('the peer of a connected socket', () => {
    const script = `
      const [address, port] = process.argv.slice(1)
      const socket = require('net').connect({ host: address, port: Number(port) }, () => {
        console.log(socket.remoteAddress + ' ' + socket.remotePort)
        socket.destroy()
      })`
    test.each(FAMILIES)('is the address that was dialled (getpeername), %s', async family => {
      const { out } = await lab.exec('pod-a1', [process.execPath, '-e', script, both.cluster[family], '80'])
      expect(out).toBe(`${both.cluster[family]} 80\n`)
    })
  })

  describe('a pod dialled directly', () => {
    test.each(FAMILIES)('is not touched, %s', async family => {
      const address = family === 'IPv4' ? '10.244.2.11:8080' : '[2001:db8:244:2::11]:8080'
      expect(await lab.load('pod-a1', address, { count: 50 })).toMatchObject({ backends: { 'pod-b1': 50 }, errors: {} })
      expect(await lab.load('client', address, { count: 50 })).toMatchObject({ backends: { 'pod-b1': 50 }, errors: {} })
    })
  })
})
