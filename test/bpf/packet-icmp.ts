import {
  DEVICE_MAC,
  ETH_LENGTH,
  onesSum,
  otherProtocol,
  type PacketOptions,
  pseudoHeader,
  wireAddress,
} from './packet.js'
import { type DecodedPacket, decode } from './packet-decode.js'

/** ICMP and ICMPv6 as bytes; addresses without ports, the family follows from them. */

export const PROTO_ICMP = 1
export const PROTO_ICMPV6 = 58

export type IcmpKind = keyof typeof KINDS

/** Type and code in both families. */
const KINDS = {
  'net unreachable': { IPv4: [3, 0], IPv6: [1, 0] },
  'port unreachable': { IPv4: [3, 3], IPv6: [1, 4] },
  'too big': { IPv4: [3, 4], IPv6: [2, 0] },
  'time exceeded': { IPv4: [11, 0], IPv6: [3, 0] },
  'parameter problem': { IPv4: [12, 0], IPv6: [4, 0] },
  'echo request': { IPv4: [8, 0], IPv6: [128, 0] },
  'echo reply': { IPv4: [0, 0], IPv6: [129, 0] },
  'neighbour solicitation': { IPv4: [13, 0], IPv6: [135, 0] },
} as const

export interface IcmpOptions extends PacketOptions {
  /** The second word of the header. */
  readonly rest?: number
}

export function icmp(
  kind: IcmpKind,
  from: string,
  to: string,
  body: Uint8Array,
  options: IcmpOptions = {},
): Uint8Array {
  const [src, dst] = [wireAddress(bare(from)), wireAddress(bare(to))]
  const family = src.length === 4 ? 'IPv4' : 'IPv6'
  const message = new Uint8Array(8 + body.length)
  message.set(KINDS[kind][family])
  message.set(body, 8)
  const view = new DataView(message.buffer)
  view.setUint32(4, options.rest ?? 0)
  const pseudo = family === 'IPv4' ? new Uint8Array() : pseudoHeader(src, dst, PROTO_ICMPV6, message.length)
  view.setUint16(2, ~onesSum(pseudo, message) & 0xffff)
  const endpoint = (address: string) => (address.includes(':') ? `[${bare(address)}]:0` : `${address}:0`)
  const proto = family === 'IPv4' ? PROTO_ICMP : PROTO_ICMPV6
  return otherProtocol(endpoint(from), endpoint(to), proto, { ...options, payload: message })
}

/** An error about a packet, which it quotes whole or up to `bytes` behind its IP header. */
export function icmpError(
  kind: IcmpKind,
  from: string,
  to: string,
  about: Uint8Array,
  options: IcmpOptions & { readonly bytes?: number } = {},
): Uint8Array {
  const packet = about.subarray(ETH_LENGTH)
  const header = (packet[0] ?? 0) >> 4 === 4 ? ((packet[0] ?? 0) & 0xf) * 4 : 40
  return icmp(
    kind,
    from,
    to,
    packet.slice(0, options.bytes === undefined ? undefined : header + options.bytes),
    options,
  )
}

export interface DecodedIcmp {
  readonly kind: IcmpKind | string
  readonly from: string
  readonly to: string
  readonly ttl: number
  readonly checksum: 'ok' | 'wrong'
  readonly ipChecksum: 'ok' | 'wrong' | 'absent'
  readonly rest: number
  /** What follows the header. */
  readonly body: Uint8Array
  /** The packet that an error quotes; throws when it does not hold a whole one of TCP or UDP. */
  readonly quote: DecodedPacket
}

export function decodeIcmp(frame: Uint8Array): DecodedIcmp {
  const ip = frame.subarray(ETH_LENGTH)
  const v4 = (ip[0] ?? 0) >> 4 === 4
  const view = new DataView(ip.buffer, ip.byteOffset)
  const header = v4 ? ((ip[0] ?? 0) & 0xf) * 4 : 40
  const message = ip.subarray(header, v4 ? view.getUint16(2) : 40 + view.getUint16(4))
  const [src, dst] = v4 ? [ip.subarray(12, 16), ip.subarray(16, 20)] : [ip.subarray(8, 24), ip.subarray(24, 40)]
  const proto = v4 ? ip[9] : ip[6]
  if (proto !== (v4 ? PROTO_ICMP : PROTO_ICMPV6)) throw new Error(`not ICMP: protocol ${proto}`)
  const family = v4 ? 'IPv4' : 'IPv6'
  const known = Object.entries(KINDS).find(
    ([, kind]) => kind[family][0] === message[0] && kind[family][1] === message[1],
  )
  const pseudo = v4 ? new Uint8Array() : pseudoHeader(src, dst, PROTO_ICMPV6, message.length)
  const body = message.slice(8)
  return {
    kind: known?.[0] ?? `type ${message[0]} code ${message[1]}`,
    from: textOf(src),
    to: textOf(dst),
    ttl: (v4 ? ip[8] : ip[7]) ?? 0,
    checksum: onesSum(pseudo, message) === 0xffff ? 'ok' : 'wrong',
    ipChecksum: v4 ? (onesSum(ip.subarray(0, header)) === 0xffff ? 'ok' : 'wrong') : 'absent',
    rest: new DataView(message.buffer, message.byteOffset).getUint32(4),
    body,
    get quote() {
      return decode(framed(body))
    },
  }
}

/** The quoted packet with an Ethernet header, as far as it goes. */
export function framed(packet: Uint8Array): Uint8Array {
  const frame = new Uint8Array(ETH_LENGTH + packet.length)
  frame.set(DEVICE_MAC.split(':').map(part => Number.parseInt(part, 16)))
  frame.set((packet[0] ?? 0) >> 4 === 4 ? [0x08, 0x00] : [0x86, 0xdd], 12)
  frame.set(packet, ETH_LENGTH)
  return frame
}

function bare(address: string): string {
  return address.replace(/^\[|\]$/g, '')
}

function textOf(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.')
  const words = Array.from({ length: 8 }, (_, i) => (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16))
  const [longest = ''] = [...words.join(':').matchAll(/(?:^|:)0(?::0)+(?::|$)/g)]
    .map(match => match[0])
    .sort((a, b) => b.length - a.length)
  return longest ? words.join(':').replace(longest, '::') : words.join(':')
}
