import type { Address } from '../../model/address.js'

/**
 * A packet as the reference sees it: what its headers say, in words. Reading them from
 * bytes is the caller's; whatever is wrong with a packet is said in `left` and `defect`.
 */

export const TCP = 6
export const UDP = 17
export const SCTP = 132

/**
 * Bits of {@link Packet.tcpFlags}, as on the wire (RFC 9293 3.1). The first chunk of an SCTP
 * packet is said in them: INIT is SYN, INIT ACK both, SHUTDOWN and its ACK are FIN, ABORT and
 * SHUTDOWN COMPLETE are RST, and every other one is ACK.
 */
export const TcpFlag = { FIN: 0x01, SYN: 0x02, RST: 0x04, ACK: 0x10 } as const

/** Addresses and ports of a packet; ports are 0 where it has none (ICMP). */
export interface Tuple {
  readonly src: Address
  readonly sport: number
  readonly dst: Address
  readonly dport: number
  /** IANA protocol number */
  readonly proto: number
}

/** Why a packet is dropped if it turns out to be a Service's. */
export type Defect = 'malformed' | 'bad_fragment' | 'source_route' | 'extension_headers'

export interface Fragment {
  /** Of the datagram. */
  readonly id: number
  /** Of its data in the datagram, in bytes; 0 = the first one, which has the ports. */
  readonly offset: number
  /** Bytes of data in it. */
  readonly size: number
}

/** What an ICMP message says. */
export type Icmp =
  | { readonly kind: 'echo request' }
  /** `quote` is the tuple of the packet that it is about; `left` says why there is none. */
  | {
      readonly kind: 'error'
      readonly quote: Tuple | undefined
      readonly left?: 'malformed' | 'fragment' | 'not_handled'
    }
  | { readonly kind: 'other' }

export interface Packet {
  /** Of a later fragment without ports, and for IPv6 without protocol. */
  readonly tuple: Tuple
  readonly family: 'IPv4' | 'IPv6'
  /** Not for another machine, by its MAC address. */
  readonly forHost: boolean
  /** TTL or hop limit. */
  readonly ttl: number
  /** What the route's MTU has to bear, in bytes. */
  readonly size: number
  /** Bytes of the whole frame. */
  readonly frameSize: number
  /** {@link TcpFlag}; 0 unless it is TCP or SCTP with a header. */
  readonly tcpFlags: number
  /** Unset = a whole datagram. */
  readonly fragment: Fragment | undefined
  /** Set for ICMP over IPv4 and ICMPv6 over IPv6, whole datagrams only. */
  readonly icmp: Icmp | undefined
  /** Why it was not read to its ports; what is not a Service's passes under this name. */
  readonly left: 'not_handled' | Defect | undefined
  readonly defect: Defect | undefined
}

/** The tuple of a packet that travels the other way. */
export function exchanged({ src, sport, dst, dport, proto }: Tuple): Tuple {
  return { src: dst, sport: dport, dst: src, dport: sport, proto }
}

/** A key for maps: equal tuples, equal texts. */
export function tupleKey({ src, sport, dst, dport, proto }: Tuple): string {
  return `${proto} ${src} ${sport} ${dst} ${dport}`
}

/** Whether packets say where a connection, or an association, begins and ends. */
export function hasConnections(proto: number): boolean {
  return proto === TCP || proto === SCTP
}

/** A SYN that opens a connection: not the answer to one, and nothing that ends one. */
export function isPureSyn({ tcpFlags }: Pick<Packet, 'tcpFlags'>): boolean {
  const { SYN, ACK, RST, FIN } = TcpFlag
  return (tcpFlags & (SYN | ACK | RST | FIN)) === SYN
}
