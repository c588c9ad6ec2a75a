import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FrontendKind, Outcome, outcomeNames } from '../../src/ebpf/generated/layouts.js'
import { ETH_LENGTH, otherProtocol, type PacketOptions, tcp, udp } from './packet.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** A copy with some bytes replaced; offsets from the start of the IP header. */
function patch(frame: Uint8Array, ...changes: readonly (readonly [offset: number, byte: number])[]): Uint8Array {
  const copy = Uint8Array.from(frame)
  for (const [offset, byte] of changes) copy[ETH_LENGTH + offset] = byte
  return copy
}

const V4 = ['203.0.113.7:40000', '172.30.0.1:80'] as const
const V6 = ['[2001:db8:f::7]:40000', '[2001:db8:30::1]:80'] as const
const syn4 = tcp(...V4, 'S')
const syn6 = tcp(...V6, 'S')
const padding = new Uint8Array(40)

/** Packets to addresses that are frontends of a service with a backend, and that must pass all the same. */
const LEFT_ALONE: { name: string; outcome: string; frame: Uint8Array }[] = [
  { name: 'ARP', outcome: 'not_handled', frame: Uint8Array.from(syn4).fill(0x06, 13, 14) },
  { name: 'in-line VLAN', outcome: 'not_handled', frame: Uint8Array.from(syn4).fill(0x81, 12, 13).fill(0, 13, 14) },
  { name: 'ICMP', outcome: 'not_handled', frame: otherProtocol(...V4, 1) },
  { name: 'ICMPv6', outcome: 'not_handled', frame: otherProtocol(...V6, 58) },
  { name: 'GRE', outcome: 'not_handled', frame: otherProtocol(...V4, 47) },
  {
    name: 'IPv4-mapped destination on the wire of IPv6',
    outcome: 'not_handled',
    frame: tcp('[2001:db8:f::7]:40000', '[::ffff:172.30.0.1]:80', 'S'),
  },
  {
    name: 'IPv4-mapped source',
    outcome: 'not_handled',
    frame: tcp('[::ffff:203.0.113.7]:40000', '[2001:db8:30::1]:80', 'S'),
  },
  { name: "another machine's frame", outcome: 'not_handled', frame: tcp(...V4, 'S', { dstMac: '02:00:00:00:00:77' }) },
  { name: 'broadcast frame', outcome: 'not_handled', frame: tcp(...V4, 'S', { dstMac: 'ff:ff:ff:ff:ff:ff' }) },

  {
    name: 'later fragment to another address',
    outcome: 'fragment',
    frame: udp(V4[0], '172.30.0.99:80', { fragment: { offset: 1480, more: true } }),
  },
  {
    name: 'too large a later fragment to an own address',
    outcome: 'fragment',
    frame: udp(V4[0], '192.168.0.1:80', {
      fragment: { offset: 8, more: false },
      payload: new Uint8Array(1600),
    }),
  },

  // The kernel refuses a test run on less than a whole IP header.
  { name: 'an IPv4 header and nothing', outcome: 'malformed', frame: syn4.slice(0, 34) },
  { name: 'an IPv6 header and nothing', outcome: 'malformed', frame: syn6.slice(0, 54) },
  { name: 'ethertype IPv4, version 6', outcome: 'malformed', frame: patch(syn4, [0, 0x65]) },
  { name: 'ethertype IPv6, version 4', outcome: 'malformed', frame: patch(syn6, [0, 0x40]) },
  ...[0, 1, 4].map(ihl => ({ name: `IHL ${ihl}`, outcome: 'malformed', frame: patch(syn4, [0, 0x40 | ihl]) })),
  { name: 'IHL beyond the packet', outcome: 'malformed', frame: patch(syn4, [0, 0x4f]) },
  { name: 'total length beyond the packet', outcome: 'malformed', frame: patch(syn4, [3, 41]) },
  { name: 'total length below the header', outcome: 'malformed', frame: patch(syn4, [3, 19]) },
  { name: 'total length 0', outcome: 'malformed', frame: patch(syn4, [3, 0]) },
  { name: 'payload length beyond the packet', outcome: 'malformed', frame: patch(syn6, [5, 21]) },
  { name: 'another address', outcome: 'not_service', frame: tcp('203.0.113.7:40000', '172.30.0.99:80', 'S') },
  { name: 'another address, IPv6', outcome: 'not_service', frame: udp(V6[0], '[2001:db8:30::99]:80') },
  { name: 'unknown port of an own address', outcome: 'host_port', frame: tcp(V4[0], '192.168.0.1:22', 'S') },
  { name: 'unknown port, IPv6', outcome: 'host_port', frame: tcp(V6[0], '[2001:db8:c0::1]:22', 'S') },
  { name: 'the other protocol of a port', outcome: 'host_port', frame: udp(V4[0], '192.168.0.1:30080') },
  { name: 'TCP in the middle, unknown port', outcome: 'not_service', frame: tcp(V4[0], '172.30.0.1:81', 'A') },
  { name: 'TCP in the middle', outcome: 'unknown_flow', frame: tcp(...V4, 'A') },
  { name: 'TCP in the middle, IPv6', outcome: 'unknown_flow', frame: tcp(...V6, 'PA') },
]

/** What is cut short behind a sound IP header: dropped where the address is a Service's alone. */
const CUT_SHORT: { name: string; outcome: string; frame: Uint8Array }[] = [
  { name: 'half a TCP header', outcome: 'malformed', frame: patch(syn4, [3, 30]).slice(0, 44) },
  { name: 'half a UDP header', outcome: 'malformed', frame: patch(udp(...V4), [3, 24]).slice(0, 38) },
  { name: 'TCP header cut by the total length', outcome: 'malformed', frame: patch(syn4, [3, 39]) },
  { name: 'TCP header cut by the payload length', outcome: 'malformed', frame: patch(syn6, [5, 19]) },
  { name: 'TCP data offset 4', outcome: 'malformed', frame: patch(syn4, [32, 0x40]) },
  { name: 'UDP header cut', outcome: 'malformed', frame: patch(udp(...V4, { payload: padding }), [3, 27]) },
  { name: 'UDP header cut, IPv6', outcome: 'malformed', frame: patch(udp(...V6, { payload: padding }), [5, 7]) },
  {
    name: 'options that leave no room for TCP',
    outcome: 'malformed',
    frame: patch(tcp(...V4, 'S', { ipOptions: new Uint8Array(4) }), [0, 0x47]),
  },
]

/** New flows that cannot be served. */
const DROPPED: { name: string; outcome: string; frame: Uint8Array }[] = (
  [
    { from: V4[0], service: '172.30.0', node: (n: number) => `172.30.0.${n}` },
    { from: V6[0], service: '2001:db8:30', node: (n: number) => `[2001:db8:30::${n}]` },
  ] as const
).flatMap(({ from, service, node }) => {
  const at = (n: number, options: PacketOptions = {}) => tcp(from, `${node(n)}:80`, 'S', options)
  return [
    { name: `${service} no backend here under Local policy`, outcome: 'no_local_backend', frame: at(3) },
    { name: `${service} unreachable backend`, outcome: 'no_route', frame: at(4) },
    { name: `${service} device without address`, outcome: 'no_source_address', frame: at(5) },
    { name: `${service} backend is an address of this node's`, outcome: 'no_route', frame: at(7) },
    { name: `${service} service that does not exist`, outcome: 'broken_state', frame: at(8) },
    { name: `${service} backend of the other family`, outcome: 'broken_state', frame: at(9) },
    { name: `${service} client outside the source ranges`, outcome: 'source_denied', frame: at(10) },
  ]
})

/** The same, and their sender is told; tc-reject.test.ts says what. */
const ANSWERED: typeof DROPPED = (
  [
    { from: V4[0], service: '172.30.0', node: (n: number) => `172.30.0.${n}` },
    { from: V6[0], service: '2001:db8:30', node: (n: number) => `[2001:db8:30::${n}]` },
  ] as const
).flatMap(({ from, service, node }) => {
  const at = (n: number, options: PacketOptions = {}) => tcp(from, `${node(n)}:80`, 'S', options)
  return [
    { name: `${service} unknown port`, outcome: 'no_port', frame: tcp(from, `${node(1)}:81`, 'S') },
    { name: `${service} unknown port, UDP`, outcome: 'no_port', frame: udp(from, `${node(1)}:80`) },
    { name: `${service} no backend at all`, outcome: 'no_backend', frame: at(2) },
    { name: `${service} TTL 1`, outcome: 'ttl_exceeded', frame: at(1, { ttl: 1 }) },
    { name: `${service} TTL 0`, outcome: 'ttl_exceeded', frame: at(1, { ttl: 0 }) },
    { name: `${service} larger than the MTU`, outcome: 'too_big', frame: at(6, { payload: new Uint8Array(1300) }) },
  ]
})

describe.skipIf(lacking)('every way out of the packet programs', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode()
    const add = (n: number, v4: string | undefined, v6: string | undefined, externalLocal = false) => {
      for (const [at, backend] of [
        [`172.30.0.${n}:80`, v4],
        [`[2001:db8:30::${n}]:80`, v6],
      ] as const) {
        const backends = backend ? [{ at: backend }] : []
        node.services.add({ proto: 'TCP', frontends: [{ at }], backends, externalLocal })
      }
    }
    add(1, '10.0.2.5:8080', '[2001:db8:a2::5]:8080')
    add(2, undefined, undefined, true)
    add(3, '10.0.2.5:8080', '[2001:db8:a2::5]:8080', true)
    add(4, '10.0.9.5:8080', '[2001:db8:a9::5]:8080')
    add(5, '10.0.3.5:8080', '[2001:db8:a3::5]:8080')
    add(6, '10.0.4.5:8080', '[2001:db8:a4::5]:8080')
    add(7, '192.168.1.1:8080', '[2001:db8:c1::1]:8080')
    node.services.addBrokenFrontend('172.30.0.8:80', 'TCP', 100_000)
    node.services.addBrokenFrontend('[2001:db8:30::8]:80', 'TCP', 100_000)
    add(9, '[2001:db8:a2::5]:8080', '10.0.2.5:8080')
    for (const [at, backend, range] of [
      ['172.30.0.10:80', '10.0.2.5:8080', '192.0.2.0/24'],
      ['[2001:db8:30::10]:80', '[2001:db8:a2::5]:8080', '2001:db8:1::/48'],
    ] as const) {
      const frontends = [{ at, kind: FrontendKind.LOAD_BALANCER }]
      node.services.add({ proto: 'TCP', frontends, backends: [{ at: backend }], sourceRanges: [range] })
    }
    node.services.add({
      proto: 'TCP',
      frontends: [
        { at: '192.168.0.1:30080', ownAddress: true },
        { at: '[2001:db8:c0::1]:30080', ownAddress: true },
      ],
      backends: [{ at: '10.0.1.5:8080', local: true }],
    })
  })
  afterAll(() => node.close())

  test.each(CUT_SHORT)('row 11: $name: dropped as $outcome', ({ outcome, frame }) => {
    expect(node.ingress(frame)).toMatchObject({ outcome, verdict: 'drop', counted: frame.length })
  })

  test.each(CUT_SHORT)('row 11: $name: at egress, too', ({ outcome, frame }) => {
    expect(node.egress(frame)).toMatchObject({ outcome, verdict: 'drop' })
  })

  test.each(LEFT_ALONE)('rows 6, 11 and 31: $name: left alone as $outcome', ({ outcome, frame }) => {
    expect(node.ingress(frame)).toMatchObject({ outcome, verdict: 'next', frame, counted: frame.length })
    expect(node.services.flows()).toEqual([])
  })

  test.each(LEFT_ALONE.filter(({ outcome }) => ['fragment', 'malformed'].includes(outcome)))(
    '$name: left alone at egress too',
    ({ outcome, frame }) => {
      expect(node.egress(frame)).toMatchObject({ outcome, verdict: 'next', frame })
    },
  )

  test.each(DROPPED)(
    'rows 39 and 48: $name: dropped as $outcome, without a trace in the flow table',
    ({ outcome, frame }) => {
      expect(node.ingress(frame)).toMatchObject({ outcome, verdict: 'drop', counted: frame.length })
      expect(node.services.flows()).toEqual([])
    },
  )

  test.each(ANSWERED)('$name: answered as $outcome, without a trace in the flow table', ({ outcome, frame }) => {
    expect(node.ingress(frame)).toMatchObject({ outcome, verdict: 'redirect' })
    expect(node.services.flows()).toEqual([])
  })

  test('the same packets with TTL 2, and as large as the MTU, go through', () => {
    expect(node.ingress(tcp(...V4, 'S', { ttl: 2 })).packet.ttl).toBe(1)
    expect(node.ingress(tcp(V4[0], '172.30.0.6:80', 'S', { payload: new Uint8Array(1240) })).outcome).toBe('forwarded')
    expect(node.ingress(tcp(...V6, 'S', { ttl: 2 })).packet.ttl).toBe(1)
    node.services.clear()
  })

  test('each outcome of the packet layer occurs in these tests', () => {
    const here = new Set([...LEFT_ALONE, ...DROPPED, ...ANSWERED].map(each => each.outcome))
    // Others: journeys; tc-snat, tc-snat-egress, tc-adopt; the socket layer; a helper's refusal, which no packet provokes.
    // tc-fragments, tc-parse and tc-martian have theirs.
    const arriving = [
      'bad_fragment',
      'fragment_held',
      'fragment_released',
      'source_route',
      'extension_headers',
      'martian',
    ]
    // tc-icmp and tc-reject, too.
    const replies = ['icmp_translated', 'ping_answered', 'ping_ignored', 'reply_limited']
    const elsewhere = [
      'delivered',
      'forwarded',
      'replied',
      'snat_exhausted',
      'flows_full',
      'port_moved',
      'snat_limited',
      'kernel_flow',
      ...arriving,
      ...replies,
    ]
    // The last one: xdp.test.ts.
    const notHere = ['continue', 'translated', 'stale_socket', 'rewrite_failed', 'left_to_tc']
    const all = Object.values(outcomeNames).filter(name => !elsewhere.includes(name) && !notHere.includes(name))
    expect(new Set(all)).toEqual(here)
    expect(Outcome.COUNT).toBe(all.length + elsewhere.length + notHere.length)
  })
})
