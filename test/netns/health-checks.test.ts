import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ServiceSpec, service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

const PORT = 32_000
const TAKEN = 32_001
const NODES = {
  'node-a': ['192.168.0.11', '[2001:db8:192::11]'],
  'node-b': ['192.168.0.12', '[2001:db8:192::12]'],
} as const

const local = (part: Partial<ServiceSpec>, healthCheckNodePort = PORT) =>
  service({
    ...{ name: 'local', ip: 10, loadBalancer: 10, ports: [{ port: 80, nodePort: 30080 }], pods: ['pod-a1'] },
    ...part,
    spec: { externalTrafficPolicy: 'Local', healthCheckNodePort },
  })

describe.skipIf(CANNOT_RUN)(titled('health check node ports'), () => {
  let lab: TestLab

  beforeAll(async () => {
    lab = await TestLab.up({ objects: local({}) })
  })
  afterAll(() => lab?.down())

  /** Status and body as one host sees them; status 0 = no answer. */
  async function ask(from: string, host: string, port = PORT): Promise<{ status: number; body: unknown }> {
    const { out } = await lab.exec(from, ['curl', '-s', '-m', '2', '-w', '%{http_code}', `http://${host}:${port}/`])
    const [body = '', code = '0'] = out.split(/\n(?=[0-9]+$)/)
    return code === '0' ? { status: 0, body: undefined } : { status: Number(code), body: JSON.parse(body) }
  }

  /** The answers of all addresses of both nodes. */
  async function all(): Promise<Record<string, number[]>> {
    const rows = Object.entries(NODES).map(
      async ([node, hosts]) =>
        [node, await Promise.all(hosts.map(async host => (await ask('client', host)).status))] as const,
    )
    return Object.fromEntries(await Promise.all(rows))
  }

  test('say where the endpoints are, to a client outside, in both families', async () => {
    expect(await all()).toEqual({ 'node-a': [200, 200], 'node-b': [503, 503] })
    expect((await ask('client', NODES['node-a'][0])).body).toEqual({
      service: { namespace: 'default', name: 'local' },
      localEndpoints: 1,
      serviceProxyHealthy: true,
    })
    expect((await ask('client', NODES['node-b'][1])).body).toMatchObject({ localEndpoints: 0 })
  })

  test('follow the endpoints within a second, down to none', async () => {
    await lab.apply(local({ pods: ['pod-b1', 'pod-b2'] }))
    expect(await all()).toEqual({ 'node-a': [503, 503], 'node-b': [200, 200] })
    expect((await ask('client', NODES['node-b'][0])).body).toMatchObject({ localEndpoints: 2 })
    const terminating = { ready: false, serving: true, terminating: true }
    await lab.apply(local({ pods: [{ pod: 'pod-b1', conditions: terminating }] }))
    expect(await all()).toEqual({ 'node-a': [503, 503], 'node-b': [503, 503] })
  })

  test('are served at node port addresses alone: not at the ClusterIP, not at the load balancer', async () => {
    await lab.apply(local({}))
    for (const host of ['10.96.0.10', '198.51.100.10']) {
      for (const from of ['client', 'pod-b1', 'node-a']) expect((await ask(from, host)).status).toBe(0)
    }
    expect((await ask('node-a', '127.0.0.1')).status).toBe(0)
  })

  test('a port that is taken is told, and served when it is free', async () => {
    const holder = lab.lab.spawn('node-a', [
      ...[process.execPath, '-e'],
      `require('net').createServer().listen(${TAKEN}, '192.168.0.11', () => console.log('listening'))`,
    ])
    try {
      await once(holder.stdout as NodeJS.ReadableStream, 'data')
      await lab.replaceManifests(local({}, TAKEN))
      await expect
        .poll(() => ask('client', NODES['node-a'][1], TAKEN), { timeout: 10_000 })
        .toMatchObject({
          status: 200,
        })
      const problem = lab.log('node-a').find(line => line.msg === 'input problem')
      expect(problem).toMatchObject({
        where: `Service default/local health check at 192.168.0.11:${TAKEN}`,
        field: 'spec.healthCheckNodePort',
        problem: expect.stringContaining('EADDRINUSE'),
      })
    } finally {
      holder.kill('SIGKILL')
    }
    await expect
      .poll(() => ask('client', NODES['node-a'][0], TAKEN), { timeout: 10_000 })
      .toMatchObject({
        status: 200,
      })
    expect((await ask('client', NODES['node-a'][0])).status).toBe(0)
  })

  test('go with the Service', async () => {
    await lab.apply(local({ name: 'other', ip: 11, loadBalancer: 11 }, 0))
    await sleep(100)
    expect((await ask('client', NODES['node-a'][0], TAKEN)).status).toBe(0)
  })
})
