import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { listTarget } from '../../src/dataplane/ebpf/list-target.js'
import { FrontendKind, Scheduler } from '../../src/ebpf/generated/layouts.js'
import {
  BACKENDS_V4,
  describeSockets,
  type ServiceHandle,
  type SockClient,
  type SockHandle,
  SockRig,
} from './sock-rig.js'

const SERVICE = 'default/web:http/TCP/IPv4'

/** Which backend each scheduler gives to sockets. */
describeSockets('schedulers', () => {
  let rig: SockRig
  let pod: SockClient
  let made = 0

  beforeAll(async () => {
    rig = await SockRig.create()
  })
  beforeEach(async () => {
    pod = await rig.client()
  })
  afterAll(() => rig?.close())

  /** A Service on the three backends, its list as the control plane makes it. */
  function serve(
    scheduler: 'source-hash' | 'maglev' | 'least-conn',
    weights: readonly number[] = [1, 1, 1],
    proto: 'TCP' | 'UDP' = 'TCP',
  ): { addr: string; service: ServiceHandle } {
    const addr = `172.30.1.${++made}`
    const number = {
      'source-hash': Scheduler.SOURCE_HASH,
      maglev: Scheduler.MAGLEV,
      'least-conn': Scheduler.LEAST_CONN,
    }
    const service = rig.addService({
      frontends: [{ addr, port: 80, proto, kind: FrontendKind.CLUSTER_IP }],
      backends: weights.map((weight, i) => ({ addr: BACKENDS_V4[i] ?? '', weight })),
      scheduler: number[scheduler],
    })
    const members = service.backends.map((index, i) => ({ index, key: BACKENDS_V4[i] ?? '', weight: weights[i] ?? 1 }))
    const target = listTarget(scheduler, SERVICE, members)
    const slots =
      target.kind === 'table' ? target.slots : [...target.counts].flatMap(([index, n]) => Array(n).fill(index))
    rig.setBackends(service.index, slots)
    return { addr, service }
  }

  /** Connects n sockets; which backend each was given, and the sockets. */
  async function connect(client: SockClient, addr: string, n: number): Promise<{ to: string; socket: SockHandle }[]> {
    const connected: { to: string; socket: SockHandle }[] = []
    for (let i = 0; i < n; i++) {
      const socket = await client.socket('tcp4')
      expect(await socket.connect(addr, 80)).toBe('')
      connected.push({ to: (await socket.recv()).replace('- ', ''), socket })
    }
    return connected
  }

  async function close(sockets: readonly { socket: SockHandle }[]): Promise<void> {
    for (const { socket } of sockets) expect(await socket.close()).toBe('')
  }

  const live = ({ backends }: ServiceHandle) => backends.map(each => Number(rig.tcpLive(each)))

  test('source hash: a pod has one backend, whatever the socket', async () => {
    const { addr } = serve('source-hash')
    const here = await connect(pod, addr, 10)
    expect(new Set(here.map(each => each.to)).size).toBe(1)
    await close(here)
  })

  test('maglev: sockets of one pod are spread over all', async () => {
    const { addr } = serve('maglev')
    const here = await connect(pod, addr, 90)
    for (const backend of BACKENDS_V4) {
      // 30 expected; six standard deviations are 27.
      expect(here.filter(each => each.to === backend).length).toBeGreaterThan(3)
    }
    await close(here)
  })

  test('TCP sockets are counted while they are connected, once each', async () => {
    const { addr, service } = serve('least-conn')
    const here = await connect(pod, addr, 9)
    const counts = BACKENDS_V4.map(backend => here.filter(each => each.to === backend).length)
    expect(live(service)).toEqual(counts)
    const [first] = here
    const again = await first?.socket.dup()
    await first?.socket.close()
    expect(live(service)).toEqual(counts) // the other descriptor holds it
    await again?.close()
    await close(here.slice(1))
    expect(live(service)).toEqual([0, 0, 0])
  })

  test('a socket that could not connect leaves the count when it is closed', async () => {
    const addr = `172.30.1.${++made}`
    const service = rig.addService({
      frontends: [{ addr, port: 80, proto: 'TCP', kind: FrontendKind.CLUSTER_IP }],
      backends: [{ addr: '10.9.9.9' }],
    })
    const socket = await pod.socket('tcp4')
    expect(await socket.connect(addr, 80)).toBe('ENETUNREACH')
    await socket.close()
    expect(live(service)).toEqual([0])
  })

  test('least connections: who lost some gets the next ones', async () => {
    const { addr, service } = serve('least-conn')
    const here = await connect(pod, addr, 30)
    const [, b = 0, c = 0] = live(service)
    const [gone] = BACKENDS_V4
    await close(here.filter(each => each.to === gone))
    expect(live(service)).toEqual([0, b, c])
    const kept = here.filter(each => each.to !== gone)
    const more = await connect(pod, addr, 45)
    const counts = live(service)
    expect(counts.reduce((sum, each) => sum + each, 0)).toBe(b + c + 45)
    // Of 45 at random the one that lost its ten would stay ten behind.
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(3)
    await close([...kept, ...more])
    expect(live(service)).toEqual([0, 0, 0])
  })

  test('least connections: twice the weight, twice the sockets', async () => {
    const { addr, service } = serve('least-conn', [2, 1])
    const here = await connect(pod, addr, 60)
    const [heavy = 0, light = 0] = live(service)
    expect(heavy + light).toBe(60)
    expect(Math.abs(heavy - 40)).toBeLessThanOrEqual(3)
    await close(here)
  })

  test('least connections: connected UDP sockets count, too', async () => {
    const { addr, service } = serve('least-conn', [1, 1, 1], 'UDP')
    const sockets: SockHandle[] = []
    for (let i = 0; i < 30; i++) {
      const socket = await pod.socket('udp4')
      expect(await socket.connect(addr, 80)).toBe('')
      sockets.push(socket)
    }
    const counts = service.backends.map(each => Number(rig.udpLive(each)))
    expect(counts.reduce((sum, each) => sum + each, 0)).toBe(30)
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(3)
    for (const socket of sockets) await socket.close()
  })
})
