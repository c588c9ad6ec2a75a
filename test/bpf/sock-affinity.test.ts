import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FrontendKind, Scheduler } from '../../src/ebpf/generated/layouts.js'
import { BACKENDS_V4, describeSockets, type ServiceHandle, type SockClient, SockRig } from './sock-rig.js'

/**
 * Round robin on one CPU is predictable: without affinity each flow goes to the next
 * backend, so "the same again" can only be affinity's doing.
 */
describeSockets('session affinity', () => {
  let rig: SockRig
  let pod: SockClient
  let other: SockClient
  let addresses = 0

  beforeAll(async () => {
    rig = await SockRig.create()
    pod = await rig.client('a')
    other = await rig.client('b')
    for (const client of [pod, other]) await client.call('pin', 0)
  })
  afterAll(() => rig?.close())

  function service(affinityS: number, kinds: readonly FrontendKind[] = [FrontendKind.CLUSTER_IP]) {
    const addrs = kinds.map(() => `172.30.0.${++addresses}`)
    const handle = rig.addService({
      frontends: addrs.map((addr, i) => ({ addr, port: 80, proto: 'UDP', kind: kinds[i] as FrontendKind })),
      backends: BACKENDS_V4.map(addr => ({ addr })),
      scheduler: Scheduler.RR,
      affinityS,
    })
    return { addrs, handle }
  }

  /** Position in the list of the backend that a new flow of the client gets. */
  async function dial(client: SockClient, addr: string | undefined, handle: ServiceHandle): Promise<number> {
    const before = handle.backends.map(each => rig.opened(each))
    expect(await client.call('storm', 'udp4', addr ?? '', 80, 1)).toBe('connected=1 refused=0 other=0')
    return handle.backends.findIndex((each, i) => rig.opened(each) !== before[i])
  }

  test('without it every flow goes to the next backend', async () => {
    const { addrs, handle } = service(0)
    const got = [
      await dial(pod, addrs[0], handle),
      await dial(pod, addrs[0], handle),
      await dial(pod, addrs[0], handle),
    ]
    expect(got).toEqual([0, 1, 2])
  })

  test('a pod keeps its backend, through all frontends; another pod has its own', async () => {
    const { addrs, handle } = service(100, [FrontendKind.CLUSTER_IP, FrontendKind.EXTERNAL_IP])
    expect(await dial(pod, addrs[0], handle)).toBe(0)
    expect(await dial(other, addrs[0], handle)).toBe(1)
    for (let i = 0; i < 5; i++) {
      expect(await dial(pod, addrs[i % 2], handle)).toBe(0)
      expect(await dial(other, addrs[i % 2], handle)).toBe(1)
    }
  })

  test('each use begins the timeout anew, and it ends to the second', async () => {
    const { addrs, handle } = service(1)
    expect(await dial(pod, addrs[0], handle)).toBe(0)
    for (let i = 0; i < 3; i++) {
      await sleep(700)
      expect(await dial(pod, addrs[0], handle)).toBe(0)
    }
    await sleep(1010)
    expect(await dial(pod, addrs[0], handle)).toBe(1)
  })

  test('a removed backend is forgotten at once, and the next choice is kept', async () => {
    const { addrs, handle } = service(100)
    expect(await dial(pod, addrs[0], handle)).toBe(0)
    rig.removeBackend(handle, handle.backends[0] ?? 0)
    const next = await dial(pod, addrs[0], handle)
    expect(next).toBeGreaterThan(0)
    expect(await dial(pod, addrs[0], handle)).toBe(next)
  })

  test('a backend that only left the list (terminating) gets no new flow either', async () => {
    const { addrs, handle } = service(100)
    expect(await dial(pod, addrs[0], handle)).toBe(0)
    rig.drainBackend(handle, handle.backends[0] ?? 0)
    expect(await dial(pod, addrs[0], handle)).toBeGreaterThan(0)
  })
})
