/**
 * The packet table: what may arrive at a node, and what must come of it. A test names the
 * rows that it proves in its title ("row 7", "rows 12 and 26"); tools/gen-docs finds them
 * and writes docs/reference/packet-table.md.
 */
export interface PacketRow {
  readonly row: number
  readonly sent: string
  readonly expected: string
  /** The one family in which the row exists. */
  readonly family?: 'IPv4' | 'IPv6'
  /** What no test shows, and why. A row without tests must say so. */
  readonly open?: string
}

export const PACKET_TABLE: readonly PacketRow[] = [
  {
    row: 1,
    sent: 'the first packet of a connection or exchange to a frontend',
    expected: 'goes to one backend, checksums right, nothing else touched; a flow that is not yet confirmed',
  },
  {
    row: 2,
    sent: "the backend's answer; the same SYN again",
    expected: 'the answer comes from the frontend; a repeated SYN goes to the same backend',
  },
  { row: 3, sent: 'a SYN with data and the fast open option', expected: 'goes whole to one backend' },
  {
    row: 4,
    sent: 'a SYN from the same address and port once the connection is closed, half-closed or reset',
    expected: 'a new connection with a new choice, at once',
  },
  {
    row: 5,
    sent: 'a SYN from the same address and port on a connection that is open',
    expected: 'goes to the same backend, which decides',
  },
  {
    row: 6,
    sent: 'the middle of a TCP connection that no flow knows',
    expected: 'left to the stack and counted, never sent to a chosen backend',
  },
  {
    row: 7,
    sent: 'a reset that its receiver does not obey, then data',
    expected: 'the flow goes on; only a silence ends it sooner',
  },
  {
    row: 8,
    sent: 'FIN from both sides; FIN from one alone',
    expected: 'the place is free within 30 s; half-closed it is kept for over an hour',
  },
  { row: 9, sent: 'data after two hours of silence', expected: 'arrives at the same backend' },
  {
    row: 10,
    sent: 'IPv4 headers with options',
    expected: 'translated at the right place, options untouched; source routes dropped for a Service',
    family: 'IPv4',
  },
  {
    row: 11,
    sent: 'impossible header lengths, packets cut short anywhere',
    expected: "dropped as malformed when a Service's, else left alone; no flow",
  },
  {
    row: 12,
    sent: 'a UDP datagram of 8 kB in six fragments, in order',
    expected: 'all reach one backend and make the same datagram there',
  },
  {
    row: 13,
    sent: 'fragments reversed, shuffled, doubled, overlapping, without a first one, 10,000 ids at once',
    expected: 'out of order they arrive, overlapping they are dropped; memory is bounded and later ids do not suffer',
  },
  {
    row: 14,
    sent: 'a first fragment with less than the transport header',
    expected: "dropped when a Service's; with the whole header it goes on",
  },
  {
    row: 15,
    sent: 'IPv6 extension headers, one to nine, in any mixture',
    expected: 'walked up to eight, translated behind them; more are dropped when a Service’s',
    family: 'IPv6',
  },
  {
    row: 16,
    sent: 'traffic class, ECN marks and flow label',
    expected: 'arrive as they were sent',
  },
  {
    row: 17,
    sent: 'fragmentation needed or packet too big from a router behind the node, about a packet to a backend',
    expected: 'reaches the client from the frontend, quoting the packet that the client sent; its path MTU follows',
  },
  {
    row: 18,
    sent: 'the same from the client side, about a reply',
    expected: 'reaches the right backend, here or on another node',
  },
  {
    row: 19,
    sent: 'port, host or network unreachable, time exceeded, parameter problem',
    expected: 'translated as well; a client hears at once that nobody listens',
  },
  {
    row: 20,
    sent: 'errors that quote eight bytes of transport header, options, a fragment, another protocol or nothing',
    expected: 'translated where the quote has ports, else left alone',
  },
  { row: 21, sent: 'a ping of a Service address', expected: 'answered or dropped, as --answer-ping says' },
  {
    row: 22,
    sent: 'a TTL or hop limit that is used up here',
    expected: 'time exceeded from the node, no flow; else the limit is one less, once',
  },
  {
    row: 23,
    sent: 'UDP without checksum',
    expected: 'stays without over IPv4; dropped over IPv6, where that is invalid',
  },
  {
    row: 24,
    sent: 'UDP whose checksum comes out as zero',
    expected: 'goes out as 0xffff',
  },
  { row: 25, sent: 'a wrong checksum', expected: 'stays wrong' },
  {
    row: 26,
    sent: 'packets of sockets here, with and without checksum offload',
    expected: 'right on the wire',
  },
  {
    row: 27,
    sent: 'packets larger than a frame: TCP segments, UDP segments as one or as a list, BIG TCP',
    expected: 'every byte and datagram arrives, the kernel has nothing to say',
  },
  {
    row: 28,
    sent: 'a packet larger than the route to the backend or to the client',
    expected: 'its sender is told the size',
  },
  {
    row: 29,
    sent: 'VLAN tags: one, two, priority; in the frame or taken out by the device',
    expected: 'VLANs are left to their device, a priority tag is none; nothing is read at a wrong place',
  },
  { row: 30, sent: 'packets on devices without Ethernet header', expected: 'served both ways' },
  {
    row: 31,
    sent: 'ARP, LLDP, neighbour discovery, multicast, broadcast, link-local',
    expected: 'untouched',
  },
  {
    row: 32,
    sent: 'SCTP whose ports need no change',
    expected: 'translated addresses, the checksum as it was',
  },
  {
    row: 33,
    sent: 'SCTP whose port must be changed',
    expected: 'translated, the checksum follows; in fragments it is dropped',
  },
  {
    row: 34,
    sent: 'two clients with one source port, to one backend behind SNAT',
    expected: 'two ports, each answer to its own client',
  },
  {
    row: 35,
    sent: 'more connections to one backend than there are source ports',
    expected: 'all ports are used; then dropped as snat_exhausted or snat_limited, until one is free',
  },
  {
    row: 36,
    sent: 'hairpin: a pod or a host that is chosen as its own backend',
    expected: 'connects, and sees the node as its client',
  },
  {
    row: 37,
    sent: 'sources that no client has, and own or Service addresses as source',
    expected: 'dropped as martian, no flow',
  },
  {
    row: 38,
    sent: 'a forged source of a neighbour; a forged answer to a translated port',
    expected: 'no flow is touched',
    open: 'a pod that forges the source of another pod is the CNI’s to stop: no program looks at a pod’s own device',
  },
  {
    row: 39,
    sent: 'clients inside and outside loadBalancerSourceRanges',
    expected: 'let in or denied, at every layer alike',
  },
  {
    row: 40,
    sent: 'a Service without endpoints, a port that no Service has',
    expected: 'TCP reset or port unreachable, within a rate; refused in the call where there is one',
  },
  {
    row: 41,
    sent: 'datagrams from one port while their backend is removed',
    expected: 'the next one goes to another backend, or is refused when there is none',
  },
  {
    row: 42,
    sent: 'a backend that terminates, still serving or not',
    expected: 'open flows stay; new ones only where nothing else is ready',
  },
  {
    row: 43,
    sent: 'a flood of SYNs from forged sources',
    expected: 'open connections survive it, real ones still get through',
  },
  {
    row: 44,
    sent: 'a flood of datagrams from forged sources',
    expected: 'open exchanges survive it, real ones still get through',
  },
  {
    row: 45,
    sent: 'connections from few addresses and ports, as fast as they go',
    expected: 'never a wrong backend; the table does not fill',
  },
  {
    row: 46,
    sent: 'random and mutated packets',
    expected: 'what the model says, no invariant broken',
  },
  {
    row: 47,
    sent: 'one connection at two nodes',
    expected: 'the same backend with a hashing scheduler, also after a backend went',
  },
  {
    row: 48,
    sent: 'a backend of the other family than its frontend',
    expected: 'never used: the plan makes a Service port of one family, the programs drop what differs',
  },
]
