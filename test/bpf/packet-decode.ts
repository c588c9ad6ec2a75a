import { addressFromBytes, formatEndpoint } from '../../src/model/address.js'
import { sctpChecksum } from './crc32c.js'
import { CHUNKS, ETH_LENGTH, onesSum, PROTO_SCTP, PROTO_TCP, PROTO_UDP, pseudoHeader } from './packet.js'

/** What a test wants to know of a packet. */
export interface DecodedPacket {
  readonly proto: 'TCP' | 'UDP' | 'SCTP'
  /** `192.0.2.1:80`, `[2001:db8::1]:80` */
  readonly from: string
  readonly to: string
  readonly ttl: number
  /** Letters of FSRPAU; empty for UDP. The first chunk of SCTP by its name. */
  readonly flags: string
  /** Whether the IPv4 header's and the transport checksum are right; none: a UDP checksum of zero. */
  readonly checksums: { readonly ip: 'ok' | 'wrong' | 'absent'; readonly transport: 'ok' | 'wrong' | 'none' }
  /** The transport checksum as it stands in the packet. */
  readonly transportChecksum: number
  readonly ipOptions: Uint8Array
  /** All that no dataplane may change: the payload, and IP and TCP headers without addresses, ports, TTL, checksums. */
  readonly untouched: string
}

/** Decodes an Ethernet frame with TCP, UDP or SCTP directly in IPv4 or IPv6; throws for anything else. */
export function decode(frame: Uint8Array): DecodedPacket {
  const type = viewOf(frame).getUint16(12)
  const ip = frame.subarray(ETH_LENGTH)
  if (type === 0x0800) return decodeIpv4(ip)
  if (type === 0x86dd) return decodeIpv6(ip)
  throw new Error(`not IP: ethertype ${type.toString(16)}`)
}

function decodeIpv4(ip: Uint8Array): DecodedPacket {
  const length = ((ip[0] ?? 0) & 0xf) * 4
  const header = ip.subarray(0, length)
  const rest = Uint8Array.from(header)
  rest.fill(0, 8, 9).fill(0, 10, 20)
  return decodeTransport({
    header: rest,
    src: header.subarray(12, 16),
    dst: header.subarray(16, 20),
    ttl: header[8] ?? 0,
    proto: header[9] ?? 0,
    ip: onesSum(header) === 0xffff ? 'ok' : 'wrong',
    ipOptions: header.slice(20),
    transport: ip.subarray(length, viewOf(ip).getUint16(2)),
  })
}

function decodeIpv6(ip: Uint8Array): DecodedPacket {
  const header = ip.subarray(0, 40)
  const rest = Uint8Array.from(header)
  rest.fill(0, 7)
  return decodeTransport({
    header: rest,
    src: header.subarray(8, 24),
    dst: header.subarray(24, 40),
    ttl: header[7] ?? 0,
    proto: header[6] ?? 0,
    ip: 'absent',
    ipOptions: new Uint8Array(),
    transport: ip.subarray(40, 40 + viewOf(ip).getUint16(4)),
  })
}

interface NetworkLayer {
  /** The IP header with what may change set to 0. */
  readonly header: Uint8Array
  readonly src: Uint8Array
  readonly dst: Uint8Array
  readonly ttl: number
  readonly proto: number
  readonly ip: 'ok' | 'wrong' | 'absent'
  readonly ipOptions: Uint8Array
  readonly transport: Uint8Array
}

function decodeTransport(network: NetworkLayer): DecodedPacket {
  const { transport, proto } = network
  if (proto === PROTO_SCTP) return decodeSctp(network)
  if (proto !== PROTO_TCP && proto !== PROTO_UDP) throw new Error(`neither TCP, UDP nor SCTP: protocol ${proto}`)
  const view = viewOf(transport)
  const checksumAt = proto === PROTO_TCP ? 16 : 6
  const transportChecksum = view.getUint16(checksumAt)
  const sum = onesSum(pseudoHeader(network.src, network.dst, proto, transport.length), transport)
  const none = proto === PROTO_UDP && transportChecksum === 0
  const rest = Uint8Array.from(transport)
  rest.fill(0, 0, 4).fill(0, checksumAt, checksumAt + 2)
  return {
    proto: proto === PROTO_TCP ? 'TCP' : 'UDP',
    from: formatEndpoint(textOf(network.src), view.getUint16(0)),
    to: formatEndpoint(textOf(network.dst), view.getUint16(2)),
    ttl: network.ttl,
    flags: proto === PROTO_TCP ? flagLetters(transport[13] ?? 0) : '',
    checksums: { ip: network.ip, transport: none ? 'none' : sum === 0xffff ? 'ok' : 'wrong' },
    transportChecksum,
    ipOptions: network.ipOptions,
    untouched: Buffer.concat([network.header, rest]).toString('hex'),
  }
}

function decodeSctp({ transport, header, src, dst, ttl, ip, ipOptions }: NetworkLayer): DecodedPacket {
  const view = viewOf(transport)
  const transportChecksum = view.getUint32(8, true)
  const right = transportChecksum === sctpChecksum(transport)
  const rest = Uint8Array.from(transport)
  rest.fill(0, 0, 4).fill(0, 8, 12)
  return {
    proto: 'SCTP',
    from: formatEndpoint(textOf(src), view.getUint16(0)),
    to: formatEndpoint(textOf(dst), view.getUint16(2)),
    ttl,
    flags: Object.entries(CHUNKS).find(([, type]) => type === transport[12])?.[0] ?? String(transport[12]),
    checksums: { ip, transport: right ? 'ok' : 'wrong' },
    transportChecksum,
    ipOptions,
    untouched: Buffer.concat([header, rest]).toString('hex'),
  }
}

function flagLetters(bits: number): string {
  return [...'FSRPAU'].filter((_, bit) => bits & (1 << bit)).join('')
}

function textOf(bytes: Uint8Array): ReturnType<typeof addressFromBytes> {
  if (bytes.length === 16) return addressFromBytes(bytes)
  return addressFromBytes(Uint8Array.from([...new Array<number>(10).fill(0), 0xff, 0xff, ...bytes]))
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
