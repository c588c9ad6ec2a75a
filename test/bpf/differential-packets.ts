import { PROTOCOL_NUMBERS } from '../../src/dataplane/ebpf/encode.js'
import { SCTP, TCP, type Tuple, UDP } from '../../src/dataplane/memory/packet.js'
import { type Address, addressToBytes, familyOf } from '../../src/model/address.js'
import type { DesiredState, ServicePort } from '../../src/model/desired.js'
import { sctpChecksum } from './crc32c.js'
import type { Seen } from './differential-node.js'
import type { Random } from './differential-random.js'
import { client } from './differential-state.js'
import { extension, fragmentOf } from './fragments.js'
import { DEVICE_MAC, ETH_LENGTH, onesSum, pseudoHeader } from './packet.js'
import type { DeviceName } from './tc-node.js'

/** A random packet, and where it is seen. */
export interface Shot {
  readonly frame: Uint8Array
  readonly side: Seen['side']
  readonly device: DeviceName
}

/** What later packets refer to: the last ones that were translated, and fragments that are still to come. */
export class Talk {
  readonly #seen: Seen[] = []
  readonly #pending: Shot[] = []

  remember(seen: Seen): void {
    if (seen.answer.becomes?.kind === 'translated') this.#seen.push(seen)
    if (this.#seen.length > MOST_SEEN) this.#seen.splice(0, MOST_SEEN / 2)
  }

  pick(random: Random): Seen | undefined {
    return this.#seen.length === 0 ? undefined : random.pick(this.#seen)
  }

  later(shots: readonly Shot[]): void {
    this.#pending.push(...shots)
    if (this.#pending.length > MOST_PENDING) this.#pending.splice(0, MOST_PENDING / 2)
  }

  /** Mostly in order. */
  next(random: Random): Shot | undefined {
    if (this.#pending.length === 0) return undefined
    return this.#pending.splice(random.once(4) ? random.below(this.#pending.length) : 0, 1)[0]
  }
}

const MOST_SEEN = 64
const MOST_PENDING = 32
const FLAGS = { F: 1, S: 2, R: 4, P: 8, A: 16 } as const
const CLIENT_PORTS = 6
const MAC = DEVICE_MAC.split(':').map(part => Number.parseInt(part, 16))

export function randomShot(random: Random, desired: DesiredState, talk: Talk): Shot {
  const shot = anyShot(random, desired, talk)
  const missing = shortest(shot.frame) - shot.frame.length
  return missing > 0 ? { ...shot, frame: Uint8Array.from([...shot.frame, ...random.bytes(missing)]) } : shot
}

function anyShot(random: Random, desired: DesiredState, talk: Talk): Shot {
  if (random.once(4)) {
    const pending = talk.next(random)
    if (pending) return mutatedOrNot(random, pending)
  }
  const last = talk.pick(random)
  const make = random.weighted<() => Shot>([
    [6, () => toFrontend(random, desired)],
    [last ? 8 : 0, () => oneMore(random, last as Seen)],
    [last ? 8 : 0, () => reply(random, last as Seen)],
    [last ? 4 : 0, () => errorAbout(random, last as Seen)],
    [1, () => ping(random, desired)],
    [1, () => unrelated(random)],
  ])
  const shot = make()
  if (random.once(10)) return fragmented(random, talk, shot)
  return mutatedOrNot(random, shot)
}

function mutatedOrNot(random: Random, shot: Shot): Shot {
  return random.once(4) ? { ...shot, frame: mutated(random, shot.frame) } : shot
}

/** BPF_PROG_TEST_RUN (6.18) refuses an IP packet that is shorter than its header. */
function shortest(frame: Uint8Array): number {
  if (frame[12] === 0x08 && frame[13] === 0x00) return ETH_LENGTH + 20
  return frame[12] === 0x86 && frame[13] === 0xdd ? ETH_LENGTH + 40 : ETH_LENGTH
}

/** A first packet, or the middle of something, to a frontend or beside it. */
function toFrontend(random: Random, desired: DesiredState): Shot {
  const ports = [...desired.services.values()].filter(each => each.frontends.length > 0)
  if (ports.length === 0) return unrelated(random)
  const port: ServicePort = random.pick(ports)
  const { address, port: number } = random.pick(port.frontends)
  const family = familyOf(address)
  const proto = random.once(12) ? random.pick([TCP, UDP, SCTP]) : PROTOCOL_NUMBERS[port.protocol]
  const tuple = {
    src: client(random, family),
    sport: random.once(20) ? number : 40000 + random.below(CLIENT_PORTS),
    dst: address,
    dport: random.once(12) ? random.pick([0, 80, 53, 81, 30000]) : number,
    proto,
  }
  const flags = random.once(8) ? randomFlags(random) : FLAGS.S
  return { frame: build(random, tuple, flags), side: random.once(20) ? 'egress' : 'ingress', device: uplink(random) }
}

/** The client goes on. */
function oneMore(random: Random, { reading, side, device }: Seen): Shot {
  return { frame: build(random, reading.packet.tuple, randomFlags(random)), side, device }
}

/** Whoever got a packet answers it; where the answer is seen follows from whether it is here. */
function reply(random: Random, { out, answer, side, device }: Seen): Shot {
  const { becomes } = answer
  const to = becomes?.kind === 'translated' ? tupleOf(out, becomes.to) : undefined
  if (to === undefined) return unrelated(random)
  const { src, sport, dst, dport, proto } = to
  const tuple = { src: dst, sport: dport, dst: src, dport: sport, proto }
  const here = becomes?.kind === 'translated' && !becomes.routed
  const back = here ? (side === 'ingress' ? 'egress' : 'ingress') : 'ingress'
  return {
    frame: build(random, tuple, random.once(3) ? randomFlags(random) : FLAGS.S | FLAGS.A),
    side: random.once(25) ? random.pick(['ingress', 'egress']) : back,
    device: here ? device : random.pick(['up0', 'up1', 'up3']),
  }
}

/** The tuple of a translated frame: its source port may have been free to choose. */
function tupleOf(out: Uint8Array, to: Tuple): Tuple {
  const v4 = familyOf(to.src) === 'IPv4'
  const at = ETH_LENGTH + (v4 ? ((out[ETH_LENGTH] ?? 0) & 0xf) * 4 : 40)
  // Behind extension headers the port is elsewhere: then the answer is to another one.
  return { ...to, sport: ((out[at] ?? 0) << 8) | (out[at + 1] ?? 0) }
}

/** Type and code, with one that is no error. */
const ERRORS: Readonly<Record<'IPv4' | 'IPv6', readonly (readonly [number, number])[]>> = {
  IPv4: [
    [3, 0],
    [3, 1],
    [3, 3],
    [3, 4],
    [11, 0],
    [12, 0],
    [4, 0],
    [5, 1],
  ],
  IPv6: [
    [1, 0],
    [1, 4],
    [2, 0],
    [3, 0],
    [4, 1],
    [137, 0],
  ],
}

/** A router, or who got it, says that a packet got no further. */
function errorAbout(random: Random, seen: Seen): Shot {
  const { out, answer, side, device, frame } = seen
  const about = random.once(12) ? frame : out
  const v4 = about[12] === 0x08
  const packet = about.subarray(ETH_LENGTH)
  const header = v4 ? ((packet[0] ?? 0) & 0xf) * 4 : 40
  const quote = packet.subarray(
    0,
    random.weighted([
      [2, packet.length],
      [4, header + 8],
      [1, header + 20],
      [1, random.below(packet.length + 1)],
    ]),
  )
  const [src, dst] = [
    v4 ? packet.subarray(12, 16) : packet.subarray(8, 24),
    v4 ? packet.subarray(16, 20) : packet.subarray(24, 40),
  ]
  const from = random.once(2) ? dst : wireOf(client(random, v4 ? 'IPv4' : 'IPv6'))
  const to = random.once(20) ? wireOf(client(random, v4 ? 'IPv4' : 'IPv6')) : src
  const [type, code] = random.pick(v4 ? ERRORS.IPv4 : ERRORS.IPv6)
  const message = new Uint8Array(8 + quote.length + (random.once(8) ? 1 : 0))
  message.set([type, code])
  message[7] = random.below(256)
  message.set(quote, 8)
  const here = answer.becomes?.kind === 'translated' && !answer.becomes.routed
  const back = here ? (side === 'ingress' ? 'egress' : 'ingress') : 'ingress'
  return {
    frame: network(random, from, to, v4 ? 1 : 58, message, 2),
    side: random.once(20) ? random.pick(['ingress', 'egress']) : back,
    device: here ? device : random.pick(['up0', 'up1', 'up3']),
  }
}

function ping(random: Random, desired: DesiredState): Shot {
  const family = random.pick(['IPv4', 'IPv6'] as const)
  const addresses = [...desired.services.values()].flatMap(each => (each.family === family ? each.frontends : []))
  const dst = addresses.length === 0 || random.once(8) ? client(random, family) : random.pick(addresses).address
  const message = new Uint8Array(8 + random.below(64))
  message.set(random.bytes(message.length))
  message.set([
    family === 'IPv4' ? random.pick([8, 8, 8, 0, 13]) : random.pick([128, 128, 128, 129, 135]),
    random.once(8) ? 1 : 0,
  ])
  const frame = network(random, wireOf(client(random, family)), wireOf(dst), family === 'IPv4' ? 1 : 58, message, 2)
  return { frame, side: random.once(10) ? 'egress' : 'ingress', device: uplink(random) }
}

/** No Service's, or not even IP. */
function unrelated(random: Random): Shot {
  const family = random.pick(['IPv4', 'IPv6'] as const)
  const [src, dst] = [client(random, family), client(random, family)]
  const tuple = {
    src,
    sport: 1 + random.below(5),
    dst,
    dport: random.pick([80, 443]),
    proto: random.pick([TCP, UDP, SCTP]),
  }
  const frame = build(random, tuple, randomFlags(random))
  if (random.once(6))
    frame.set(
      random.pick([
        [0x08, 0x06],
        [0x81, 0x00],
        [0x88, 0xcc],
        [0x86, 0xdd],
      ]),
      12,
    )
  if (random.once(6)) frame[ETH_LENGTH + (family === 'IPv4' ? 9 : 6)] = random.pick([132, 47, 58, 1, 4, 59, 43])
  return { frame, side: random.pick(['ingress', 'egress']), device: uplink(random) }
}

function uplink(random: Random): DeviceName {
  return random.weighted([
    [12, 'up0'],
    [2, 'up1'],
    [1, 'up2'],
    [1, 'up3'],
  ] as const)
}

function randomFlags(random: Random): number {
  return random.weighted([
    [6, FLAGS.A],
    [3, FLAGS.P | FLAGS.A],
    [3, FLAGS.S],
    [2, FLAGS.F | FLAGS.A],
    [1, FLAGS.R],
    [1, FLAGS.R | FLAGS.A],
    [1, FLAGS.S | FLAGS.A],
    [1, random.below(64)],
  ] as const)
}

/** Some of its fragments now, some later, some never, in any order. */
function fragmented(random: Random, talk: Talk, shot: Shot): Shot {
  const { frame } = shot
  const v4 = frame[12] === 0x08
  const header = ETH_LENGTH + (v4 ? 20 : 40)
  if ((v4 && ((frame[ETH_LENGTH] ?? 0) & 0xf) !== 5) || (!v4 && isExtension(frame[ETH_LENGTH + 6]))) return shot
  const payload = frame.subarray(header)
  const size = 8 * Math.ceil(payload.length / 8 / (1 + random.below(4)))
  const id = random.below(4)
  const parts: Shot[] = []
  for (let at = 0; at < payload.length && size > 0; at += size) {
    const offset = random.once(20) ? Math.max(0, at - 8) : at
    const part = payload.subarray(at, at + size)
    parts.push({ ...shot, frame: fragmentOf(frame, part, offset, at + size < payload.length, id) })
  }
  const kept = parts.filter(() => !random.once(12))
  // Mostly in order, so that most datagrams arrive.
  const first = random.once(3) ? random.pick(kept.length > 0 ? kept : [shot]) : (kept[0] ?? shot)
  talk.later(kept.filter(part => part !== first))
  return first
}

function isExtension(next: number | undefined): boolean {
  return next !== TCP && next !== UDP && next !== SCTP && next !== 58
}

/** Bytes overwritten, cut off or added; the headers suffer most. */
function mutated(random: Random, frame: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(frame)
  const times = random.weighted([
    [6, 1],
    [2, 2],
    [1, 4],
    [1, 0],
  ] as const)
  for (let i = 0; i < times; i++) {
    const at = random.weighted([
      [1, random.below(ETH_LENGTH)],
      [8, ETH_LENGTH + random.below(64)],
      [1, random.below(copy.length)],
    ] as const)
    if (at < copy.length) copy[at] = random.once(2) ? random.next() : (copy[at] ?? 0) ^ (1 << random.below(8))
  }
  if (random.once(6)) return copy.slice(0, Math.max(ETH_LENGTH, random.below(copy.length + 1)))
  if (random.once(12)) return Uint8Array.from([...copy, ...random.bytes(random.below(20))])
  return copy
}

const wire = new Map<Address, Uint8Array>()

function wireOf(address: Address): Uint8Array {
  const known = wire.get(address)
  if (known) return known
  const bytes = addressToBytes(address)
  const short = familyOf(address) === 'IPv4' ? bytes.slice(12) : bytes
  wire.set(address, short)
  return short
}

function build(random: Random, tuple: Tuple, flags: number): Uint8Array {
  const size = random.weighted([
    [6, 0],
    [6, random.below(64)],
    [1, 1100 + random.below(300)],
  ] as const)
  const payload = random.bytes(Math.min(size, 64))
  if (tuple.proto === SCTP) return buildSctp(random, tuple, flags, size, payload)
  const tcp = tuple.proto === TCP
  const options = tcp && random.once(6) ? 4 * random.below(4) : 0
  const header = tcp ? 20 + options : 8
  const segment = new Uint8Array(header + size)
  const view = new DataView(segment.buffer)
  view.setUint16(0, tuple.sport)
  view.setUint16(2, tuple.dport)
  if (tcp) {
    view.setUint32(4, random.next())
    view.setUint32(8, random.next())
    segment[12] = (header / 4) << 4
    segment[13] = flags
    view.setUint16(14, 64240)
  } else view.setUint16(4, segment.length)
  segment.set(payload, header)
  return network(random, wireOf(tuple.src), wireOf(tuple.dst), tuple.proto, segment, tcp ? 16 : 6)
}

/** A packet with one chunk, which says what `flags` say of TCP. */
function buildSctp(random: Random, tuple: Tuple, flags: number, size: number, payload: Uint8Array): Uint8Array {
  const segment = new Uint8Array(16 + size)
  const view = new DataView(segment.buffer)
  view.setUint16(0, tuple.sport)
  view.setUint16(2, tuple.dport)
  view.setUint32(4, random.next())
  segment[12] = chunkOf(random, flags)
  view.setUint16(14, 4 + size)
  segment.set(payload, 16)
  // Left to the device, it seems.
  if (!random.once(12)) view.setUint32(8, random.once(12) ? random.next() : sctpChecksum(segment), true)
  return network(random, wireOf(tuple.src), wireOf(tuple.dst), SCTP, segment, undefined)
}

/** The type of a chunk (RFC 9260 3.2). */
function chunkOf(random: Random, flags: number): number {
  if (flags & FLAGS.S) return flags & FLAGS.A ? 2 : 1
  if (flags & FLAGS.R) return random.pick([6, 14])
  if (flags & FLAGS.F) return random.pick([7, 8])
  return random.pick([0, 0, 3, 4, 10, 11, 192])
}

/** The packet around a segment, its checksum put at `checksumAt` if it is not there; now and then with options, extension headers, padding. */
function network(
  random: Random,
  src: Uint8Array,
  dst: Uint8Array,
  proto: number,
  segment: Uint8Array,
  checksumAt: number | undefined,
): Uint8Array {
  if (checksumAt !== undefined) putChecksum(random, src, dst, proto, segment, checksumAt)
  const v4 = src.length === 4
  const between = random.once(10)
    ? v4
      ? ipv4Options(random)
      : extensions(random, proto)
    : { bytes: NOTHING, next: proto }
  const ip = v4 ? 20 : 40
  const length = ip + between.bytes.length + segment.length
  const padding = random.once(20) ? random.below(12) : 0
  const frame = new Uint8Array(ETH_LENGTH + length + padding)
  const view = new DataView(frame.buffer)
  frame.set(MAC)
  frame[11] = 0x99
  view.setUint16(12, v4 ? 0x0800 : 0x86dd)
  const ttl = random.once(12) ? random.below(4) : 64
  if (v4) {
    frame[ETH_LENGTH] = 0x40 | ((ip + between.bytes.length) / 4)
    frame[ETH_LENGTH + 1] = 2
    view.setUint16(ETH_LENGTH + 2, length)
    view.setUint16(ETH_LENGTH + 4, random.below(4))
    view.setUint16(ETH_LENGTH + 6, 0x4000)
    frame[ETH_LENGTH + 8] = ttl
    frame[ETH_LENGTH + 9] = proto
    frame.set(src, ETH_LENGTH + 12)
    frame.set(dst, ETH_LENGTH + 16)
  } else {
    view.setUint32(ETH_LENGTH, 0x6030_1234)
    view.setUint16(ETH_LENGTH + 4, length - ip)
    frame[ETH_LENGTH + 6] = between.next
    frame[ETH_LENGTH + 7] = ttl
    frame.set(src, ETH_LENGTH + 8)
    frame.set(dst, ETH_LENGTH + 24)
  }
  frame.set(between.bytes, ETH_LENGTH + ip)
  frame.set(segment, ETH_LENGTH + ip + between.bytes.length)
  if (v4)
    view.setUint16(
      ETH_LENGTH + 10,
      ~onesSum(frame.subarray(ETH_LENGTH, ETH_LENGTH + ip + between.bytes.length)) & 0xffff,
    )
  return frame
}

const NOTHING = new Uint8Array()

function putChecksum(
  random: Random,
  src: Uint8Array,
  dst: Uint8Array,
  proto: number,
  segment: Uint8Array,
  at: number,
): void {
  if (at + 2 > segment.length) return
  const view = new DataView(segment.buffer, segment.byteOffset)
  view.setUint16(at, 0)
  // None at all, in UDP.
  if (random.once(12)) return
  const pseudo = proto === 1 ? NOTHING : pseudoHeader(src, dst, proto, segment.length)
  const right = ~onesSum(pseudo, segment) & 0xffff
  view.setUint16(at, random.once(12) ? random.next() & 0xffff : right === 0 && proto === UDP ? 0xffff : right)
}

/** No operation, a record of routes, a timestamp, source routes; or anything. */
function ipv4Options(random: Random): { bytes: Uint8Array; next: number } {
  const bytes = random.pick([
    [1, 1, 1, 0],
    [7, 7, 4, 0, 0, 0, 0, 0],
    [131, 7, 4, 10, 0, 2, 5, 0],
    [137, 3, 4, 1],
    [1, 1, 68, 4, 5, 0, 0, 0],
    [...random.bytes(4 * (1 + random.below(10)))],
  ])
  return { bytes: Uint8Array.from(bytes), next: 0 }
}

/** A chain of headers that leads to `proto`. */
function extensions(random: Random, proto: number): { bytes: Uint8Array; next: number } {
  let bytes: Uint8Array = NOTHING
  let next = proto
  for (
    let i = random.weighted([
      [6, 1],
      [2, 2],
      [1, 9],
    ] as const);
    i > 0;
    i--
  ) {
    const kind = random.pick([0, 60, 43, 51, 44])
    const header = extension(next, { ah: kind === 51, size: 8 * (1 + random.below(3)) })
    if (kind === 43) header.fill(0, 2)
    if (kind === 43 && random.once(3)) header[3] = 1
    bytes = Uint8Array.from([...(kind === 44 ? [next, 0, 0, 0, 0, 0, 0, 1] : header), ...bytes])
    next = kind
  }
  return { bytes, next }
}
