import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FrontendKind, Hook, Scheduler } from '../../src/ebpf/generated/layouts.js'
import {
  BACKEND_PORT,
  BACKENDS_V4,
  BACKENDS_V6,
  describeSockets,
  OUTSIDER_V4,
  OUTSIDER_V6,
  type SockClient,
  SockRig,
} from './sock-rig.js'

const V4 = BACKENDS_V4.map(addr => ({ addr }))
const V6 = BACKENDS_V6.map(addr => ({ addr }))

describeSockets('connect and getpeername', () => {
  let rig: SockRig
  let pod: SockClient

  beforeAll(async () => {
    rig = await SockRig.create()
    pod = await rig.client()
    const both = (addr: string) =>
      (['TCP', 'UDP'] as const).map(proto => ({ addr, port: 80, proto, kind: FrontendKind.CLUSTER_IP }))
    rig.addService({ frontends: both('172.30.0.1'), backends: V4.slice(0, 1) })
    rig.addService({ frontends: both('2001:db8:30::1'), backends: V6.slice(0, 1) })
  })
  afterAll(() => rig?.close())

  const families = [
    { family: 'ipv4', version: '4', dial: '172.30.0.1', shown: '172.30.0.1:80', backend: BACKENDS_V4[0] },
    { family: 'ipv6', version: '6', dial: '2001:db8:30::1', shown: '[2001:db8:30::1]:80', backend: BACKENDS_V6[0] },
    {
      family: 'ipv4 mapped',
      version: '6',
      dial: '::ffff:172.30.0.1',
      shown: '[::ffff:172.30.0.1]:80',
      backend: BACKENDS_V4[0],
    },
  ] as const

  test.each(families)('tcp $family reaches the backend and shows the frontend', async each => {
    const socket = await pod.socket(`tcp${each.version}`)
    expect(await socket.connect(each.dial, 80)).toBe('')
    expect(await socket.recv()).toBe(`- ${each.backend}`)
    expect(await socket.ask('hello')).toBe(`- ${each.backend} hello`)
    expect(await socket.peer()).toBe(each.shown)
    await socket.close()
  })

  test.each(families)('connected udp $family reaches the backend and shows the frontend', async each => {
    const socket = await pod.socket(`udp${each.version}`)
    expect(await socket.connect(each.dial, 80)).toBe('')
    expect(await socket.ask('hello')).toBe(`${each.shown} ${each.backend} hello`)
    expect(await socket.peer()).toBe(each.shown)
    await socket.close()
  })

  test('udp with an IPv4 address on an IPv6 socket', async () => {
    const socket = await pod.socket('udp6')
    expect(await socket.connect('172.30.0.1', 80)).toBe('')
    expect(await socket.ask('hello')).toBe(`[::ffff:172.30.0.1]:80 ${BACKENDS_V4[0]} hello`)
    expect(await socket.peer()).toBe('[::ffff:172.30.0.1]:80')
    await socket.close()
  })

  test.each([
    { kind: 'tcp4', addr: OUTSIDER_V4, shown: `${OUTSIDER_V4}:${BACKEND_PORT}` },
    { kind: 'tcp6', addr: OUTSIDER_V6, shown: `[${OUTSIDER_V6}]:${BACKEND_PORT}` },
    { kind: 'udp4', addr: OUTSIDER_V4, shown: `${OUTSIDER_V4}:${BACKEND_PORT}` },
    { kind: 'udp4', addr: BACKENDS_V4[0], shown: `${BACKENDS_V4[0]}:${BACKEND_PORT}` },
  ] as const)('$kind to $addr, no frontend, is left alone', async ({ kind, addr, shown }) => {
    const socket = await pod.socket(kind)
    const counted = await rig.countedBy(Hook.CONNECT, () => socket.connect(addr, BACKEND_PORT))
    expect(counted).toEqual({ not_service: 1 })
    expect(await socket.peer()).toBe(shown)
    await socket.close()
  })

  test('a socket that is neither TCP nor UDP is left alone, even towards a frontend', async () => {
    const socket = await pod.socket('icmp4')
    const counted = await rig.countedBy(Hook.CONNECT, () => socket.connect('172.30.0.1', 0))
    expect(counted).toEqual({ not_handled: 1 })
    await socket.close()
  })

  test('a udp socket that connects elsewhere shows what it dialled last', async () => {
    const socket = await pod.socket('udp4')
    await socket.connect('172.30.0.1', 80)
    expect(await socket.connect(OUTSIDER_V4, BACKEND_PORT)).toBe('')
    expect(await socket.peer()).toBe(`${OUTSIDER_V4}:${BACKEND_PORT}`)
    // The same address that the frontend gave, but dialled by its own name.
    expect(await socket.connect(BACKENDS_V4[0], BACKEND_PORT)).toBe('')
    expect(await socket.peer()).toBe(`${BACKENDS_V4[0]}:${BACKEND_PORT}`)
    expect(await socket.connect('172.30.0.1', 80)).toBe('')
    expect(await socket.peer()).toBe('172.30.0.1:80')
    await socket.disconnect()
    expect(await socket.peer()).toBe('ENOTCONN')
    await socket.close()
  })

  test('outcomes of a connection: connect and getpeername once each', async () => {
    const socket = await pod.socket('tcp4')
    const connect = await rig.countedBy(Hook.CONNECT, () => socket.connect('172.30.0.1', 80))
    const peer = await rig.countedBy(Hook.GETPEERNAME, () => socket.peer())
    expect({ connect, peer }).toEqual({ connect: { translated: 1 }, peer: { translated: 1 } })
    await socket.close()
  })

  describe('refused at once', () => {
    beforeAll(() => {
      const udp = (addr: string) => ({ addr, port: 80, proto: 'UDP' as const })
      rig.addService({ frontends: [{ addr: '172.30.0.2', port: 80, proto: 'TCP' }, udp('172.30.0.2')], backends: [] })
      rig.addService({
        frontends: [{ addr: '2001:db8:30::2', port: 80, proto: 'TCP' }, udp('2001:db8:30::2')],
        backends: [],
      })
      rig.addService({
        frontends: [{ addr: '172.30.0.3', port: 80, proto: 'TCP' }, udp('172.30.0.3')],
        backends: V4,
        internalLocal: true,
      })
    })

    test.each([
      { kind: 'tcp4', addr: '172.30.0.1', port: 81, outcome: 'no_port' },
      { kind: 'udp4', addr: '172.30.0.1', port: 81, outcome: 'no_port' },
      { kind: 'tcp6', addr: '2001:db8:30::1', port: 81, outcome: 'no_port' },
      { kind: 'tcp6', addr: '::ffff:172.30.0.1', port: 81, outcome: 'no_port' },
      { kind: 'tcp4', addr: '172.30.0.2', port: 80, outcome: 'no_backend' },
      { kind: 'udp4', addr: '172.30.0.2', port: 80, outcome: 'no_backend' },
      { kind: 'udp6', addr: '2001:db8:30::2', port: 80, outcome: 'no_backend' },
      { kind: 'tcp4', addr: '172.30.0.3', port: 80, outcome: 'no_local_backend' },
      { kind: 'udp4', addr: '172.30.0.3', port: 80, outcome: 'no_local_backend' },
    ] as const)('$kind to [$addr]:$port: $outcome', async ({ kind, addr, port, outcome }) => {
      const socket = await pod.socket(kind)
      const connect = await rig.countedBy(Hook.CONNECT, async () => {
        expect(await socket.connect(addr, port)).toBe('ECONNREFUSED')
      })
      expect(connect).toEqual({ [outcome]: 1 })
      await socket.close()
    })

    test('a refused connect leaves a udp socket where it was', async () => {
      const socket = await pod.socket('udp4')
      await socket.connect('172.30.0.1', 80)
      expect(await socket.connect('172.30.0.2', 80)).toBe('ECONNREFUSED')
      expect(await socket.peer()).toBe('172.30.0.1:80')
      expect(await socket.ask('still')).toBe(`172.30.0.1:80 ${BACKENDS_V4[0]} still`)
      await socket.close()
    })
  })

  test("broken state is counted and left alone: the address may be somebody else's", async () => {
    const frontends = (['TCP', 'UDP'] as const).map(proto => ({ addr: OUTSIDER_V4, port: BACKEND_PORT, proto }))
    rig.breakService(rig.addService({ frontends, backends: [] }).index)
    const [connected, unconnected] = [await pod.socket('tcp4'), await pod.socket('udp4')]
    const connect = await rig.countedBy(Hook.CONNECT, () => connected.connect(OUTSIDER_V4, BACKEND_PORT))
    const sendmsg = await rig.countedBy(Hook.SENDMSG, async () => {
      expect(await unconnected.askTo(OUTSIDER_V4, BACKEND_PORT, 'x')).toMatch(` ${OUTSIDER_V4} x`)
    })
    expect({ connect, sendmsg }).toEqual({ connect: { broken_state: 1 }, sendmsg: { broken_state: 1 } })
    expect(await connected.peer()).toBe(`${OUTSIDER_V4}:${BACKEND_PORT}`)
    await connected.close()
    await unconnected.close()
  })

  describe('traffic policies', () => {
    const policies = { internalLocal: true, externalLocal: true, backends: [{ addr: BACKENDS_V4[0] }] }
    const local = { addr: BACKENDS_V4[1], local: true }

    test('internal Local binds the cluster address: only the backend of this node', async () => {
      const service = rig.addService({
        ...policies,
        frontends: [{ addr: '172.30.1.1', port: 80, proto: 'UDP' }],
        backends: [...policies.backends, local],
      })
      expect(await pod.call('storm', 'udp4', '172.30.1.1', 80, 10)).toBe('connected=10 refused=0 other=0')
      expect(service.backends.map(each => rig.opened(each))).toEqual([0n, 10n])
    })

    test.each([
      { kind: FrontendKind.EXTERNAL_IP, addr: '172.30.1.2', name: 'external address' },
      { kind: FrontendKind.LOAD_BALANCER, addr: '172.30.1.3', name: 'load-balancer address' },
      { kind: FrontendKind.NODE_PORT, addr: '172.30.1.4', name: 'node port' },
    ])('neither policy binds a client here that dials the $name', async ({ kind, addr }) => {
      const service = rig.addService({ ...policies, frontends: [{ addr, port: 80, proto: 'UDP', kind }] })
      expect(await pod.call('storm', 'udp4', addr, 80, 10)).toBe('connected=10 refused=0 other=0')
      expect(service.backends.map(each => rig.opened(each))).toEqual([10n])
    })

    test('external Local does not bind the cluster address', async () => {
      rig.addService({
        ...policies,
        internalLocal: false,
        frontends: [{ addr: '172.30.1.5', port: 80, proto: 'UDP' }],
      })
      expect(await pod.call('storm', 'udp4', '172.30.1.5', 80, 1)).toBe('connected=1 refused=0 other=0')
    })
  })

  describe('choice', () => {
    test('rr: 3,000 flows over 3 backends differ by one per CPU at most', async () => {
      const service = rig.addService({
        frontends: [{ addr: '172.30.2.1', port: 80, proto: 'UDP' }],
        backends: V4,
        scheduler: Scheduler.RR,
      })
      const answer = 'connected=3000 refused=0 other=0'
      expect(await pod.call('storm', 'udp4', '172.30.2.1', 80, 3000)).toBe(answer)
      const opened = service.backends.map(each => Number(rig.opened(each)))
      expect(opened.reduce((sum, n) => sum + n)).toBe(3000)
      expect(Math.max(...opened) - Math.min(...opened)).toBeLessThanOrEqual(rig.cpus)
      expect(rig.serviceStats(service.index)).toEqual({ opened: 3000n, refused: 0n })
    })

    // 600 flows are 5.2 standard deviations of 60,000 draws among three.
    test('random: 60,000 flows over 3 backends are within 3 % of even', async () => {
      const service = rig.addService({
        frontends: [{ addr: '172.30.2.2', port: 80, proto: 'UDP' }],
        backends: V4,
        scheduler: Scheduler.RANDOM,
      })
      await pod.call('storm', 'udp4', '172.30.2.2', 80, 60000)
      const opened = service.backends.map(each => Number(rig.opened(each)))
      expect(opened.reduce((sum, n) => sum + n)).toBe(60000)
      for (const n of opened) expect(Math.abs(n - 20000)).toBeLessThanOrEqual(600)
    })
  })
})
