import { type Answer, type Becomes, drop, type OutcomeName } from './answer.js'
import { deviceAddress, isReceiver } from './node.js'
import { type Packet, TCP } from './packet.js'
import type { Sighting, State } from './state.js'
import { wayTo } from './way.js'

/** What cannot be served, and which of it is answered (docs/packet-path.md, "ICMP and refusals"). */
export type Refused = Extract<
  OutcomeName,
  'no_port' | 'no_backend' | 'no_local_backend' | 'no_route' | 'ttl_exceeded' | 'too_big'
>

/** TTL of packets that are made here, and their most bytes (RFC 1812 4.3.2.3, RFC 4443 2.4c). */
const TTL = 64
const MOST_BYTES = { IPv4: 576, IPv6: 1280 } as const
const IP_HEADER = { IPv4: 20, IPv6: 40 } as const

export function refuse(state: State, { packet, device }: Sighting, refused: Refused, mtu = 0): Answer {
  const { tuple, family, fragment } = packet
  const answered =
    refused === 'no_port' || refused === 'no_backend' || refused === 'ttl_exceeded' || refused === 'too_big'
  // No error about an error, nor about a later fragment (RFC 1122 3.2.2).
  if (!answered || packet.icmp || (fragment && fragment.offset > 0) || !isReceiver(tuple.src)) return drop(refused)
  // A router speaks from its address on the device where the packet came in (RFC 1812 4.3.2.4).
  const router = deviceAddress(state.facts.devices.get(device), family) ?? tuple.dst
  const becomes = answerTo(packet, refused, router, mtu)
  const way = wayTo(state, tuple.src, { ttl: TTL, size: sizeOf(becomes, packet) })
  if ('refusal' in way) return drop(way.refusal)
  return { outcome: refused, verdict: 'redirect', becomes }
}

function answerTo({ tuple }: Packet, refused: Refused, router: Packet['tuple']['src'], mtu: number): Becomes {
  if (refused === 'ttl_exceeded') return { kind: 'refusal', what: 'time exceeded', src: router, mtu: 0 }
  if (refused === 'too_big') return { kind: 'refusal', what: 'too big', src: router, mtu }
  if (tuple.proto === TCP) return { kind: 'reset' }
  return { kind: 'refusal', what: 'port unreachable', src: tuple.dst, mtu: 0 }
}

/** At most: an answer is shorter than what it answers plus its own header, and never longer than every link bears. */
function sizeOf(becomes: Becomes, { family, size }: Packet): number {
  const header = IP_HEADER[family]
  return becomes.kind === 'reset' ? header + 20 : Math.min(MOST_BYTES[family], header + 8 + size)
}
