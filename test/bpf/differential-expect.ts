import type { Becomes } from '../../src/dataplane/memory/answer.js'
import { type Packet, SCTP, TCP, type Tuple, UDP } from '../../src/dataplane/memory/packet.js'
import { type Address, addressToBytes, familyOf } from '../../src/model/address.js'
import { sctpChecksum } from './crc32c.js'
import type { Reading } from './differential-read.js'
import { ETH_LENGTH, onesSum, pseudoHeader } from './packet.js'

/** A frame as it has to look, and the checksum fields that have two forms of zero. */
export interface Expected {
  readonly bytes: Uint8Array
  /** Offsets of checksums that are 0 here and may be 0xffff as well. */
  readonly zeros: readonly number[]
}

/** Bytes of a quote in errors that are made here (RFC 1812 4.3.2.3, RFC 4443 2.4c). */
const QUOTE = { IPv4: 576 - 28, IPv6: 1280 - 48 } as const
const TTL = 64

/** What a frame has to become. `to` is its tuple then, for what is translated. */
export function expected(frame: Uint8Array, reading: Reading, becomes: Becomes, to: Tuple): Expected {
  switch (becomes.kind) {
    case 'translated':
      return translated(frame, reading, to, becomes.routed)
    case 'error':
      return error(frame, reading, becomes)
    case 'reset':
      return reset(frame, reading)
    case 'refusal':
      return refusal(frame, reading, becomes)
    case 'echo reply':
      return echoReply(frame, reading)
    case 'again':
      throw new Error('nothing is seen of it')
  }
}

export function sameFrame(seen: Uint8Array, { bytes, zeros }: Expected): boolean {
  if (seen.length !== bytes.length) return false
  for (let i = 0; i < bytes.length; i++) {
    if (seen[i] === bytes[i]) continue
    if (seen[i] !== 0xff || !zeros.some(at => i === at || i === at + 1)) return false
  }
  return zeros.every(at => seen[at] === seen[at + 1])
}

/** A frame that is changed word by word, with the checksums that are to follow. */
class Change {
  readonly bytes: Uint8Array
  readonly zeros: number[] = []
  readonly #view: DataView

  constructor(frame: Uint8Array) {
    this.bytes = Uint8Array.from(frame)
    this.#view = new DataView(this.bytes.buffer)
  }

  word(at: number): number {
    return this.#view.getUint16(at)
  }

  /** Writes bytes at an even offset within the packet; returns what that takes from a sum of its words. */
  put(at: number, bytes: Uint8Array): number {
    let diff = 0
    for (let i = 0; i < bytes.length; i += 2) {
      const next = ((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0)
      diff += this.word(at + i) - next
      this.#view.setUint16(at + i, next)
    }
    return diff
  }

  putWord(at: number, next: number): number {
    const diff = this.word(at) - next
    this.#view.setUint16(at, next)
    return diff
  }

  /**
   * A checksum after the words it covers lost `diff`: one that was right stays right, one
   * that was wrong stays as wrong (RFC 1624). Returns what that takes from the sum over it.
   */
  follow(at: number, diff: number, neverZero = false): number {
    const next = (((this.word(at) + diff) % 0xffff) + 0xffff) % 0xffff
    if (next === 0 && !neverZero) this.zeros.push(at)
    return this.putWord(at, next === 0 && neverZero ? 0xffff : next)
  }
}

const wire = new Map<Address, Uint8Array>()

function wireOf(address: Address): Uint8Array {
  const known = wire.get(address)
  if (known) return known
  const bytes = addressToBytes(address)
  const short = familyOf(address) === 'IPv4' ? bytes.slice(12) : bytes
  if (wire.size > 10_000) wire.clear()
  wire.set(address, short)
  return short
}

/** Addresses, and what follows from them in the IP header at `ip`; returns the difference they make. */
function putAddresses(change: Change, family: Packet['family'], ip: number, src: Address, dst: Address): number {
  const at = ip + (family === 'IPv4' ? 12 : 8)
  const size = family === 'IPv4' ? 4 : 16
  const diff = change.put(at, wireOf(src)) + change.put(at + size, wireOf(dst))
  if (family === 'IPv4') change.follow(ip + 10, diff)
  return diff
}

function lowerTtl(change: Change, family: Packet['family']): void {
  if (family === 'IPv6') change.bytes[ETH_LENGTH + 7] = (change.bytes[ETH_LENGTH + 7] ?? 0) - 1
  else change.follow(ETH_LENGTH + 10, change.putWord(ETH_LENGTH + 8, change.word(ETH_LENGTH + 8) - 0x100))
}

function translated(frame: Uint8Array, { packet, l4, end }: Reading, to: Tuple, routed: boolean): Expected {
  const change = new Change(frame)
  if (routed) lowerTtl(change, packet.family)
  const addresses = putAddresses(change, packet.family, ETH_LENGTH, to.src, to.dst)
  // A later fragment has no transport header.
  if (l4 !== 0 && to.proto === SCTP) putSctpPorts(change, frame, l4, end, to)
  else if (l4 !== 0) {
    const ports = change.putWord(l4, to.sport) + change.putWord(l4 + 2, to.dport)
    const at = l4 + (to.proto === TCP ? 16 : 6)
    // In UDP zero means none, and a zero that is meant is written as its other form (RFC 768).
    if (to.proto === TCP) change.follow(at, addresses + ports)
    else if (change.word(at) !== 0) change.follow(at, addresses + ports, true)
  }
  return settled(change)
}

/** The checksum covers the ports and no address; it becomes as right, or as wrong, as it was. */
function putSctpPorts({ bytes }: Change, frame: Uint8Array, l4: number, end: number, to: Tuple): void {
  const view = new DataView(bytes.buffer, l4, end - l4)
  view.setUint16(0, to.sport)
  view.setUint16(2, to.dport)
  if (view.getUint32(0) === new DataView(frame.buffer, frame.byteOffset + l4).getUint32(0)) return
  const difference = sctpChecksum(frame.subarray(l4, end)) ^ sctpChecksum(bytes.subarray(l4, end))
  view.setUint32(8, view.getUint32(8, true) ^ difference, true)
}

/** A checksum that is 0 when all is done may have its other form. */
function settled({ bytes, zeros }: Change): Expected {
  return { bytes, zeros: [...new Set(zeros)].filter(at => bytes[at] === 0 && bytes[at + 1] === 0) }
}

function error(
  frame: Uint8Array,
  { packet, l4, end, quote }: Reading,
  to: Extract<Becomes, { kind: 'error' }>,
): Expected {
  if (!quote) throw new Error('an error without a quote was translated')
  const change = new Change(frame)
  const { family } = packet
  if (to.routed) lowerTtl(change, family)
  const outer = putAddresses(change, family, ETH_LENGTH, to.src, to.dst)
  const addresses = putAddresses(change, family, quote.ip, to.quote.src, to.quote.dst)
  const ports = change.putWord(quote.l4, to.quote.sport) + change.putWord(quote.l4 + 2, to.quote.dport)
  // In IPv4 the header's checksum levels out its addresses.
  let diff = ports + (family === 'IPv6' ? addresses + outer : 0)
  const udp = to.quote.proto === UDP
  const at = quote.l4 + (udp ? 6 : 16)
  const sctp = to.quote.proto === SCTP
  if (!sctp && at + 2 <= end && !(udp && change.word(at) === 0)) diff += change.follow(at, addresses + ports, udp)
  change.follow(l4 + 2, diff)
  return settled(change)
}

/** RFC 9293 3.5.2: the reset for a SYN acknowledges it and the data in it. */
function reset(frame: Uint8Array, { packet, l4, end }: Reading): Expected {
  const { tuple } = packet
  const from = new DataView(frame.buffer, frame.byteOffset)
  const tcp = new Uint8Array(20)
  const view = new DataView(tcp.buffer)
  view.setUint16(0, tuple.dport)
  view.setUint16(2, tuple.sport)
  view.setUint32(8, (from.getUint32(l4 + 4) + 1 + end - l4 - ((frame[l4 + 12] ?? 0) >> 4) * 4) >>> 0)
  tcp[12] = 5 << 4
  tcp[13] = 0x14
  const [src, dst] = [wireOf(tuple.dst), wireOf(tuple.src)]
  view.setUint16(16, ~onesSum(pseudoHeader(src, dst, TCP, 20), tcp) & 0xffff)
  return made(frame, packet.family, src, dst, TCP, tcp)
}

function refusal(frame: Uint8Array, { packet, end }: Reading, answer: Extract<Becomes, { kind: 'refusal' }>): Expected {
  const { family, tuple } = packet
  const v4 = family === 'IPv4'
  const quote = frame.subarray(ETH_LENGTH, Math.min(end, ETH_LENGTH + QUOTE[family]))
  const message = new Uint8Array(8 + quote.length)
  const kinds = v4
    ? { 'port unreachable': [3, 3], 'time exceeded': [11, 0], 'too big': [3, 4] }
    : { 'port unreachable': [1, 4], 'time exceeded': [3, 0], 'too big': [2, 0] }
  message.set(kinds[answer.what])
  message.set(quote, 8)
  const view = new DataView(message.buffer)
  view.setUint32(4, answer.mtu)
  const [src, dst] = [wireOf(answer.src), wireOf(tuple.src)]
  const pseudo = v4 ? new Uint8Array() : pseudoHeader(src, dst, 58, message.length)
  view.setUint16(2, ~onesSum(pseudo, message) & 0xffff)
  return made(frame, family, src, dst, v4 ? 1 : 58, message)
}

/** Of the request all behind the type stays, padding too; options go. */
function echoReply(frame: Uint8Array, { packet, l4, end }: Reading): Expected {
  const { family, tuple } = packet
  const change = new Change(frame)
  const reply = family === 'IPv4' ? 0 : 129
  change.follow(l4 + 2, change.putWord(l4, (reply << 8) | (change.bytes[l4 + 1] ?? 0)))
  const { bytes } = made(
    frame,
    family,
    wireOf(tuple.dst),
    wireOf(tuple.src),
    family === 'IPv4' ? 1 : 58,
    change.bytes.subarray(l4, end),
  )
  const moved = ETH_LENGTH + (family === 'IPv4' ? 20 : 40) - l4
  return { bytes: concat(bytes, frame.subarray(end)), zeros: settled(change).zeros.map(at => at + moved) }
}

/** A packet with a fresh IP header behind the Ethernet header of `frame`. */
function made(
  frame: Uint8Array,
  family: Packet['family'],
  src: Uint8Array,
  dst: Uint8Array,
  proto: number,
  payload: Uint8Array,
): Expected {
  const header = new Uint8Array(family === 'IPv4' ? 20 : 40)
  const view = new DataView(header.buffer)
  if (family === 'IPv4') {
    view.setUint16(0, 0x4500)
    view.setUint16(2, 20 + payload.length)
    view.setUint16(6, 0x4000)
    header[8] = TTL
    header[9] = proto
    header.set(src, 12)
    header.set(dst, 16)
    view.setUint16(10, ~onesSum(header) & 0xffff)
  } else {
    view.setUint16(0, 0x6000)
    view.setUint16(4, payload.length)
    header[6] = proto
    header[7] = TTL
    header.set(src, 8)
    header.set(dst, 24)
  }
  return { bytes: concat(frame.subarray(0, ETH_LENGTH), header, payload), zeros: [] }
}

function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** Whether the transport checksum of a whole TCP, UDP or SCTP packet is right; undefined where there is none to see. */
export function checksumIsRight(frame: Uint8Array, { packet, l4, end }: Reading): boolean | undefined {
  const { tuple, fragment, icmp, left, defect } = packet
  if (left || defect || fragment || icmp) return undefined
  const data = frame.subarray(l4, end)
  if (tuple.proto === SCTP)
    return new DataView(frame.buffer, frame.byteOffset + l4).getUint32(8, true) === sctpChecksum(data)
  if (tuple.proto === UDP && data[6] === 0 && data[7] === 0) return undefined
  const pseudo = pseudoHeader(wireOf(tuple.src), wireOf(tuple.dst), tuple.proto, data.length)
  return onesSum(pseudo, data) === 0xffff
}
