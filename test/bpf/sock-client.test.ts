import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FrontendKind, Hook } from '../../src/ebpf/generated/layouts.js'
import {
  BACKENDS_V4,
  BACKENDS_V6,
  describeSockets,
  OUTSIDER_V4,
  OUTSIDER_V6,
  type SockClient,
  SockRig,
} from './sock-rig.js'

/** Which sockets source ranges let in, and whose loopback serves node ports. */
const { LOAD_BALANCER } = FrontendKind

const FAMILIES = [
  { version: '4', net: '172.30.4', backend: BACKENDS_V4[0], outsider: OUTSIDER_V4, range: `${OUTSIDER_V4}/32` },
  { version: '6', net: '2001:db8:30:4:', backend: BACKENDS_V6[0], outsider: OUTSIDER_V6, range: `${OUTSIDER_V6}/128` },
] as const

describeSockets('clients at the socket layer', () => {
  let rig: SockRig
  const clients = new Map<'node' | 'pod', SockClient>()
  const client = (who: 'node' | 'pod') => clients.get(who) as SockClient

  beforeAll(async () => {
    rig = await SockRig.create()
    clients.set('node', await rig.client('a'))
    clients.set('pod', await rig.client('b'))
  })
  afterAll(() => rig?.close())

  describe.each(FAMILIES)('IPv$version', ({ version, net, backend, outsider, range }) => {
    const address = (last: number) => (version === '4' ? `${net}.${last}` : `${net}:${last}`)
    const service = (last: number, sources: { node?: boolean; pods?: boolean }, kind: FrontendKind = LOAD_BALANCER) => {
      const frontends = (['TCP', 'UDP'] as const).map(proto => ({ addr: address(last), port: 80, proto, kind }))
      return rig.addService({ frontends, backends: [{ addr: backend }], sourceRanges: [range], sources })
    }

    test.each([
      { last: 1, sources: { node: true }, node: '', pod: 'EPERM' },
      { last: 2, sources: { pods: true }, node: 'EPERM', pod: '' },
      { last: 3, sources: { node: true, pods: true }, node: '', pod: '' },
      { last: 4, sources: {}, node: 'EPERM', pod: 'EPERM' },
    ])('an unbound socket is judged by who owns it: $sources', async ({ last, sources, ...want }) => {
      service(last, sources)
      for (const who of ['node', 'pod'] as const) {
        const tcp = await client(who).socket(`tcp${version}`)
        const udp = await client(who).socket(`udp${version}`)
        const outcome = want[who] === '' ? { translated: 1 } : { source_denied: 1 }
        const connect = await rig.countedBy(Hook.CONNECT, async () => {
          expect(await tcp.connect(address(last), 80)).toBe(want[who])
        })
        const sendmsg = await rig.countedBy(Hook.SENDMSG, async () => {
          expect(await udp.sendto(address(last), 80, 'x')).toBe(want[who])
        })
        expect({ connect, sendmsg }).toEqual({ connect: outcome, sendmsg: outcome })
        await tcp.close()
        await udp.close()
      }
    })

    test('a bound socket is judged by its address', async () => {
      service(5, {})
      service(6, { node: true, pods: true })
      for (const kind of [`tcp${version}`, `udp${version}`] as const) {
        const inside = await client('pod').socket(kind)
        await inside.bind(outsider, 0)
        expect(await inside.connect(address(5), 80)).toBe('')
        await inside.close()
        const outside = await client('node').socket(kind)
        await outside.bind(backend, 0)
        expect(await outside.connect(address(6), 80)).toBe('EPERM')
        await outside.close()
      }
    })

    test.each([
      { last: 7, kind: FrontendKind.CLUSTER_IP, name: 'cluster IP' },
      { last: 8, kind: FrontendKind.EXTERNAL_IP, name: 'external IP' },
      { last: 9, kind: FrontendKind.NODE_PORT, name: 'node port' },
    ])('the $name of a restricted service is open', async ({ last, kind }) => {
      service(last, {}, kind)
      const socket = await client('pod').socket(`tcp${version}`)
      expect(await socket.connect(address(last), 80)).toBe('')
      await socket.close()
    })

    test("node ports on loopback are the node's: a pod's loopback is its own", async () => {
      const addr = version === '4' ? '127.0.0.1' : '::1'
      const shown = version === '4' ? '127.0.0.1:30080' : '[::1]:30080'
      const frontends = (['TCP', 'UDP'] as const).map(proto => ({
        addr,
        port: 30080,
        proto,
        kind: FrontendKind.NODE_PORT,
        loopback: true,
      }))
      rig.addService({ frontends, backends: [{ addr: backend }] })
      for (const kind of [`tcp${version}`, `udp${version}`] as const) {
        const here = await client('node').socket(kind)
        expect(await here.connect(addr, 30080)).toBe('')
        if (kind.startsWith('tcp')) expect(await here.recv()).toBe(`- ${backend}`)
        else expect(await here.ask('x')).toBe(`${shown} ${backend} x`)
        expect(await here.peer()).toBe(shown)
        await here.close()
      }
      const pod = await client('pod').socket(`tcp${version}`)
      const counted = await rig.countedBy(Hook.CONNECT, async () => {
        expect(await pod.connect(addr, 30080)).toBe('ECONNREFUSED')
      })
      expect(counted).toEqual({ not_service: 1 })
      await pod.close()
      const other = await client('node').socket(`tcp${version}`)
      expect(await rig.countedBy(Hook.CONNECT, () => other.connect(addr, 30081))).toEqual({ not_service: 1 })
      await other.close()
    })
  })

  test('an IPv4-mapped address bound on an IPv6 socket is the IPv4 one', async () => {
    const frontends = [{ addr: '172.30.4.20', port: 80, proto: 'TCP', kind: FrontendKind.LOAD_BALANCER }] as const
    rig.addService({ frontends, backends: [{ addr: BACKENDS_V4[0] }], sourceRanges: [`${OUTSIDER_V4}/32`] })
    const bound = await client('pod').socket('tcp6')
    await bound.bind(`::ffff:${OUTSIDER_V4}`, 0)
    expect(await bound.connect('::ffff:172.30.4.20', 80)).toBe('')
    await bound.close()
    const unbound = await client('pod').socket('tcp6')
    expect(await unbound.connect('::ffff:172.30.4.20', 80)).toBe('EPERM')
    await unbound.close()
  })
})
