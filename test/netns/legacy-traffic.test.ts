import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { killAgent, startAgent } from '../../tools/labkit/agent.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** Real connections through the rules of the dataplanes that are made of rules. */

const ports = (nodePort: number) => [
  { name: 'tcp', port: 80, nodePort },
  { name: 'udp', protocol: 'UDP' as const, port: 80, nodePort },
]
const ALL = ['pod-a1', 'pod-a2', 'pod-b1', 'pod-b2']
const OBJECTS = [
  ...service({ name: 'web', ip: 10, loadBalancer: 10, external: 30, ports: ports(30080), pods: ALL }),
  ...service({
    name: 'local',
    ip: 11,
    loadBalancer: 11,
    ports: ports(30081),
    pods: ['pod-a2'],
    spec: { externalTrafficPolicy: 'Local' },
  }),
  ...service({ name: 'empty', ip: 12, loadBalancer: 12, ports: ports(30082), pods: [] }),
  ...service({
    name: 'restricted',
    ip: 13,
    loadBalancer: 13,
    ports: ports(30083),
    pods: ['pod-a2', 'pod-b2'],
    spec: { loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8:ffff::/48'] },
  }),
  ...service({
    name: 'sticky',
    ip: 14,
    ports: ports(30084),
    pods: ALL,
    spec: { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
  }),
  ...service({ name: 'self', ip: 15, ports: ports(30085), pods: ['pod-a1'] }),
]

const both = (v4: string, v6: string, port: number) => [`${v4}:${port}`, `[${v6}]:${port}`]
const nodeA = (port: number) => both('192.168.0.11', '2001:db8:192::11', port)
const nodeB = (port: number) => both('192.168.0.12', '2001:db8:192::12', port)
const cluster = (last: number, port = 80) => both(`10.96.0.${last}`, `2001:db8:96::${last}`, port)
const balancer = (last: number, port = 80) => both(`198.51.100.${last}`, `2001:db8:198::${last}`, port)
const FLAGS = ['--cluster-cidr', '10.244.0.0/16,2001:db8:244::/48']
const CLIENT = ['203.0.113.10', '2001:db8:203::10']

describe.skipIf(CANNOT_RUN).each(['iptables', 'nftables'])(titled('--dataplane %s'), dataplane => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({
      objects: OBJECTS,
      dataplane,
      agentFlags: FLAGS,
    })
    // The kernel sends few messages of this kind a second otherwise, whoever asks.
    const unlimited = ['net.ipv4.icmp_ratelimit=0', 'net.ipv4.icmp_msgs_per_sec=10000', 'net.ipv6.icmp.ratelimit=0']
    for (const node of ['node-a', 'node-b']) await lab.exec(node, ['sysctl', '-qw', ...unlimited])
  })
  afterAll(() => lab?.down())

  describe.each(['tcp', 'udp'] as const)('%s', mode => {
    test.each([
      ['pod-a1', [...cluster(10), ...balancer(10), ...balancer(30), ...nodeB(30080)]],
      ['node-a', [...cluster(10), ...balancer(10), ...nodeA(30080)]],
      ['client', [...balancer(10), ...balancer(30), ...nodeA(30080), ...nodeB(30080)]],
    ])('%s reaches every backend through every frontend', async (host, targets) => {
      for (const target of targets) {
        const { backends, errors, ok } = await lab.load(host, target, { mode, count: 80 })
        expect([target, ok, errors]).toEqual([target, 80, {}])
        expect(Object.keys(backends).sort()).toEqual(ALL)
      }
    })

    test('externalTrafficPolicy: Local keeps the address of outside clients', async () => {
      for (const target of [...nodeA(30081), ...balancer(11)]) {
        const { backends, peers, errors } = await lab.load('client', target, { mode, count: 20 })
        expect([target, backends, errors]).toEqual([target, { 'pod-a2': 20 }, {}])
        expect(CLIENT).toEqual(expect.arrayContaining(Object.keys(peers)))
      }
    })

    test('externalTrafficPolicy: Local is silent where no backend is', async () => {
      for (const target of nodeB(30081)) {
        const { ok, errors } = await lab.load('client', target, { mode, count: 2, timeout: 700 })
        expect([target, ok, errors]).toEqual([target, 0, { TIMEOUT: 2 }])
      }
    })

    test('externalTrafficPolicy: Local does not bind pods of other nodes', async () => {
      for (const target of balancer(11)) {
        const { backends, errors } = await lab.load('pod-b1', target, { mode, count: 20 })
        expect([target, backends, errors]).toEqual([target, { 'pod-a2': 20 }, {}])
      }
    })

    // As with kube-proxy: a node is not told of other frontends than the ClusterIP, and the
    // kernel does not end a TCP connection over IPv6 for the message that iptables sends.
    test.each([
      ['pod-a1', [...cluster(12), ...balancer(12)]],
      ['node-a', cluster(12)],
      ['client', [...balancer(12), ...nodeA(30082)]],
    ])('a Service without backends refuses %s at once', async (host, targets) => {
      for (const target of targets) {
        if (mode === 'tcp' && target.startsWith('[')) continue
        const { ok, errors } = await lab.load(host, target, { mode, count: 1, timeout: 700 })
        // A UDP sender of this node is told in the words of its own firewall.
        const reason = mode === 'udp' && host === 'node-a' ? 'EPERM' : 'ECONNREFUSED'
        expect([target, ok, errors]).toEqual([target, 0, { [reason]: 1 }])
      }
    })

    test('source ranges keep outside clients away from the load balancer alone', async () => {
      for (const target of balancer(13)) {
        expect(await lab.load('client', target, { mode, count: 2, timeout: 700 })).toMatchObject({ ok: 0 })
      }
      for (const target of nodeA(30083)) {
        expect(await lab.load('client', target, { mode, count: 20 })).toMatchObject({ ok: 20 })
      }
    })

    test('affinity keeps a client at one backend', async () => {
      for (const target of cluster(14)) {
        const { backends } = await lab.load('pod-a1', target, { mode, count: 40 })
        expect([target, Object.values(backends)]).toEqual([target, [40]])
      }
    })

    test('a pod reaches itself', async () => {
      for (const target of cluster(15)) {
        expect(await lab.load('pod-a1', target, { mode, count: 10 })).toMatchObject({ backends: { 'pod-a1': 10 } })
      }
    })
  })

  test('a UDP exchange moves when its backend goes', async () => {
    const moved = (pods: string[]) => [
      ...OBJECTS.filter(each => !JSON.stringify(each).includes('"self')),
      ...service({ name: 'self', ip: 15, ports: ports(30085), pods }),
    ]
    await lab.apply(moved(['pod-b1']))
    const loads = [
      lab.startLoad('pod-a1', '10.96.0.15:80', { mode: 'udp-keep', concurrency: 1, interval: 5, timeout: 500 }),
      lab.startLoad('client', '192.168.0.11:30085', { mode: 'udp-keep', concurrency: 1, interval: 5, timeout: 500 }),
    ]
    await Promise.all(loads.map(load => load.answered))
    await lab.apply(moved(['pod-b2']))
    await sleep(1500)
    for (const load of loads) {
      const { backends, failed } = await load.stop()
      expect(Object.keys(backends).sort()).toEqual(['pod-b1', 'pod-b2'])
      // The old backend goes on answering until its exchange is ended; one datagram may be under way then.
      expect(failed).toBeLessThanOrEqual(1)
    }
  })

  test('a restart of the agent writes nothing and breaks no connection', async () => {
    const load = lab.startLoad('client', '192.168.0.11:30080', { mode: 'tcp', interval: 5 })
    await load.answered
    const before = lab.applied('node-a').length
    await killAgent(lab.lab, 'node-a')
    await startAgent(lab.lab, 'node-a', FLAGS)
    const until = Date.now() + 10_000
    while (lab.applied('node-a').length === before && Date.now() < until) await sleep(50)
    expect(lab.applied('node-a').at(-1)).toMatchObject({ writes: 0 })
    expect(await load.stop()).toMatchObject({ errors: {} })
  })
})
