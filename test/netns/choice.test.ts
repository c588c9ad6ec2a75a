import { cpus } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** How new connections spread over backends, and how long an affinity lasts. */

const THREE = ['pod-a1', 'pod-b1', 'pod-b2']
const CONNECTIONS = 30_000
/** Ports of the Service with affinity: so many clients in one, since an affinity is per Service port. */
const STICKY_PORTS = Array.from({ length: 20 }, (_, index) => index + 1)
const STICKY_SECONDS = 4
const STICKY_NODE_PORT = 30_100

const OBJECTS = [
  ...service({ name: 'random', ip: 10, ports: [{ port: 80, nodePort: 30080 }], pods: THREE }),
  ...service({ name: 'rr', ip: 11, ports: [{ port: 80, nodePort: 30081 }], pods: THREE, scheduler: 'rr' }),
  ...service({
    name: 'hash',
    ip: 13,
    ports: [{ port: 80, nodePort: 30082 }],
    pods: THREE,
    scheduler: 'source-hash',
  }),
  ...service({ name: 'maglev', ip: 14, ports: [{ port: 80, nodePort: 30083 }], pods: THREE, scheduler: 'maglev' }),
  ...service({ name: 'least', ip: 15, ports: [{ port: 80 }], pods: THREE, scheduler: 'least-conn' }),
  ...service({
    name: 'sticky',
    ip: 12,
    ports: STICKY_PORTS.map(port => ({ name: `p${port}`, port, nodePort: STICKY_NODE_PORT + port })),
    pods: THREE,
    spec: { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: STICKY_SECONDS } } },
  }),
]

describe.skipIf(CANNOT_RUN)(titled('choice of the backend'), () => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: OBJECTS })
  })
  afterAll(() => lab?.down())

  const even = CONNECTIONS / THREE.length

  // 3 % of 10,000 are 3.7 standard deviations: one run in 1,500 exceeds it by chance, two in a row do not.
  test.each([
    ['a pod', 'pod-a2', '10.96.0.10:80'],
    ['outside', 'client', '192.168.0.11:30080'],
  ])('random, from %s: 30,000 connections within three percent of even', { retry: 1 }, async (_, host, target) => {
    const { backends, ok } = await lab.load(host, target, { count: CONNECTIONS, concurrency: 8 })
    expect(ok).toBe(CONNECTIONS)
    expect(Object.keys(backends)).toEqual(THREE)
    for (const count of Object.values(backends)) expect(Math.abs(count - even)).toBeLessThan(even * 0.03)
  })

  test.each([
    ['a pod', 'pod-a2', '10.96.0.11:80'],
    ['outside', 'client', '192.168.0.11:30081'],
  ])('round robin, from %s: 30,000 connections within one per CPU of even', async (_, host, target) => {
    const { backends, ok } = await lab.load(host, target, { count: CONNECTIONS, concurrency: 8 })
    expect(ok).toBe(CONNECTIONS)
    for (const name of THREE) expect(Math.abs((backends[name] ?? 0) - even)).toBeLessThanOrEqual(cpus().length)
  })

  test('source hash: a client outside has one backend, whichever node it comes to', async () => {
    const [a, b] = [
      await lab.load('client', '192.168.0.11:30082', { count: 200, concurrency: 4 }),
      await lab.load('client', '192.168.0.12:30082', { count: 200, concurrency: 4 }),
    ]
    expect([a.ok, b.ok]).toEqual([200, 200])
    expect(Object.keys(a.backends)).toHaveLength(1)
    expect(b.backends).toEqual(a.backends)
  })

  test.each([
    ['maglev', 'a pod', 'pod-a2', '10.96.0.14:80'],
    ['maglev', 'outside', 'client', '192.168.0.11:30083'],
    ['least connections', 'a pod', 'pod-a2', '10.96.0.15:80'],
  ])('%s: within a tenth of even over 6,000 connections from %s', async (_, __, host, target) => {
    const { backends, ok } = await lab.load(host, target, { count: 6000, concurrency: 8 })
    expect(ok).toBe(6000)
    expect(Object.keys(backends)).toEqual(THREE)
    // 5.5 standard deviations of random choice.
    for (const count of Object.values(backends)) expect(Math.abs(count - 2000)).toBeLessThan(200)
  })

  /**
   * Asks all frontends at once after each of the pauses (milliseconds), from one process of
   * a host, so that its start costs no time under test. Gives the names of the backends.
   */
  async function backendsAfter(
    host: string,
    pauses: readonly number[],
    frontends: readonly string[],
  ): Promise<string[][]> {
    const script = `
      const net = require('net')
      const { setTimeout: sleep } = require('timers/promises')
      const ask = target => new Promise((resolve, reject) => {
        const [, address, port] = /^\\[?([^\\]]*)\\]?:(\\d+)$/.exec(target)
        let text = ''
        net.connect({ host: address, port: Number(port) }).on('error', reject)
          .on('connect', function () { this.write('GET / HTTP/1.0\\r\\n\\r\\n') })
          .on('data', chunk => { text += chunk })
          .on('end', () => resolve(JSON.parse(text.slice(text.indexOf('{'))).name))
      })
      const [pauses, frontends] = process.argv.slice(1).map(JSON.parse)
      const main = async () => {
        const seen = []
        for (const pause of pauses) {
          await sleep(pause)
          seen.push(await Promise.all(frontends.map(ask)))
        }
        console.log(JSON.stringify(seen))
      }
      main()`
    const args = [JSON.stringify(pauses), JSON.stringify(frontends)]
    const { out, err } = await lab.exec(host, [process.execPath, '-e', script, ...args])
    expect(err).toBe('')
    return JSON.parse(out)
  }

  describe(`session affinity of ${STICKY_SECONDS} s`, () => {
    const kinds = [
      ['a pod', 'pod-a2', (port: number) => `10.96.0.12:${port}`],
      ['a pod, IPv6', 'pod-a1', (port: number) => `[2001:db8:96::12]:${port}`],
      ['outside', 'client', (port: number) => `192.168.0.11:${STICKY_NODE_PORT + port}`],
      ['outside, IPv6', 'client', (port: number) => `[2001:db8:192::11]:${STICKY_NODE_PORT + port}`],
    ] as const
    test.each(kinds)('holds to the second, from %s', async (_, host, frontend) => {
      const almost = (STICKY_SECONDS - 0.7) * 1000
      const over = (STICKY_SECONDS + 0.2) * 1000
      const seen = await backendsAfter(host, [0, almost, almost, over], STICKY_PORTS.map(frontend))
      // Twenty random choices are not all the same: the ports do not share an affinity.
      expect(new Set(seen[0]).size).toBeGreaterThan(1)
      // Not over yet, and each use begins it anew.
      expect(seen[1]).toEqual(seen[0])
      expect(seen[2]).toEqual(seen[0])
      // Over: twenty new choices are the old ones with a chance of 1 in 3^20.
      expect(seen[3]).not.toEqual(seen[0])
    })

    test('is per client: two pods are not bound to the same backends', async () => {
      const frontends = STICKY_PORTS.map(port => `10.96.0.12:${port}`)
      expect(await backendsAfter('pod-b1', [0], frontends)).not.toEqual(await backendsAfter('pod-b2', [0], frontends))
    })
  })
})
