/** CRC32c (RFC 9260 appendix A), a bit at a time; as the number whose little-endian bytes are in the packet. */
export function crc32c(...parts: readonly Uint8Array[]): number {
  let register = 0xffffffff
  for (const part of parts) {
    for (const byte of part) {
      register ^= byte
      for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? 0x82f63b78 : 0)
    }
  }
  return ~register >>> 0
}

/** The checksum that an SCTP packet has to have: its own field counts as zero. */
export function sctpChecksum(packet: Uint8Array): number {
  return crc32c(packet.subarray(0, 8), new Uint8Array(4), packet.subarray(12))
}
