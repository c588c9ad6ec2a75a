import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** Who may use what: source ranges, whom a traffic policy takes for an outside client, node ports on loopback. */

const PORTS = [
  { name: 'tcp', port: 80 },
  { name: 'udp', protocol: 'UDP' as const, port: 80 },
]
const ports = (nodePort: number) => PORTS.map(port => ({ ...port, nodePort }))
const CLIENT_ONLY = ['203.0.113.0/24', '2001:db8:203::/64']
const PODS_ONLY = ['10.244.0.0/16', '2001:db8:244::/48']

const restricted = (name: string, last: number, loadBalancerSourceRanges: string[]) =>
  service({
    name,
    ip: last,
    loadBalancer: last,
    ports: ports(30080 + last),
    pods: ['pod-a2', 'pod-b2'],
    spec: { loadBalancerSourceRanges },
  })

const OBJECTS = [
  ...restricted('for-client', 10, CLIENT_ONLY),
  ...restricted('for-pods', 11, PODS_ONLY),
  ...restricted('for-node', 12, ['192.168.0.11/32', '2001:db8:192::11/128']),
  ...service({
    name: 'local',
    ip: 13,
    loadBalancer: 13,
    ports: ports(30093),
    pods: ['pod-b2'],
    spec: { externalTrafficPolicy: 'Local' },
  }),
  ...service({ name: 'alone', ip: 14, loadBalancer: 14, ports: ports(30094), pods: ['pod-a1'] }),
]

const both = (v4: string, v6: string, port: number) => [`${v4}:${port}`, `[${v6}]:${port}`]
const nodeA = (port: number) => both('192.168.0.11', '2001:db8:192::11', port)
const balancer = (last: number) => both(`198.51.100.${last}`, `2001:db8:198::${last}`, 80)
const cluster = (last: number) => both(`10.96.0.${last}`, `2001:db8:96::${last}`, 80)

describe.skipIf(CANNOT_RUN)(titled('filters and clients'), () => {
  let lab: TestLab
  beforeAll(async () => {
    const agentFlags = ['--cluster-cidr', PODS_ONLY.join(','), '--nodeport-addresses', 'primary,localhost']
    lab = await TestLab.up({ objects: OBJECTS, agentFlags })
  })
  afterAll(() => lab?.down())

  describe.each(['tcp', 'udp'] as const)('%s', mode => {
    const served = async (host: string, target: string) => {
      expect(await lab.load(host, target, { mode, count: 20 })).toMatchObject({ ok: 20, errors: {} })
    }
    const dropped = async (host: string, target: string) => {
      const result = await lab.load(host, target, { mode, count: 2, timeout: 700 })
      expect(result).toMatchObject({ ok: 0, errors: { TIMEOUT: 2 } })
    }
    const refused = async (host: string, target: string) => {
      expect(await lab.load(host, target, { mode, count: 2 })).toMatchObject({ ok: 0, errors: { EPERM: 2 } })
    }

    test.each(balancer(10))('row 39: a range of outside clients lets them in, pods and nodes not: %s', async target => {
      await served('client', target)
      await refused('pod-a1', target)
      await refused('pod-b1', target)
      await refused('node-a', target)
    })

    test.each(balancer(11))('row 39: a range of the pods lets in pods of every node, nobody else: %s', async target => {
      await dropped('client', target)
      await served('pod-a1', target)
      await served('pod-b1', target)
      await refused('node-a', target)
    })

    test.each(balancer(12))("a node's address lets in that node: %s", async target => {
      await dropped('client', target)
      await served('node-a', target)
      await refused('node-b', target)
      await refused('pod-a1', target)
    })

    test.each([...nodeA(30092), ...cluster(12)])(
      'other frontends of a restricted Service are open: %s',
      async target => {
        await served('pod-b1', target)
        if (target.includes(':30092')) await served('client', target)
      },
    )

    test.each(nodeA(30093))('externalTrafficPolicy: Local does not bind a pod of another node: %s', async target => {
      await dropped('client', target)
      const result = await lab.load('pod-b1', target, { mode, count: 20 })
      expect(result).toMatchObject({ backends: { 'pod-b2': 20 }, errors: {} })
    })

    test.each(['127.0.0.1:30094', '[::1]:30094'])(
      '%s is a node port of the node, and nothing in a pod',
      async target => {
        await served('node-a', target)
        await served('node-b', target)
        const result = await lab.load('pod-b1', target, { mode, count: 2, timeout: 700 })
        expect(result.ok).toBe(0)
      },
    )

    test.each([...cluster(14), ...balancer(14), ...nodeA(30094)])(
      'row 36: a pod reaches itself through %s',
      async target => {
        const result = await lab.load('pod-a1', target, { mode, count: 20 })
        expect(result).toMatchObject({ backends: { 'pod-a1': 20 }, errors: {} })
      },
    )
  })

  test('what was denied is counted at both layers, and shown with its networks', async () => {
    const outcomes = await lab.show('node-a', 'outcomes')
    for (const hook of ['connect', 'tc_ingress']) {
      expect(outcomes).toContainEqual(expect.objectContaining({ hook, outcome: 'source_denied' }))
    }
    const services = await lab.show('node-a', 'services')
    const sources = services.filter(row => row.service === 'for-client').map(row => row.sourceRanges)
    expect(new Set(sources.flat())).toEqual(new Set(CLIENT_ONLY))
  })

  test('the kernel is left as it was: loopback is routed nowhere', async () => {
    const { out } = await lab.exec('node-a', ['sh', '-c', 'cat /proc/sys/net/ipv4/conf/*/route_localnet'])
    expect(new Set(out.trim().split('\n'))).toEqual(new Set(['0']))
  })

  test('ranges change under traffic: those who stay inside notice nothing', async () => {
    const [target = ''] = balancer(10)
    const load = lab.startLoad('client', target, { mode: 'tcp', concurrency: 2 })
    const others = OBJECTS.slice(restricted('for-client', 10, []).length)
    await lab.apply([...restricted('for-client', 10, ['203.0.113.10/32', '2001:db8:203::10/128']), ...others])
    await lab.apply([...restricted('for-client', 10, [...CLIENT_ONLY, '10.244.1.0/24']), ...others])
    await lab.apply([...restricted('for-client', 10, []), ...others])
    const result = await load.stop()
    expect(result.errors).toEqual({})
    expect(result.ok).toBeGreaterThan(0)
    expect((await lab.load('pod-b1', target, { mode: 'tcp', count: 5 })).ok).toBe(5)
    await lab.apply([...restricted('for-client', 10, ['192.0.2.0/24']), ...others])
    expect((await lab.load('client', target, { mode: 'tcp', count: 2, timeout: 700 })).ok).toBe(0)
  })
})
