import { afterAll, beforeAll, expect, test } from 'vitest'
import { Hook, Scheduler } from '../../src/ebpf/generated/layouts.js'
import {
  BACKEND_PORT,
  BACKENDS_V4,
  BACKENDS_V6,
  describeSockets,
  OUTSIDER_V4,
  type ServiceHandle,
  type SockClient,
  SockRig,
} from './sock-rig.js'

/** Unconnected UDP: sendto() and recvfrom(), as resolvers do. */
describeSockets('datagrams', () => {
  let rig: SockRig
  let pod: SockClient
  let addresses = 0

  beforeAll(async () => {
    rig = await SockRig.create()
    pod = await rig.client()
  })
  afterAll(() => rig?.close())

  /** A service of all backends; round robin, so two choices in a row differ. */
  function dns(): { addr: string; service: ServiceHandle } {
    const addr = `172.30.0.${++addresses}`
    const backends = BACKENDS_V4.map(each => ({ addr: each }))
    const frontends = [{ addr, port: 53, proto: 'UDP' as const }]
    return { addr, service: rig.addService({ frontends, backends, scheduler: Scheduler.RR }) }
  }

  /** Sends a datagram; checks that the answer shows the frontend and returns who gave it. */
  async function backendOf(socket: Awaited<ReturnType<SockClient['socket']>>, addr: string): Promise<string> {
    const answer = await socket.askTo(addr, 53, 'query')
    expect(answer).toMatch(new RegExp(`^${addr.replaceAll('.', '\\.')}:53 10\\.1\\.0\\.[123] query$`))
    return answer.split(' ')[1] ?? ''
  }

  test.each([
    { family: 'ipv4', kind: 'udp4', dial: '172.30.9.1', shown: '172.30.9.1:53', backend: BACKENDS_V4[0] },
    { family: 'ipv6', kind: 'udp6', dial: '2001:db8:30::9', shown: '[2001:db8:30::9]:53', backend: BACKENDS_V6[0] },
    {
      family: 'ipv4 mapped',
      kind: 'udp6',
      dial: '::ffff:172.30.9.2',
      shown: '[::ffff:172.30.9.2]:53',
      backend: BACKENDS_V4[0],
    },
    {
      family: 'ipv4 on ipv6',
      kind: 'udp6',
      dial: '172.30.9.3',
      shown: '[::ffff:172.30.9.3]:53',
      backend: BACKENDS_V4[0],
    },
  ] as const)('$family: the backend answers, the frontend is shown', async ({ kind, dial, shown, backend }) => {
    const addr = dial.replace('::ffff:', '')
    rig.addService({ frontends: [{ addr, port: 53, proto: 'UDP' }], backends: [{ addr: backend }] })
    const socket = await pod.socket(kind)
    const sent = await rig.countedBy(Hook.SENDMSG, async () => expect(await socket.sendto(dial, 53, 'query')).toBe(''))
    const received = await rig.countedBy(Hook.RECVMSG, async () => {
      expect(await socket.recv()).toBe(`${shown} ${backend} query`)
    })
    expect({ sent, received }).toEqual({ sent: { translated: 1 }, received: { translated: 1 } })
    await socket.close()
  })

  test('one socket keeps its backend, another gets the next', async () => {
    const { addr, service } = dns()
    await pod.call('pin', 0)
    const [first, second] = [await pod.socket('udp4'), await pod.socket('udp4')]
    const kept = await backendOf(first, addr)
    const other = await backendOf(second, addr)
    expect(other).not.toBe(kept)
    for (let i = 0; i < 5; i++) {
      expect(await backendOf(first, addr)).toBe(kept)
      expect(await backendOf(second, addr)).toBe(other)
    }
    expect(rig.serviceStats(service.index).opened).toBe(2n)
    await first.close()
    await second.close()
  })

  test('one socket and three frontends, in turn: each keeps its backend and answers under its own name', async () => {
    const services = [dns(), dns(), dns()]
    const socket = await pod.socket('udp4')
    // Each service's round robin is moved on, so that the three get three backends.
    const kept: string[] = []
    for (const { addr } of services) {
      for (let i = 0; i < kept.length; i++) await pod.call('storm', 'udp4', addr, 53, 1)
      kept.push(await backendOf(socket, addr))
    }
    expect(new Set(kept).size).toBe(3)
    for (let round = 0; round < 3; round++) {
      for (const [i, { addr }] of services.entries()) expect(await backendOf(socket, addr)).toBe(kept[i])
    }
    await socket.close()
  })

  test('two frontends of one backend: a reply shows the one that was asked last', async () => {
    const addrs = ['172.30.8.4', '172.30.8.5', '172.30.8.6']
    const frontends = addrs.map(addr => ({ addr, port: 53, proto: 'UDP' as const }))
    rig.addService({ frontends, backends: [{ addr: BACKENDS_V4[0] }] })
    const socket = await pod.socket('udp4')
    for (const addr of [...addrs, ...addrs.toReversed(), ...addrs]) await backendOf(socket, addr)
    await socket.close()
  })

  test('two requests, then two replies: each from its own frontend', async () => {
    const [first, second] = [dns(), dns()]
    await pod.call('storm', 'udp4', second.addr, 53, 1)
    const socket = await pod.socket('udp4')
    await socket.sendto(first.addr, 53, 'one')
    await socket.sendto(second.addr, 53, 'two')
    const answers = [await socket.recv(), await socket.recv()].sort()
    expect(answers.map(answer => answer.split(' '))).toEqual([
      [`${first.addr}:53`, expect.stringMatching(/^10\.1\./), 'one'],
      [`${second.addr}:53`, expect.stringMatching(/^10\.1\./), 'two'],
    ])
    await socket.close()
  })

  test('row 41: after its backend is removed the next datagram reaches another one', async () => {
    const { addr, service } = dns()
    const socket = await pod.socket('udp4')
    const before = await backendOf(socket, addr)
    rig.removeBackend(service, rig.backendAt(service, before))
    const after = await backendOf(socket, addr)
    expect(after).not.toBe(before)
    expect(await backendOf(socket, addr)).toBe(after)
    await socket.close()
  })

  test('the same for a frontend that is not the last one', async () => {
    const [first, second] = [dns(), dns()]
    await pod.call('storm', 'udp4', second.addr, 53, 1)
    const socket = await pod.socket('udp4')
    const before = await backendOf(socket, first.addr)
    const beside = await backendOf(socket, second.addr)
    expect(beside).not.toBe(before)
    rig.removeBackend(first.service, rig.backendAt(first.service, before))
    expect(await backendOf(socket, first.addr)).not.toBe(before)
    await socket.close()
  })

  test('row 42: a terminating backend goes on serving those who have it', async () => {
    const { addr, service } = dns()
    const socket = await pod.socket('udp4')
    const before = await backendOf(socket, addr)
    rig.drainBackend(service, rig.backendAt(service, before))
    expect(await backendOf(socket, addr)).toBe(before)
    await socket.close()
  })

  test('an address that now belongs to another service is chosen for anew', async () => {
    const addr = '172.30.8.1'
    const frontends = [{ addr, port: 53, proto: 'UDP' as const }]
    rig.addService({ frontends, backends: [{ addr: BACKENDS_V4[0] }] })
    const socket = await pod.socket('udp4')
    expect(await backendOf(socket, addr)).toBe(BACKENDS_V4[0])
    rig.addService({ frontends, backends: [{ addr: BACKENDS_V4[1] }] })
    expect(await backendOf(socket, addr)).toBe(BACKENDS_V4[1])
    await socket.close()
  })

  test('a removed frontend is nobody: datagrams are left alone', async () => {
    const addr = OUTSIDER_V4
    rig.addService({ frontends: [{ addr, port: BACKEND_PORT, proto: 'UDP' }], backends: [{ addr: BACKENDS_V4[0] }] })
    const socket = await pod.socket('udp4')
    expect(await socket.askTo(addr, BACKEND_PORT, 'a')).toBe(`${addr}:${BACKEND_PORT} ${BACKENDS_V4[0]} a`)
    rig.removeFrontend(addr, BACKEND_PORT, 'UDP')
    expect(await socket.askTo(addr, BACKEND_PORT, 'b')).toBe(`${addr}:${BACKEND_PORT} ${addr} b`)
    await socket.close()
  })

  test('a backend that is also addressed directly answers under its own name from then on', async () => {
    const [first, second] = [dns(), dns()]
    await pod.call('storm', 'udp4', second.addr, 53, 1)
    const socket = await pod.socket('udp4')
    for (const addr of [first.addr, second.addr]) {
      const backend = await backendOf(socket, addr)
      expect(await socket.askTo(backend, BACKEND_PORT, 'direct')).toBe(`${backend}:${BACKEND_PORT} ${backend} direct`)
      expect(await backendOf(socket, addr)).toBe(backend)
    }
    await socket.close()
  })

  test('sendto() on a connected socket reaches another frontend and leaves the connection', async () => {
    const [first, second] = [dns(), dns()]
    const socket = await pod.socket('udp4')
    await socket.connect(first.addr, 53)
    expect(await socket.sendto(second.addr, 53, 'aside')).toBe('')
    expect(await socket.peer()).toBe(`${first.addr}:53`)
    expect(await socket.ask('on')).toMatch(new RegExp(`^${first.addr}:53 10\\.1\\.0\\.[123] `))
    expect(rig.serviceStats(second.service.index).opened).toBe(1n)
    expect(first.service.backends.reduce((sum, each) => sum + rig.udpLive(each), 0n)).toBe(1n)
    await socket.close()
  })

  test('no frontend: left alone, in both directions', async () => {
    const socket = await pod.socket('udp4')
    const sent = await rig.countedBy(Hook.SENDMSG, () => socket.sendto(OUTSIDER_V4, BACKEND_PORT, 'x'))
    const received = await rig.countedBy(Hook.RECVMSG, async () => {
      expect(await socket.recv()).toBe(`${OUTSIDER_V4}:${BACKEND_PORT} ${OUTSIDER_V4} x`)
    })
    expect({ sent, received }).toEqual({ sent: { not_service: 1 }, received: { not_service: 1 } })
    await socket.close()
  })

  test('row 40: refused at once: unknown port, no backend, no local backend', async () => {
    const { addr } = dns()
    const udp = (address: string) => [{ addr: address, port: 53, proto: 'UDP' as const }]
    const backends = BACKENDS_V4.map(each => ({ addr: each }))
    rig.addService({ frontends: udp('172.30.8.2'), backends: [] })
    rig.addService({ frontends: udp('172.30.8.3'), backends, internalLocal: true })
    const socket = await pod.socket('udp4')
    const counted = await rig.countedBy(Hook.SENDMSG, async () => {
      expect(await socket.sendto(addr, 54, 'x')).toBe('ECONNREFUSED')
      expect(await socket.sendto('172.30.8.2', 53, 'x')).toBe('ECONNREFUSED')
      expect(await socket.sendto('172.30.8.3', 53, 'x')).toBe('ECONNREFUSED')
    })
    expect(counted).toEqual({ no_port: 1, no_backend: 1, no_local_backend: 1 })
    await socket.close()
  })
})
