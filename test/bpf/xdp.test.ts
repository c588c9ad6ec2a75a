import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FrontendKind } from '../../src/ebpf/generated/layouts.js'
import type { Protocol } from '../../src/model/desired.js'
import { ETH_LENGTH, macBytes, onesSum, type PacketOptions, segment, wireAddress } from './packet.js'
import { decode } from './packet-decode.js'
import { missing, putXdpInFront, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)
putXdpInFront()

/** The address plan of tc-node.ts. The neighbour that leads to `unknown` is not known. */
const CASES = (
  [
    {
      family: 'IPv4',
      client: '203.0.113.7',
      node: '192.168.0.1',
      vip: '172.30.0.1',
      here: '10.0.1.5',
      there: '10.0.2.5',
      unknown: '10.0.4.5',
      ranges: ['198.51.100.0/24'],
    },
    {
      family: 'IPv6',
      client: '[2001:db8:f::7]',
      node: '[2001:db8:c0::1]',
      vip: '[2001:db8:30::1]',
      here: '[2001:db8:a1::5]',
      there: '[2001:db8:a2::5]',
      unknown: '[2001:db8:a4::5]',
      ranges: ['2001:db8:e::/64'],
    },
  ] as const
).flatMap(at => (['TCP', 'UDP', 'SCTP'] as const).map(proto => ({ family: at.family, proto, at })))

const ROUTER = macBytes('02:00:00:00:00:fe')
const NEXT_NODE = macBytes('02:00:00:00:00:02')
const payload = new TextEncoder().encode('an odd number of bytes.')

function packet(proto: Protocol, from: string, to: string, flags = 'S', options: PacketOptions = {}): Uint8Array {
  return segment(proto, from, to, flags, options)
}

/** The receiver's answer. */
function answer(step: Step, flags = 'SA'): Uint8Array {
  const { proto, from, to } = step.packet
  return packet(proto, to, from, flags, { payload })
}

/** The frame as a socket behind a veth sends it: the checksum field holds the pseudo header's sum alone, of SCTP nothing. */
function unfinished(frame: Uint8Array): Uint8Array {
  const { proto, from, to } = decode(frame)
  const copy = Uint8Array.from(frame)
  const l4 = frame[12] === 0x08 ? ETH_LENGTH + 20 : ETH_LENGTH + 40
  if (proto === 'SCTP') return copy.fill(0, l4 + 8, l4 + 12)
  const address = (endpoint: string) => wireAddress(endpoint.replace(/:\d+$/, '').replace(/[[\]]/g, ''))
  const rest = Uint8Array.of(0, proto === 'TCP' ? 6 : 17, (frame.length - l4) >> 8, (frame.length - l4) & 0xff)
  const sum = onesSum(address(from), address(to), rest)
  new DataView(copy.buffer).setUint16(l4 + (proto === 'TCP' ? 16 : 6), sum)
  return copy
}

describe.skipIf(lacking)('XDP', () => {
  let node: TcNode
  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  describe.each(CASES)('$family $proto', ({ proto, at }) => {
    const dialled = `${at.node}:30080`
    const client = `${at.client}:40000`
    const serve = (backend: string, local = false) =>
      node.services.add({ proto, frontends: [{ at: dialled }], backends: [{ at: `${backend}:8080`, local }] })

    test('rows 1 and 2: sends packets to a backend on another node, and its replies, with the MACs of the next hop', () => {
      serve(at.there)
      const there = node.xdp(packet(proto, client, dialled, 'S', { payload }))
      expect(there).toMatchObject({ verdict: 'redirect', outcome: 'forwarded', by: 'xdp' })
      expect(there.packet).toMatchObject({ to: `${at.there}:8080`, ttl: 63, checksums: { transport: 'ok' } })
      expect(there.packet.checksums.ip).not.toBe('wrong')
      expect(there.frame.subarray(0, 6)).toEqual(NEXT_NODE)

      const back = node.xdp(answer(there), 'up1')
      expect(back).toMatchObject({ verdict: 'redirect', outcome: 'replied', by: 'xdp' })
      expect(back.packet).toMatchObject({ from: dialled, to: client, ttl: 63, checksums: { transport: 'ok' } })
      expect(back.frame.subarray(0, 6)).toEqual(ROUTER)
    })

    test.each([
      ['XDP, then tc', ['xdp', 'tc', 'xdp', 'tc']],
      ['tc, then XDP', ['tc', 'xdp', 'tc', 'xdp']],
    ] as const)('a flow changes hooks in its middle, in both directions: %s', (_, hooks) => {
      const service = serve(at.there)
      const sent = hooks.map((hook, i) => node[hook](packet(proto, client, dialled, i ? 'A' : 'S', { payload })))
      const [first] = sent
      for (const step of sent) {
        expect(step).toMatchObject({ verdict: 'redirect', outcome: 'forwarded' })
        expect(step.packet).toMatchObject({ from: first?.packet.from, to: `${at.there}:8080`, ttl: 63 })
        const replies = hooks.map(hook => node[hook](answer(step), 'up1'))
        for (const reply of replies) {
          expect(reply).toMatchObject({ verdict: 'redirect', outcome: 'replied' })
          expect(reply.packet).toMatchObject({ from: dialled, to: client, checksums: { transport: 'ok' } })
        }
      }
      expect(node.services.flows()).toHaveLength(2)
      expect(node.serviceStats(service.index)).toEqual({ opened: 1, refused: 0 })
    })

    test('a backend on this node is chosen once, and served by tc', () => {
      const service = serve(at.here, true)
      const sent = packet(proto, client, dialled, 'S', { payload })
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc', frame: sent })
      expect(node.tc(sent)).toMatchObject({ verdict: 'next', outcome: 'delivered' })
      expect(node.serviceStats(service.index)).toEqual({ opened: 1, refused: 0 })
    })

    test('an unknown neighbour is left to tc, which asks for it, in the flow that is open already', () => {
      const service = serve(at.unknown)
      const sent = packet(proto, client, dialled, 'S', { payload })
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc', frame: sent })
      const [forward] = node.services.flows()
      const there = node.tc(sent)
      expect(there).toMatchObject({ verdict: 'redirect', outcome: 'forwarded' })
      expect(`${there.packet.from} > ${there.packet.to}`).toBe(forward?.to)
      expect(node.serviceStats(service.index)).toEqual({ opened: 1, refused: 0 })
    })

    test('row 26: a checksum that is left to the device is left to tc', () => {
      serve(at.there)
      const sent = unfinished(packet(proto, client, dialled, 'S', { payload }))
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc', frame: sent })
      const { outcome } = node.xdp(packet(proto, client, dialled, 'S', { payload, checksum: 'wrong' }))
      expect(outcome).toBe('forwarded')
    })

    test('row 28: what is larger than its route is left to tc', () => {
      serve(at.unknown)
      const sent = packet(proto, client, dialled, 'S', { payload: new Uint8Array(1300) })
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc' })
      expect(node.tc(sent).outcome).toBe('too_big')
    })

    test('a frame that goes on in further buffers is left alone', () => {
      serve(at.there)
      const sent = packet(proto, client, dialled, 'S', { payload: new Uint8Array(6000) })
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'not_handled' })
    })

    test("row 31: another machine's frame is left alone", () => {
      serve(at.there)
      for (const dstMac of ['02:00:00:00:00:02', 'ff:ff:ff:ff:ff:ff', '01:00:5e:00:00:01']) {
        const sent = packet(proto, client, dialled, 'S', { dstMac })
        expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'not_handled' })
      }
      expect(node.services.flows()).toEqual([])
    })

    test('row 29: a frame with a VLAN tag is left alone', () => {
      serve(at.there)
      const sent = packet(proto, client, dialled)
      const tag = Uint8Array.of(0x81, 0x00, 0x00, 0x64)
      const tagged = Uint8Array.of(...sent.subarray(0, 12), ...tag, ...sent.subarray(12))
      expect(node.xdp(tagged)).toMatchObject({ verdict: 'next', outcome: 'not_handled' })
      expect(node.services.flows()).toEqual([])
    })

    test('row 22: a TTL of one is left to tc, which answers', () => {
      const service = serve(at.there)
      const sent = packet(proto, client, dialled, 'S', { ttl: 1 })
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'not_handled' })
      expect(node.tc(sent).outcome).toBe('ttl_exceeded')
      expect(node.serviceStats(service.index)).toEqual({ opened: 0, refused: 0 })
    })

    test('row 39: who is not in the source ranges is dropped before there is an skb', () => {
      const frontends = [{ at: `${at.vip}:80`, kind: FrontendKind.LOAD_BALANCER }]
      node.services.add({ proto, frontends, backends: [{ at: `${at.there}:8080` }], sourceRanges: at.ranges })
      const dropped = node.xdp(packet(proto, client, `${at.vip}:80`))
      expect(dropped).toMatchObject({ verdict: 'drop', outcome: 'source_denied' })
    })

    test('row 40: a Service without backends is left to tc, which refuses, and counted once', () => {
      const service = node.services.add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [] })
      const sent = packet(proto, client, `${at.vip}:80`)
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc', frame: sent })
      expect(node.tc(sent)).toMatchObject({ verdict: 'redirect', outcome: 'no_backend' })
      expect(node.serviceStats(service.index)).toEqual({ opened: 0, refused: 1 })
    })

    test('row 40: a port that no Service has is left to tc, which refuses', () => {
      node.services.add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [] })
      const sent = packet(proto, client, `${at.vip}:81`)
      expect(node.xdp(sent)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc', frame: sent })
      expect(node.tc(sent)).toMatchObject({ verdict: 'redirect', outcome: 'no_port' })
    })

    test("what is no Service's is left alone", () => {
      serve(at.there)
      expect(node.xdp(packet(proto, client, `${at.client}:9`))).toMatchObject({
        verdict: 'next',
        outcome: 'not_service',
      })
    })
  })
})

describe.skipIf(lacking)('XDP with --xdp-drop-unknown-ports', () => {
  let node: TcNode
  beforeAll(() => {
    node = new TcNode({ xdpConstants: { cfg_drop_unknown_ports: Uint8Array.of(1) } })
  })
  afterAll(() => node.close())

  test.each(CASES)('$family $proto drops a port that no Service has, but none of the node itself', ({ proto, at }) => {
    node.services.clear()
    node.services.add({ proto, frontends: [{ at: `${at.vip}:80` }], backends: [] })
    node.services.add({ proto, frontends: [{ at: `${at.node}:30080`, ownAddress: true }], backends: [] })
    const dial = (to: string) => node.xdp(packet(proto, `${at.client}:40000`, to))
    expect(dial(`${at.vip}:81`)).toMatchObject({ verdict: 'drop', outcome: 'no_port' })
    expect(dial(`${at.vip}:80`)).toMatchObject({ verdict: 'next', outcome: 'left_to_tc' })
    expect(dial(`${at.node}:22`)).toMatchObject({ verdict: 'next', outcome: 'host_port' })
  })
})
