import { addressToBytes, familyOf, parseAddress } from '../../src/model/address.js'
import { crc32c } from './crc32c.js'

/**
 * Packets as bytes. Endpoints are written `192.0.2.1:80` and `[2001:db8::1]:80`; the
 * family follows from them. Checksums are right unless a test asks for something else.
 */
export interface PacketOptions {
  /** Default 64. */
  readonly ttl?: number
  readonly payload?: Uint8Array
  /** IPv4 options; the length must be a multiple of 4, 40 at most. */
  readonly ipOptions?: Uint8Array
  /** TCP options; the length must be a multiple of 4, 40 at most. */
  readonly tcpOptions?: Uint8Array
  /** zero: none (UDP), or left to the device (SCTP). wrong: one more than right. */
  readonly checksum?: 'zero' | 'wrong'
  /** IPv4: this is a fragment; offset in bytes, a multiple of 8. */
  readonly fragment?: { readonly offset: number; readonly more: boolean }
  /** IPv6: number of the next header, with `extension` between IPv6 and the transport header. */
  readonly nextHeader?: number
  readonly extension?: Uint8Array
  /** Default: the test devices' address, so that the packet is for the host. */
  readonly dstMac?: string
}

export const PROTO_TCP = 6
export const PROTO_UDP = 17
export const PROTO_SCTP = 132
export const ETH_LENGTH = 14
/** The address of every test device. */
export const DEVICE_MAC = '02:00:00:00:00:01'
const SOURCE_MAC = '02:00:00:00:00:99'
const FLAG_LETTERS = 'FSRPAU'

/** A TCP segment. `flags` are letters of FSRPAU: `SA` is SYN with ACK. */
export function tcp(from: string, to: string, flags: string, options: PacketOptions = {}): Uint8Array {
  const tcpOptions = options.tcpOptions ?? new Uint8Array()
  const payload = options.payload ?? new Uint8Array()
  const segment = new Uint8Array(20 + tcpOptions.length + payload.length)
  const view = new DataView(segment.buffer)
  view.setUint16(0, parseEndpoint(from).port)
  view.setUint16(2, parseEndpoint(to).port)
  view.setUint32(4, 1000)
  view.setUint32(8, flags.includes('A') ? 2000 : 0)
  segment[12] = (segment.length - payload.length) << 2
  segment[13] = [...flags].reduce((bits, letter) => bits | (1 << flagBit(letter)), 0)
  view.setUint16(14, 64240)
  segment.set(tcpOptions, 20)
  segment.set(payload, 20 + tcpOptions.length)
  return network(from, to, PROTO_TCP, segment, 16, options)
}

export function udp(from: string, to: string, options: PacketOptions = {}): Uint8Array {
  const payload = options.payload ?? new Uint8Array()
  const datagram = new Uint8Array(8 + payload.length)
  const view = new DataView(datagram.buffer)
  view.setUint16(0, parseEndpoint(from).port)
  view.setUint16(2, parseEndpoint(to).port)
  view.setUint16(4, datagram.length)
  datagram.set(payload, 8)
  return network(from, to, PROTO_UDP, datagram, 6, options)
}

/** Types of SCTP chunks (RFC 9260 3.2). */
export const CHUNKS = {
  DATA: 0,
  INIT: 1,
  'INIT ACK': 2,
  SACK: 3,
  ABORT: 6,
  SHUTDOWN: 7,
  'SHUTDOWN ACK': 8,
  'COOKIE ECHO': 10,
  'COOKIE ACK': 11,
  'SHUTDOWN COMPLETE': 14,
} as const

export type Chunk = keyof typeof CHUNKS

/** An SCTP packet with one chunk, whose value is the payload. */
export function sctp(from: string, to: string, chunk: Chunk, options: PacketOptions = {}): Uint8Array {
  const payload = options.payload ?? new Uint8Array(chunk === 'INIT' || chunk === 'INIT ACK' ? 16 : 0)
  const padded = Math.ceil(payload.length / 4) * 4
  const packet = new Uint8Array(16 + padded)
  const view = new DataView(packet.buffer)
  view.setUint16(0, parseEndpoint(from).port)
  view.setUint16(2, parseEndpoint(to).port)
  view.setUint32(4, chunk === 'INIT' ? 0 : 0xdecade05)
  packet[12] = CHUNKS[chunk]
  view.setUint16(14, 4 + payload.length)
  packet.set(payload, 16)
  if (options.checksum !== 'zero') {
    const right = crc32c(packet)
    view.setUint32(8, options.checksum === 'wrong' ? right ^ 1 : right, true)
  }
  return network(from, to, PROTO_SCTP, packet, undefined, options)
}

/** A chunk that says of an association what these flags say of a connection. */
const CHUNK_OF_FLAGS: Readonly<Record<string, Chunk>> = {
  S: 'INIT',
  SA: 'INIT ACK',
  R: 'ABORT',
  RA: 'ABORT',
  FA: 'SHUTDOWN',
  F: 'SHUTDOWN',
}

/** A packet of any of the three protocols; `flags` as {@link tcp} has them, or what is like them in SCTP. */
export function segment(
  proto: 'TCP' | 'UDP' | 'SCTP',
  from: string,
  to: string,
  flags: string,
  options: PacketOptions = {},
): Uint8Array {
  if (proto === 'TCP') return tcp(from, to, flags, options)
  return proto === 'UDP' ? udp(from, to, options) : sctp(from, to, CHUNK_OF_FLAGS[flags] ?? 'DATA', options)
}

/** A packet of another protocol over IP; the endpoints' ports are not used. */
export function otherProtocol(from: string, to: string, proto: number, options: PacketOptions = {}): Uint8Array {
  return network(from, to, proto, options.payload ?? new Uint8Array(8), undefined, options)
}

export interface Endpoint {
  readonly address: string
  readonly port: number
}

/** Parses `192.0.2.1:80` or `[2001:db8::1]:80`. */
export function parseEndpoint(text: string): Endpoint {
  const match = /^(?:\[(.+)\]|([^:]+)):(\d+)$/.exec(text)
  if (!match) throw new Error(`not an endpoint: ${text}`)
  return { address: match[1] ?? match[2] ?? '', port: Number(match[3]) }
}

/** The 4 or 16 bytes of an address on the wire. */
export function wireAddress(text: string): Uint8Array {
  const address = parseAddress(text)
  if (address === undefined) throw new Error(`not an address: ${text}`)
  const bytes = addressToBytes(address)
  // An IPv4-mapped address written with colons stays IPv6 on the wire.
  return familyOf(address) === 'IPv4' && !text.includes(':') ? bytes.slice(12) : bytes
}

/** RFC 1071: the ones' complement sum of big-endian 16-bit words, not complemented. */
export function onesSum(...parts: readonly Uint8Array[]): number {
  let sum = 0
  for (const part of parts) {
    for (let i = 0; i < part.length; i += 2) sum += ((part[i] ?? 0) << 8) | (part[i + 1] ?? 0)
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000)
  return sum
}

/** The pseudo header that TCP and UDP checksums cover (RFC 9293 3.1, RFC 8200 8.1): summed words are the same for both. */
export function pseudoHeader(src: Uint8Array, dst: Uint8Array, proto: number, length: number): Uint8Array {
  const header = new Uint8Array(src.length + dst.length + 8)
  header.set(src)
  header.set(dst, src.length)
  const view = new DataView(header.buffer, src.length + dst.length)
  view.setUint32(0, length)
  view.setUint32(4, proto)
  return header
}

function flagBit(letter: string): number {
  const bit = FLAG_LETTERS.indexOf(letter)
  if (bit < 0) throw new Error(`not a TCP flag: ${letter}`)
  return bit
}

function network(
  from: string,
  to: string,
  proto: number,
  transport: Uint8Array,
  checksumAt: number | undefined,
  options: PacketOptions,
): Uint8Array {
  const src = wireAddress(parseEndpoint(from).address)
  const dst = wireAddress(parseEndpoint(to).address)
  if (src.length !== dst.length) throw new Error(`two families: ${from} ${to}`)
  if (checksumAt !== undefined) putTransportChecksum(src, dst, proto, transport, checksumAt, options)
  const ip =
    src.length === 4
      ? ipv4Header(src, dst, proto, transport.length, options)
      : ipv6Header(src, dst, proto, transport.length, options)
  const packet = new Uint8Array(ETH_LENGTH + ip.length + transport.length)
  packet.set(macBytes(options.dstMac ?? DEVICE_MAC))
  packet.set(macBytes(SOURCE_MAC), 6)
  new DataView(packet.buffer).setUint16(12, src.length === 4 ? 0x0800 : 0x86dd)
  packet.set(ip, ETH_LENGTH)
  packet.set(transport, ETH_LENGTH + ip.length)
  return packet
}

function putTransportChecksum(
  src: Uint8Array,
  dst: Uint8Array,
  proto: number,
  transport: Uint8Array,
  at: number,
  options: PacketOptions,
): void {
  if (options.checksum === 'zero') return
  const sum = onesSum(pseudoHeader(src, dst, proto, transport.length), transport)
  let checksum = ~sum & 0xffff
  if (options.checksum === 'wrong') checksum = (checksum + 1) & 0xffff
  // In UDP a zero means "none", so a computed zero is sent as its other form (RFC 768).
  if (checksum === 0 && proto === PROTO_UDP) checksum = 0xffff
  new DataView(transport.buffer).setUint16(at, checksum)
}

function ipv4Header(
  src: Uint8Array,
  dst: Uint8Array,
  proto: number,
  length: number,
  options: PacketOptions,
): Uint8Array {
  const ipOptions = options.ipOptions ?? new Uint8Array()
  const header = new Uint8Array(20 + ipOptions.length)
  const view = new DataView(header.buffer)
  header[0] = 0x40 | (header.length / 4)
  view.setUint16(2, header.length + length)
  view.setUint16(4, 0x1234)
  if (options.fragment) view.setUint16(6, (options.fragment.more ? 0x2000 : 0) | (options.fragment.offset / 8))
  else view.setUint16(6, 0x4000)
  header[8] = options.ttl ?? 64
  header[9] = proto
  header.set(src, 12)
  header.set(dst, 16)
  header.set(ipOptions, 20)
  view.setUint16(10, ~onesSum(header) & 0xffff)
  return header
}

function ipv6Header(
  src: Uint8Array,
  dst: Uint8Array,
  proto: number,
  length: number,
  options: PacketOptions,
): Uint8Array {
  const extension = options.extension ?? new Uint8Array()
  const header = new Uint8Array(40 + extension.length)
  const view = new DataView(header.buffer)
  // Traffic class with an ECN mark and a flow label: they must survive.
  view.setUint32(0, 0x6030_1234)
  view.setUint16(4, extension.length + length)
  header[6] = options.nextHeader ?? proto
  header[7] = options.ttl ?? 64
  header.set(src, 8)
  header.set(dst, 24)
  header.set(extension, 40)
  return header
}

export function macBytes(text: string): Uint8Array {
  return Uint8Array.from(text.split(':'), part => Number.parseInt(part, 16))
}
