import {
  type Defect,
  type Icmp,
  type Packet,
  SCTP,
  TCP,
  TcpFlag,
  type Tuple,
  UDP,
} from '../../src/dataplane/memory/packet.js'
import { type Address, addressFromBytes } from '../../src/model/address.js'
import { DEVICE_MAC, ETH_LENGTH } from './packet.js'

/** What the bytes of a frame say: the reference's packet, and where its parts are. */
export interface Reading {
  readonly packet: Packet
  /** Offset of the TCP, UDP, SCTP or ICMP header; 0 when it was not found, and in a later fragment. */
  readonly l4: number
  /** Offset behind the IP packet. */
  readonly end: number
  /** Of the packet that an ICMP error quotes: offsets of its IP header and of what follows. */
  readonly quote: { readonly ip: number; readonly l4: number } | undefined
}

const ICMP = { IPv4: 1, IPv6: 58 } as const
/** Bytes of a header that has to be there; of SCTP with that of its first chunk. */
const HEADERS: Readonly<Record<number, number>> = { [TCP]: 20, [UDP]: 8, [SCTP]: 16 }
/** IPv6 extension headers that are walked (RFC 8200, RFC 4302). */
const HOP_BY_HOP = 0
const ROUTING = 43
const FRAGMENT = 44
const AH = 51
const DESTINATION = 60
const EXTENSIONS: readonly number[] = [HOP_BY_HOP, ROUTING, FRAGMENT, AH, DESTINATION]
const MOST_EXTENSIONS = 8

const ANY = '0.0.0.0' as Address
const NO_TUPLE: Tuple = { src: ANY, sport: 0, dst: ANY, dport: 0, proto: 0 }
const HOST_MAC = DEVICE_MAC.split(':').map(part => Number.parseInt(part, 16))

/** What is being found out, in the order of the headers; each step says why it goes no further. */
class Reader {
  readonly frame: Uint8Array
  readonly family: 'IPv4' | 'IPv6'
  tuple: Tuple = NO_TUPLE
  ttl = 0
  tcpFlags = 0
  fragment: Packet['fragment']
  more = false
  icmp: Icmp | undefined
  defect: Defect | undefined
  l4 = 0
  end = 0
  quote: Reading['quote']

  constructor(frame: Uint8Array, family: 'IPv4' | 'IPv6') {
    this.frame = frame
    this.family = family
  }

  byte(at: number): number {
    return this.frame[at] ?? 0
  }

  word(at: number): number {
    return (this.byte(at) << 8) | this.byte(at + 1)
  }

  /** It is read no further, and must not pass if it is a Service's. */
  broken(defect: Defect): Defect {
    this.defect = defect
    return defect
  }
}

export function read(frame: Uint8Array): Reading {
  const type = ((frame[12] ?? 0) << 8) | (frame[13] ?? 0)
  const r = new Reader(frame, type === 0x86dd ? 'IPv6' : 'IPv4')
  const left = type === 0x0800 ? readIpv4(r) : type === 0x86dd ? readIpv6(r) : 'not_handled'
  const { tuple, family, ttl, tcpFlags, fragment, icmp, defect, l4, end, quote } = r
  const forHost = HOST_MAC.every((byte, i) => frame[i] === byte)
  const size = frame.length - ETH_LENGTH
  const packet = { tuple, family, forHost, ttl, size, frameSize: frame.length, tcpFlags, fragment, icmp, left, defect }
  return { packet, l4, end, quote }
}

function readIpv4(r: Reader): Packet['left'] {
  const ip = ETH_LENGTH
  const header = (r.byte(ip) & 0xf) * 4
  const total = r.word(ip + 2)
  if (r.frame.length < ip + 20 || r.byte(ip) >> 4 !== 4) return 'malformed'
  if (header < 20 || total < header || ip + total > r.frame.length) return 'malformed'
  const proto = r.byte(ip + 9)
  if (!(proto in HEADERS) && proto !== ICMP.IPv4) return 'not_handled'
  r.tuple = { src: ipv4At(r.frame, ip + 12), sport: 0, dst: ipv4At(r.frame, ip + 16), dport: 0, proto }
  r.ttl = r.byte(ip + 8)
  r.end = ip + total
  const word = r.word(ip + 6)
  r.more = (word & 0x2000) !== 0
  const offset = (word & 0x1fff) * 8
  if (r.more || offset > 0) r.fragment = { id: r.word(ip + 4), offset, size: total - header }
  r.defect = ipv4Options(r, ip + 20, ip + header)
  if (r.defect === 'malformed') return 'malformed'
  return readRest(r, ip + header)
}

/** RFC 791 3.1: source routes, and lengths that cannot be. */
function ipv4Options(r: Reader, from: number, end: number): Defect | undefined {
  for (let at = from; at < end; ) {
    const type = r.byte(at)
    if (type === 0) return undefined
    if (type === 1) {
      at++
      continue
    }
    const length = r.byte(at + 1)
    if (length < 2 || at + length > end) return 'malformed'
    if (type === 131 || type === 137) return 'source_route'
    at += length
  }
  return undefined
}

function readIpv6(r: Reader): Packet['left'] {
  const ip = ETH_LENGTH
  if (r.frame.length < ip + 40 || r.byte(ip) >> 4 !== 6) return 'malformed'
  r.end = ip + 40 + r.word(ip + 4)
  if (r.end > r.frame.length) return 'malformed'
  const next = r.byte(ip + 6)
  if (!(next in HEADERS) && next !== ICMP.IPv6 && !EXTENSIONS.includes(next)) return 'not_handled'
  // IPv4-mapped addresses are no IPv6 packet's.
  if (isMapped(r.frame, ip + 8) || isMapped(r.frame, ip + 24)) return 'not_handled'
  r.tuple = { src: ipv6At(r.frame, ip + 8), sport: 0, dst: ipv6At(r.frame, ip + 24), dport: 0, proto: next }
  r.ttl = r.byte(ip + 7)
  return walkExtensions(r, ip + 40, next)
}

function walkExtensions(r: Reader, from: number, first: number): Packet['left'] {
  let at = from
  let next = first
  let fragmentAt = 0
  for (let walked = 0; EXTENSIONS.includes(next); walked++) {
    if (walked === MOST_EXTENSIONS) return r.broken('extension_headers')
    if (at + 8 > r.end) return r.broken('malformed')
    const type = next
    next = r.byte(at)
    if (type === FRAGMENT) {
      if (fragmentAt) return r.broken('bad_fragment')
      fragmentAt = at
      const word = r.word(at + 2)
      r.more = (word & 1) !== 0
      const offset = word & 0xfff8
      const size = r.end - at - 8
      const id = ((r.word(at + 4) << 16) | r.word(at + 6)) >>> 0
      if (r.more || offset > 0) r.fragment = { id, offset, size }
      at += 8
      if (offset > 0) {
        r.tuple = { ...r.tuple, proto: 0 }
        return undefined
      }
    } else if (type === AH) at += (r.byte(at + 1) + 2) * 4
    else {
      if (type === ROUTING && r.byte(at + 3) !== 0) r.defect = 'source_route'
      at += (r.byte(at + 1) + 1) * 8
    }
  }
  r.tuple = { ...r.tuple, proto: next }
  if (!(next in HEADERS) && next !== ICMP.IPv6) return 'not_handled'
  return readRest(r, at)
}

function readRest(r: Reader, at: number): Packet['left'] {
  const { proto } = r.tuple
  if (proto === ICMP[r.family]) {
    if (r.fragment) return 'not_handled'
    r.l4 = at
    r.icmp = readIcmp(r)
    return undefined
  }
  const header = HEADERS[proto]
  if (header === undefined) return 'not_handled'
  if (r.fragment && r.fragment.offset > 0) return undefined
  r.l4 = at
  if (at + header > r.end) {
    // The ports may be there and the rest not: one piece would be judged, another translated (RFC 1858).
    if (!r.fragment || at + 4 > r.end) return r.broken('malformed')
    readPorts(r)
    r.defect = 'bad_fragment'
    return undefined
  }
  readPorts(r)
  if (proto === SCTP) return readSctp(r, at)
  return proto === TCP ? readTcp(r, at) : readUdp(r, at)
}

function readTcp(r: Reader, at: number): Packet['left'] {
  const header = (r.byte(at + 12) >> 4) * 4
  if (header < 20) return r.broken('malformed')
  // Its options may be in the next fragment, where nobody looks.
  if (at + header > r.end) r.defect = r.fragment ? 'bad_fragment' : 'malformed'
  r.tcpFlags = r.byte(at + 13)
  return undefined
}

function readUdp(r: Reader, at: number): Packet['left'] {
  const length = r.word(at + 4)
  // In IPv6 a length of 0 says that it is too large for the field (RFC 2675 4).
  const tooShort = length < 8 && (r.family === 'IPv4' || length > 0)
  if (tooShort || (!r.fragment && at + length > r.end)) r.defect = 'malformed'
  if (r.family === 'IPv6' && r.word(at + 6) === 0) r.defect = 'malformed'
  return undefined
}

/** Types of chunks (RFC 9260 3.2) in the words of TCP. */
const CHUNKS: Readonly<Record<number, number>> = {
  1: TcpFlag.SYN,
  2: TcpFlag.SYN | TcpFlag.ACK,
  6: TcpFlag.RST,
  7: TcpFlag.FIN,
  8: TcpFlag.FIN,
  14: TcpFlag.RST,
}

function readSctp(r: Reader, at: number): Packet['left'] {
  r.tcpFlags = CHUNKS[r.byte(at + 12)] ?? TcpFlag.ACK
  return undefined
}

function readPorts(r: Reader): void {
  r.tuple = { ...r.tuple, sport: r.word(r.l4), dport: r.word(r.l4 + 2) }
}

function readIcmp(r: Reader): Icmp {
  if (r.l4 + 8 > r.end) return { kind: 'error', quote: undefined, left: 'malformed' }
  const type = r.byte(r.l4)
  const echo = r.family === 'IPv4' ? 8 : 128
  if (type === echo && r.byte(r.l4 + 1) === 0) return { kind: 'echo request' }
  const errors = r.family === 'IPv4' ? [3, 4, 11, 12] : [1, 2, 3, 4]
  return errors.includes(type) ? readQuote(r) : { kind: 'other' }
}

function readQuote(r: Reader): Icmp {
  const left = (why: 'malformed' | 'fragment' | 'not_handled'): Icmp => ({ kind: 'error', quote: undefined, left: why })
  const ip = r.l4 + 8
  const v4 = r.family === 'IPv4'
  if (ip + (v4 ? 20 : 40) > r.frame.length || r.byte(ip) >> 4 !== (v4 ? 4 : 6)) return left('malformed')
  const header = v4 ? (r.byte(ip) & 0xf) * 4 : 40
  if (header < 20) return left('malformed')
  if (v4 && r.word(ip + 6) & 0x1fff) return left('fragment')
  const proto = r.byte(ip + (v4 ? 9 : 6))
  if (!(proto in HEADERS)) return left('not_handled')
  const l4 = ip + header
  if (l4 + 8 > r.end) return left('malformed')
  r.quote = { ip, l4 }
  const address = (at: number) => (v4 ? ipv4At(r.frame, ip + 12 + at * 4) : ipv6At(r.frame, ip + 8 + at * 16))
  return {
    kind: 'error',
    quote: { src: address(0), sport: r.word(l4), dst: address(1), dport: r.word(l4 + 2), proto },
  }
}

function isMapped(frame: Uint8Array, at: number): boolean {
  for (let i = 0; i < 10; i++) if (frame[at + i] !== 0) return false
  return frame[at + 10] === 0xff && frame[at + 11] === 0xff
}

export function ipv4At(frame: Uint8Array, at: number): Address {
  return `${frame[at]}.${frame[at + 1]}.${frame[at + 2]}.${frame[at + 3]}` as Address
}

const texts = new Map<string, Address>()

export function ipv6At(frame: Uint8Array, at: number): Address {
  const bytes = frame.subarray(at, at + 16)
  const key = Buffer.from(bytes.buffer, bytes.byteOffset, 16).toString('latin1')
  const known = texts.get(key)
  if (known !== undefined) return known
  const text = addressFromBytes(bytes)
  if (texts.size > 10_000) texts.clear()
  texts.set(key, text)
  return text
}
