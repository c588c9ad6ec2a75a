import { createHash } from 'node:crypto'

/** RFC 4648, upper case. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** First `length` characters of base32(SHA-256(text)), as kube-proxy has them in names of chains. */
export function nameHash(text: string, length: number): string {
  const digest = createHash('sha256').update(text).digest()
  let name = ''
  let bits = 0
  let held = 0
  for (const byte of digest) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5 && name.length < length) {
      bits -= 5
      name += BASE32[(held >>> bits) & 31]
    }
    held &= (1 << bits) - 1
    if (name.length === length) break
  }
  return name
}
