/**
 * What the generated codecs (`generated/layouts.ts`) are made of: the bytes of one C
 * type, to and from a plain value. Numbers that do not fit throw instead of wrapping: a
 * port of 65,536 must not become port 0 in a map.
 */

/** The bytes of one C type. `view` may be a whole map's memory; `at` is a byte offset in it. */
export interface Codec<T> {
  /** Name in C, e.g. `frontend4_key`. */
  readonly name: string
  /** sizeof in C. */
  readonly size: number
  /** Writes `size` bytes, reserved ones as zero. Throws RangeError naming the field that does not fit. */
  encode(view: DataView, at: number, value: T): void
  decode(view: DataView, at: number): T
}

/** A map as declared in `bpf/maps.h`; `maxEntries` is the default, which the loader may change before load. */
export interface MapLayout<K, V> {
  /** Name in the ELF and below the pin directory, layout version included. */
  readonly name: string
  /** enum bpf_map_type */
  readonly type: number
  /** BPF_F_* */
  readonly flags: number
  /** 0 = has none (socket storage). */
  readonly maxEntries: number
  readonly key: Codec<K>
  readonly value: Codec<V>
}

/** `__u32` as a whole key or value. */
export const u32: Codec<number> = {
  name: 'u32',
  size: 4,
  encode(view, at, value) {
    view.setUint32(at, uint(value, 0xffffffff, 'u32'), true)
  },
  decode(view, at) {
    return view.getUint32(at, true)
  },
}

/** `int` as a whole key or value: a file descriptor where socket storage is keyed by one. */
export const i32: Codec<number> = {
  name: 'i32',
  size: 4,
  encode(view, at, value) {
    if ((value | 0) !== value) throw new RangeError(`i32: ${value} does not fit`)
    view.setInt32(at, value, true)
  },
  decode(view, at) {
    return view.getInt32(at, true)
  },
}

/** A new array with the bytes of `value`. */
export function toBytes<T>(codec: Codec<T>, value: T): Uint8Array {
  const bytes = new Uint8Array(codec.size)
  codec.encode(new DataView(bytes.buffer), 0, value)
  return bytes
}

/** The value in `bytes`, which has at least `at + codec.size` of them. */
export function fromBytes<T>(codec: Codec<T>, bytes: Uint8Array, at = 0): T {
  return codec.decode(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), at)
}

/** `value` when it is an integer from 0 to `max`. */
export function uint(value: number, max: number, field: string): number {
  if (!Number.isInteger(value) || value < 0 || value > max) throw new RangeError(`${field}: ${value} is not 0-${max}`)
  return value
}

/** `value` when it fits in 64 bits without sign. */
export function uint64(value: bigint, field: string): bigint {
  if (value < 0n || value > 0xffffffffffffffffn) throw new RangeError(`${field}: ${value} does not fit in 64 bits`)
  return value
}

/** Writes exactly `size` bytes. */
export function putBytes(view: DataView, at: number, size: number, value: Uint8Array, field: string): void {
  if (value.length !== size) throw new RangeError(`${field}: ${value.length} bytes, not ${size}`)
  new Uint8Array(view.buffer, view.byteOffset + at, size).set(value)
}

/** A copy of `size` bytes. */
export function getBytes(view: DataView, at: number, size: number): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset + at, size).slice()
}

export function putZero(view: DataView, at: number, size: number): void {
  new Uint8Array(view.buffer, view.byteOffset + at, size).fill(0)
}

const utf8 = new TextEncoder()

/** Writes `char[size]`: UTF-8, padded with NUL, at least one of them. */
export function putText(view: DataView, at: number, size: number, value: string, field: string): void {
  const bytes = utf8.encode(value)
  if (bytes.length >= size) throw new RangeError(`${field}: "${value}" is longer than ${size - 1} bytes`)
  if (bytes.includes(0)) throw new RangeError(`${field}: holds a NUL`)
  const target = new Uint8Array(view.buffer, view.byteOffset + at, size)
  target.fill(0)
  target.set(bytes)
}

/** Reads `char[size]` up to its first NUL. */
export function getText(view: DataView, at: number, size: number): string {
  const bytes = getBytes(view, at, size)
  const end = bytes.indexOf(0)
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end))
}

/** Throws unless `value` has as many elements as the C array. */
export function checkCount(value: readonly unknown[], count: number, field: string): void {
  if (value.length !== count) throw new RangeError(`${field}: ${value.length} elements, not ${count}`)
}
