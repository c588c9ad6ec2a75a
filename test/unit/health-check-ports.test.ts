import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/base/log.js'
import { HealthCheckPorts } from '../../src/daemon/health-check-ports.js'
import type { HealthInput } from '../../src/health/health.js'
import type { ProblemEvent } from '../../src/model/objects.js'
import type { HealthCheck } from '../../src/plan/health-checks.js'
import { address } from './plan-kit.js'
import { FakeClock } from './sync-fake-clock.js'

const LOCAL = [address('127.0.0.1')]
let clock: FakeClock
let ports: HealthCheckPorts
let health: HealthInput
let events: [string, ProblemEvent][]
let free: number[]

beforeEach(async () => {
  clock = new FakeClock()
  events = []
  const now = clock.wall()
  health = {
    sync: { synced: true, lastApplied: now, pendingSince: undefined },
    ...{ nodeEligible: true, now, staleAfterMs: 60_000, waitingFor: [], heldDeletions: 0 },
  }
  ports = new HealthCheckPorts({
    healthInput: () => health,
    clock,
    logger: silentLogger,
    onProblem: (service, event) => void events.push([service, event]),
  })
  // Held together, so that they are different ones.
  const holders = [await hold(0), await hold(0)]
  free = holders.map(holder => (holder.address() as AddressInfo).port)
  await Promise.all(holders.map(release))
})
afterEach(() => ports.stop())

async function hold(port: number): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  return server
}
const release = (server: Server) => new Promise<void>(resolve => server.close(() => resolve()))

const check = (name: string, port: number, IPv4 = 1): [string, HealthCheck] => [
  `default/${name}`,
  { namespace: 'default', name, port, localEndpoints: { IPv4, IPv6: 7 } },
]
/** Lets listening sockets come and go. */
const settled = () => clock.advanceAsync(0).then(() => clock.advanceAsync(0))
const get = (port: number, path = '/') => fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })

test("kube-proxy's answer, at any path: status, weight, body", async () => {
  const [port = 0] = free
  ports.set(new Map([check('web', port, 2)]), LOCAL)
  await settled()
  for (const path of ['/', '/healthz', '/any/thing?x']) {
    const answer = await get(port, path)
    expect(answer.status).toBe(200)
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'application/json',
      'x-content-type-options': 'nosniff',
      'x-load-balancing-endpoint-weight': '2',
    })
    expect(await answer.json()).toEqual({
      ...{ service: { namespace: 'default', name: 'web' }, localEndpoints: 2, serviceProxyHealthy: true },
    })
  }
})

test('503 without local endpoints, or when the proxy itself is not healthy; a leaving node changes nothing', async () => {
  const [port = 0] = free
  ports.set(new Map([check('web', port, 0)]), LOCAL)
  await settled()
  const none = await get(port)
  expect([none.status, none.headers.get('x-load-balancing-endpoint-weight')]).toEqual([503, '0'])
  expect(await none.json()).toMatchObject({ localEndpoints: 0, serviceProxyHealthy: true })

  ports.set(new Map([check('web', port, 1)]), LOCAL)
  expect((await get(port)).status).toBe(200)
  health = { ...health, nodeEligible: false }
  expect((await get(port)).status).toBe(200)
  health = { ...health, sync: { ...health.sync, pendingSince: new Date(health.now.getTime() - 61_000) } }
  const stale = await get(port)
  expect(stale.status).toBe(503)
  expect(await stale.json()).toMatchObject({ localEndpoints: 1, serviceProxyHealthy: false })
})

test('servers follow Services, ports and addresses; a port may change hands', async () => {
  const [first = 0, second = 0] = free
  ports.set(new Map([check('web', first)]), LOCAL)
  await settled()
  ports.set(new Map([check('web', second)]), LOCAL)
  await settled()
  await expect(get(first)).rejects.toThrow()
  expect((await get(second)).status).toBe(200)
  ports.set(new Map([check('other', second)]), LOCAL)
  await settled()
  expect(await (await get(second)).json()).toMatchObject({ service: { name: 'other' } })
  ports.set(new Map([check('other', second)]), [])
  await settled()
  await expect(get(second)).rejects.toThrow()
  for (let i = 0; i < 20; i++) ports.set(new Map([check('other', second, i)]), i % 2 ? LOCAL : [])
  await settled()
  expect((await get(second)).headers.get('x-load-balancing-endpoint-weight')).toBe('19')
  expect(events.filter(([, event]) => event.type === 'problem')).toEqual([])
})

test('a port that is taken is a problem of the Service, tried again until it is free', async () => {
  const [port = 0] = free
  const holder = await hold(port)
  ports.set(new Map([check('web', port)]), LOCAL)
  await settled()
  await clock.advanceAsync(12_000)
  const problems = events.filter(([, event]) => event.type === 'problem')
  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatchObject([
    'default/web',
    {
      where: `Service default/web health check at 127.0.0.1:${port}`,
      field: 'spec.healthCheckNodePort',
      message: expect.stringMatching(/EADDRINUSE.*free the port/),
    },
  ])
  await release(holder)
  await clock.advanceAsync(5000)
  await settled()
  expect((await get(port)).status).toBe(200)
  expect(events.at(-1)).toMatchObject(['default/web', { type: 'resolved' }])
})

test('who has a port keeps it when another Service asks for it, too', async () => {
  const [port = 0] = free
  ports.set(new Map([check('web', port)]), LOCAL)
  await settled()
  ports.set(new Map([check('web', port), check('a', port)]), LOCAL)
  await settled()
  expect(await (await get(port)).json()).toMatchObject({ service: { name: 'web' } })
  ports.set(new Map([check('a', port)]), LOCAL)
  await settled()
  expect(await (await get(port)).json()).toMatchObject({ service: { name: 'a' } })
})
