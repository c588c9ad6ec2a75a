import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  BACKEND_PORT,
  BACKENDS_V4,
  BACKENDS_V6,
  describeSockets,
  OUTSIDER_V4,
  OUTSIDER_V6,
  type ServiceHandle,
  SOCK_PLACES,
  type SockClient,
  type SocketKind,
  type SockHandle,
  SockRig,
} from './sock-rig.js'

/** Where the marks of connected sockets are: in the places that their cookies name, or in their storage. */
describeSockets('places of socket marks', () => {
  let rig: SockRig
  let pod: SockClient
  let addresses = 0

  beforeAll(async () => {
    rig = await SockRig.create()
    pod = await rig.client()
  })
  afterAll(() => rig?.close())

  function service(backend: string): { addr: string; handle: ServiceHandle; backend: number } {
    const addr = backend.includes(':') ? `2001:db8:30:7::${++addresses}` : `172.30.7.${++addresses}`
    const frontends = (['TCP', 'UDP'] as const).map(proto => ({ addr, port: 80, proto }))
    const handle = rig.addService({ frontends, backends: [{ addr: backend }] })
    return { addr, handle, backend: handle.backends[0] ?? 0 }
  }

  const live = (kind: SocketKind, backend: number) =>
    kind.startsWith('udp') ? rig.udpLive(backend) : rig.tcpLive(backend)

  const KINDS = [
    { kind: 'tcp4', backend: BACKENDS_V4[0], outsider: OUTSIDER_V4 },
    { kind: 'udp4', backend: BACKENDS_V4[0], outsider: OUTSIDER_V4 },
    { kind: 'tcp6', backend: BACKENDS_V6[0], outsider: OUTSIDER_V6 },
    { kind: 'udp6', backend: BACKENDS_V6[0], outsider: OUTSIDER_V6 },
  ] as const

  describe.each(KINDS)('$kind', ({ kind, backend, outsider }) => {
    const shown = (addr: string, port = 80) => (addr.includes(':') ? `[${addr}]:${port}` : `${addr}:${port}`)
    let at: ReturnType<typeof service>
    let socket: SockHandle
    let cookie: bigint

    beforeEach(async () => {
      at = service(backend)
      socket = await pod.socket(kind)
      cookie = await socket.cookie()
    })

    test('a mark is in its place while the socket lives', async () => {
      expect(await socket.connect(at.addr, 80)).toBe('')
      expect(rig.place(cookie)).toMatchObject({ cookie, mark: { backend: at.backend, frontendPort: 80, counted: 1 } })
      await socket.close()
      const { mark, ...rest } = rig.place(cookie)
      expect(rest.cookie).toBe(0n)
      expect(mark).toMatchObject({ backend: 0, frontendPort: 0, backendPort: 0, proto: 0, counted: 0 })
    })

    test('a place is given back when the socket connects to no frontend', async () => {
      if (kind.startsWith('tcp')) return socket.close()
      await socket.connect(at.addr, 80)
      await socket.connect(outsider, BACKEND_PORT)
      expect(rig.place(cookie).cookie).toBe(0n)
      expect(live(kind, at.backend)).toBe(0n)
      await socket.connect(at.addr, 80)
      expect(rig.place(cookie).cookie).toBe(cookie)
      await socket.close()
      expect(rig.place(cookie).cookie).toBe(0n)
    })

    test('whose place is taken works the same by its storage, and leaves the place alone', async () => {
      const other = service(backend)
      const owner = await pod.socket(kind)
      await owner.connect(other.addr, 80)
      const theirs = { ...rig.place(await owner.cookie()), cookie: cookie + 3n * SOCK_PLACES }
      rig.setPlace(cookie, theirs)

      expect(await socket.connect(at.addr, 80)).toBe('')
      expect(await socket.peer()).toBe(shown(at.addr))
      if (kind.startsWith('udp')) expect(await socket.ask('x')).toBe(`${shown(at.addr)} ${backend} x`)
      expect(live(kind, at.backend)).toBe(1n)
      expect(live(kind, other.backend)).toBe(1n)
      expect(rig.place(cookie)).toEqual(theirs)
      if (kind.startsWith('udp')) {
        await socket.connect(outsider, BACKEND_PORT)
        expect(await socket.peer()).toBe(shown(outsider, BACKEND_PORT))
        expect(live(kind, at.backend)).toBe(0n)
        await socket.connect(at.addr, 80)
        expect(live(kind, at.backend)).toBe(1n)
      }
      await socket.close()
      expect(live(kind, at.backend)).toBe(0n)
      expect(live(kind, other.backend)).toBe(1n)
      expect(rig.place(cookie)).toEqual(theirs)
      rig.setPlace(cookie, { ...theirs, cookie: 0n })
      await owner.close()
    })

    test('a mark in the storage stays there when the place becomes free, and is found', async () => {
      if (kind.startsWith('tcp')) return socket.close()
      const free = rig.place(cookie)
      rig.setPlace(cookie, { ...free, cookie: cookie + SOCK_PLACES })
      await socket.connect(at.addr, 80)
      rig.setPlace(cookie, free)
      expect(await socket.peer()).toBe(shown(at.addr))
      await socket.connect(at.addr, 80)
      expect(rig.place(cookie)).toEqual(free)
      expect(live(kind, at.backend)).toBe(1n)
      await socket.close()
      expect(live(kind, at.backend)).toBe(0n)
    })

    test('a mark of another socket is never shown: its cookie is another one', async () => {
      await socket.connect(at.addr, 80)
      const mine = rig.place(cookie)
      // A socket that was unmarked, while somebody whose mark says the same has its place.
      rig.setPlace(cookie, { ...mine, cookie: cookie + SOCK_PLACES })
      expect(await socket.peer()).toBe(shown(backend, BACKEND_PORT))
      rig.setPlace(cookie, mine)
      expect(await socket.peer()).toBe(shown(at.addr))
      await socket.close()
    })
  })

  test('a place that a socket left unnoticed costs the next one its place, no more', async () => {
    const { addr, backend } = service(BACKENDS_V4[0])
    const dead = await pod.socket('udp4')
    const cookie = await dead.cookie()
    await dead.connect(addr, 80)
    rig.setRelease(false)
    await dead.close()
    rig.setRelease(true)
    expect(rig.place(cookie).cookie).toBe(cookie)
    const next = await pod.socket('udp4')
    rig.setPlace(await next.cookie(), rig.place(cookie))
    expect(await next.connect(addr, 80)).toBe('')
    expect(await next.ask('x')).toBe(`${addr}:80 ${BACKENDS_V4[0]} x`)
    expect(await next.peer()).toBe(`${addr}:80`)
    expect(rig.place(await next.cookie()).cookie).toBe(cookie)
    await next.close()
    expect(rig.udpLive(backend)).toBe(1n)
  })

  test('the rule for stale datagrams finds a mark in the storage, and minds whose place it reads', async () => {
    const { addr, handle, backend } = service(BACKENDS_V4[0])
    const other = service(BACKENDS_V4[1])
    const [stored, unmarked] = [await pod.socket('udp4'), await pod.socket('udp4')]
    const [cookie, theirs] = [await stored.cookie(), await unmarked.cookie()]
    rig.setPlace(cookie, { ...rig.place(cookie), cookie: cookie + SOCK_PLACES })
    await stored.connect(addr, 80)
    await unmarked.connect(other.addr, 80)
    rig.setEgressRule(true)
    rig.removeBackend(handle, backend)
    expect(await stored.send('x')).toBe('EPERM')
    expect(await unmarked.ask('x')).toBe(`${other.addr}:80 ${BACKENDS_V4[1]} x`)
    rig.removeBackend(other.handle, other.backend)
    const mine = rig.place(theirs)
    rig.setPlace(theirs, { ...mine, cookie: theirs + SOCK_PLACES })
    expect(await unmarked.send('x')).toBe('')
    rig.setPlace(theirs, mine)
    expect(await unmarked.send('x')).toBe('EPERM')
    rig.setEgressRule(false)
    rig.setPlace(cookie, { ...rig.place(cookie), cookie: 0n })
    await stored.close()
    await unmarked.close()
  })

  test.each(['udp4', 'tcp4'] as const)(
    '200 pairs of %s sockets of one place each connect at once, and close at once',
    async kind => {
      const first = service(BACKENDS_V4[0])
      const second = service(BACKENDS_V4[1])
      expect(await pod.call('pairs', kind)).toBe('pairs=200')
      expect(await pod.call('race', first.addr, second.addr, 80)).toBe('')
      expect([live(kind, first.backend), live(kind, second.backend)]).toEqual([200n, 200n])
      expect(await pod.call('pair-peers')).toBe('right=400')
      expect(await pod.call('race')).toBe('')
      expect([live(kind, first.backend), live(kind, second.backend)]).toEqual([0n, 0n])
    },
  )

  test('a socket of the kernel, whose end no program sees, gets no place and is not counted', async () => {
    const { addr, backend } = service(BACKENDS_V4[0])
    const before = rig.places()
    const socket = await pod.socket('mptcp4')
    // Its subflow is a TCP socket that the kernel made.
    expect(await socket.connect(addr, 80)).toBe('')
    expect(await socket.recv()).toBe(`- ${BACKENDS_V4[0]}`)
    expect(await socket.peer()).toBe(`${BACKENDS_V4[0]}:${BACKEND_PORT}`)
    expect(rig.opened(backend)).toBe(1n)
    expect(rig.tcpLive(backend)).toBe(0n)
    expect(rig.places()).toBe(before)
    await socket.close()
    expect(rig.tcpLive(backend)).toBe(0n)
  })
})
