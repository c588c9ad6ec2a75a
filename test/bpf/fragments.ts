import { ETH_LENGTH, onesSum } from './packet.js'

/** Length of the IPv6 fragment header (RFC 8200 4.5). */
const FRAGMENT_HEADER = 8
const NEXT_FRAGMENT = 44

/** Splits a frame into IP fragments with at most `size` bytes of its payload in each; `size` is a multiple of 8. */
export function split(frame: Uint8Array, size: number, id = 0x1234): Uint8Array[] {
  const ipv6 = isIpv6(frame)
  const header = frame.subarray(0, ETH_LENGTH + (ipv6 ? 40 : 20))
  const payload = frame.subarray(header.length)
  return Array.from({ length: Math.ceil(payload.length / size) }, (_, i) => {
    const part = payload.subarray(i * size, (i + 1) * size)
    const more = (i + 1) * size < payload.length
    return ipv6 ? fragment6(header, part, i * size, more, id) : fragment4(header, part, i * size, more, id)
  })
}

/** One fragment with the header of `frame` and `part` as its data, at an offset in bytes. */
export function fragmentOf(
  frame: Uint8Array,
  part: Uint8Array,
  offset: number,
  more: boolean,
  id = 0x1234,
): Uint8Array {
  const ipv6 = isIpv6(frame)
  const header = frame.subarray(0, ETH_LENGTH + (ipv6 ? 40 : 20))
  return ipv6 ? fragment6(header, part, offset, more, id) : fragment4(header, part, offset, more, id)
}

/** The whole frame again; throws when the fragments differ in their addresses or leave a hole. */
export function reassemble(frames: readonly Uint8Array[]): Uint8Array {
  const parts = frames.map(read).sort((a, b) => a.offset - b.offset)
  const [first] = parts
  if (!first) throw new Error('no fragments')
  let end = 0
  for (const part of parts) {
    if (part.addresses !== first.addresses) throw new Error('fragments of two datagrams')
    if (part.offset !== end) throw new Error(`hole or overlap at ${end}`)
    end += part.data.length
  }
  const header = Uint8Array.from(first.header)
  const view = new DataView(header.buffer)
  if (isIpv6(header)) {
    view.setUint16(ETH_LENGTH + 4, end)
    header[ETH_LENGTH + 6] = first.proto
  } else {
    view.setUint16(ETH_LENGTH + 2, 20 + end)
    view.setUint16(ETH_LENGTH + 6, 0)
    putIpv4Checksum(header)
  }
  return Uint8Array.from([...header, ...parts.flatMap(part => [...part.data])])
}

/** Bytes of an IPv6 extension header that leads to `next`; AH counts its length in another unit. */
export function extension(next: number, { ah = false, size = 8 } = {}): Uint8Array {
  const bytes = new Uint8Array(size)
  bytes[0] = next
  bytes[1] = ah ? size / 4 - 2 : size / 8 - 1
  // A PadN option over the rest, for those that hold options.
  if (!ah) {
    bytes[2] = 1
    bytes[3] = size - 4
  }
  return bytes
}

interface Fragment {
  readonly header: Uint8Array
  readonly addresses: string
  readonly offset: number
  readonly data: Uint8Array
  readonly proto: number
}

function read(frame: Uint8Array): Fragment {
  const view = new DataView(frame.buffer, frame.byteOffset)
  if (isIpv6(frame)) {
    const at = ETH_LENGTH + 40
    return {
      header: frame.subarray(0, at),
      addresses: Buffer.from(frame.subarray(ETH_LENGTH + 8, at)).toString('hex'),
      offset: view.getUint16(at + 2) & 0xfff8,
      data: frame.subarray(at + FRAGMENT_HEADER, at + view.getUint16(ETH_LENGTH + 4)),
      proto: frame[at] ?? 0,
    }
  }
  const at = ETH_LENGTH + 20
  if (onesSum(frame.subarray(ETH_LENGTH, at)) !== 0xffff) throw new Error('wrong header checksum')
  return {
    header: frame.subarray(0, at),
    addresses: Buffer.from(frame.subarray(ETH_LENGTH + 12, at)).toString('hex'),
    offset: (view.getUint16(ETH_LENGTH + 6) & 0x1fff) * 8,
    data: frame.subarray(at, ETH_LENGTH + view.getUint16(ETH_LENGTH + 2)),
    proto: frame[ETH_LENGTH + 9] ?? 0,
  }
}

function fragment4(header: Uint8Array, part: Uint8Array, offset: number, more: boolean, id: number): Uint8Array {
  const frame = Uint8Array.from([...header, ...part])
  const view = new DataView(frame.buffer)
  view.setUint16(ETH_LENGTH + 2, 20 + part.length)
  view.setUint16(ETH_LENGTH + 4, id)
  view.setUint16(ETH_LENGTH + 6, (more ? 0x2000 : 0) | (offset / 8))
  putIpv4Checksum(frame)
  return frame
}

function fragment6(header: Uint8Array, part: Uint8Array, offset: number, more: boolean, id: number): Uint8Array {
  const fragment = new Uint8Array(FRAGMENT_HEADER)
  const view = new DataView(fragment.buffer)
  fragment[0] = header[ETH_LENGTH + 6] ?? 0
  view.setUint16(2, offset | (more ? 1 : 0))
  view.setUint32(4, id)
  const frame = Uint8Array.from([...header, ...fragment, ...part])
  new DataView(frame.buffer).setUint16(ETH_LENGTH + 4, FRAGMENT_HEADER + part.length)
  frame[ETH_LENGTH + 6] = NEXT_FRAGMENT
  return frame
}

function putIpv4Checksum(frame: Uint8Array): void {
  const header = frame.subarray(ETH_LENGTH, ETH_LENGTH + 20)
  header.fill(0, 10, 12)
  new DataView(frame.buffer, frame.byteOffset).setUint16(ETH_LENGTH + 10, ~onesSum(header) & 0xffff)
}

function isIpv6(frame: Uint8Array): boolean {
  return frame[12] === 0x86
}
