import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Hook } from '../../src/ebpf/generated/layouts.js'
import {
  BACKEND_PORT,
  BACKENDS_V4,
  BACKENDS_V6,
  describeSockets,
  OUTSIDER_V4,
  type ServiceHandle,
  type SockClient,
  type SockHandle,
  SockRig,
} from './sock-rig.js'

/** UDP sockets that stay connected to a backend after it is removed. */
describeSockets('stale connected udp', () => {
  let rig: SockRig
  let pod: SockClient
  let addresses = 0
  let addr: string
  let service: ServiceHandle
  let socket: SockHandle

  beforeAll(async () => {
    rig = await SockRig.create()
    pod = await rig.client()
  })
  afterAll(() => rig?.close())

  /** A service with one backend; a second one takes over when the first is removed. */
  function syslog(first: string, second: string): ServiceHandle {
    addr = first.includes(':') ? `2001:db8:30::${++addresses}` : `172.30.0.${++addresses}`
    const frontends = (['TCP', 'UDP'] as const).map(proto => ({ addr, port: 514, proto }))
    const made = rig.addService({ frontends, backends: [{ addr: first }, { addr: second }] })
    rig.setBackends(made.index, made.backends.slice(0, 1))
    return made
  }

  const first = () => service.backends[0] ?? 0
  const second = () => service.backends[1] ?? 0
  const live = () => [rig.udpLive(first()), rig.udpLive(second())]

  beforeEach(async () => {
    service = syslog(BACKENDS_V4[0], BACKENDS_V4[1])
    socket = await pod.socket('udp4')
    expect(await socket.connect(addr, 514)).toBe('')
  })
  afterEach(() => socket.close())

  describe('the live count', () => {
    test('is raised by connect and lowered by close', async () => {
      expect(live()).toEqual([1n, 0n])
      const more = await pod.socket('udp4')
      await more.connect(addr, 514)
      expect(live()).toEqual([2n, 0n])
      await more.close()
      expect(live()).toEqual([1n, 0n])
    })

    test('counts a socket once, whatever dup and fork do', async () => {
      const copy = await socket.dup()
      expect(live()).toEqual([1n, 0n])
      expect(await pod.call('fork')).toBe('')
      expect(live()).toEqual([1n, 0n])
      await copy.close()
      expect(live()).toEqual([1n, 0n])
    })

    test('follows a socket that connects again', async () => {
      expect(await socket.connect(addr, 514)).toBe('')
      expect(live()).toEqual([1n, 0n])
      rig.removeBackend(service, first())
      expect(await socket.connect(addr, 514)).toBe('')
      expect(live()).toEqual([0n, 1n])
    })

    test('is lowered when the socket connects to no frontend, once', async () => {
      await socket.connect(OUTSIDER_V4, BACKEND_PORT)
      expect(live()).toEqual([0n, 0n])
      await socket.connect(OUTSIDER_V4, BACKEND_PORT)
      expect(live()).toEqual([0n, 0n])
    })

    test('does not count tcp, nor sendto', async () => {
      const tcp = await pod.socket('tcp4')
      await tcp.connect(addr, 514)
      const unconnected = await pod.socket('udp4')
      await unconnected.sendto(addr, 514, 'x')
      expect(live()).toEqual([1n, 0n])
      await tcp.close()
      await unconnected.close()
    })

    test('comes back to 0 after thousands of sockets', async () => {
      await pod.call('storm', 'udp4', addr, 514, 5000)
      expect(live()).toEqual([1n, 0n])
    })
  })

  describe('the egress rule', () => {
    beforeAll(() => rig.setEgressRule(true))
    afterAll(() => rig.setEgressRule(false))

    test.each(['send', 'write', 'sendmsg', 'sendmmsg'] as const)('%s to a removed backend: EPERM', async how => {
      expect(await socket.send('before', how)).toBe('')
      rig.removeBackend(service, first())
      const counted = await rig.countedBy(Hook.SOCK_EGRESS, async () => {
        expect(await socket.send('after', how)).toBe('EPERM')
      })
      expect(counted.stale_socket).toBe(1)
    })

    test('the same over ipv6', async () => {
      service = syslog(BACKENDS_V6[0], BACKENDS_V6[1])
      const six = await pod.socket('udp6')
      await six.connect(addr, 514)
      expect(await six.ask('before')).toBe(`[${addr}]:514 ${BACKENDS_V6[0]} before`)
      rig.removeBackend(service, first())
      expect(await six.send('after')).toBe('EPERM')
      await six.close()
    })

    test('the same for an ipv4 address in an ipv6 socket', async () => {
      const six = await pod.socket('udp6')
      await six.connect(`::ffff:${addr}`, 514)
      expect(await six.ask('before')).toBe(`[::ffff:${addr}]:514 ${BACKENDS_V4[0]} before`)
      rig.removeBackend(service, first())
      expect(await six.send('after')).toBe('EPERM')
      await six.close()
    })

    test('connecting again, or a new socket, reaches a live backend', async () => {
      rig.removeBackend(service, first())
      expect(await socket.connect(addr, 514)).toBe('')
      expect(await socket.ask('again')).toBe(`${addr}:514 ${BACKENDS_V4[1]} again`)
      const fresh = await pod.socket('udp4')
      await fresh.connect(addr, 514)
      expect(await fresh.ask('fresh')).toBe(`${addr}:514 ${BACKENDS_V4[1]} fresh`)
      await fresh.close()
    })

    // What the mark on the socket does not mean any more: four ways out of the connection.
    test('sendto() elsewhere from the stale socket', async () => {
      rig.removeBackend(service, first())
      const counted = await rig.countedBy(Hook.SOCK_EGRESS, async () => {
        expect(await socket.sendto(OUTSIDER_V4, BACKEND_PORT, 'x')).toBe('')
      })
      expect(counted.stale_socket).toBeUndefined()
    })

    test('connect(AF_UNSPEC), then sendto() elsewhere', async () => {
      rig.removeBackend(service, first())
      await socket.disconnect()
      expect(await socket.askTo(OUTSIDER_V4, BACKEND_PORT, 'x')).toBe(`${OUTSIDER_V4}:${BACKEND_PORT} ${OUTSIDER_V4} x`)
    })

    test('connect() to an address that is no frontend', async () => {
      rig.removeBackend(service, first())
      await socket.connect(OUTSIDER_V4, BACKEND_PORT)
      expect(await socket.ask('x')).toBe(`${OUTSIDER_V4}:${BACKEND_PORT} ${OUTSIDER_V4} x`)
    })

    test('connect() straight to the address of the removed backend', async () => {
      rig.removeBackend(service, first())
      await socket.connect(BACKENDS_V4[0], BACKEND_PORT)
      expect(await socket.ask('x')).toBe(`${BACKENDS_V4[0]}:${BACKEND_PORT} ${BACKENDS_V4[0]} x`)
    })

    test('tcp is left to its peer', async () => {
      const tcp = await pod.socket('tcp4')
      await tcp.connect(addr, 514)
      expect(await tcp.recv()).toBe(`- ${BACKENDS_V4[0]}`)
      rig.removeBackend(service, first())
      expect(await tcp.ask('still')).toBe(`- ${BACKENDS_V4[0]} still`)
      await tcp.close()
    })

    test('sockets on live backends and unconnected ones are left alone', async () => {
      const unconnected = await pod.socket('udp4')
      const other = await pod.socket('udp4')
      expect(await unconnected.askTo(addr, 514, 'x')).toBe(`${addr}:514 ${BACKENDS_V4[0]} x`)
      rig.removeBackend(service, first())
      await other.connect(addr, 514)
      expect(await unconnected.askTo(addr, 514, 'y')).toBe(`${addr}:514 ${BACKENDS_V4[1]} y`)
      expect(await other.ask('z')).toBe(`${addr}:514 ${BACKENDS_V4[1]} z`)
      await unconnected.close()
      await other.close()
    })
  })

  test('without the rule a stale socket still sends: the rule is what refuses', async () => {
    rig.removeBackend(service, first())
    expect(await socket.send('x')).toBe('')
  })
})
