/**
 * The bytes of `/bytes`: a stream in which a lost, doubled or moved piece shows. The
 * period is a prime, so no whole number of packets or pages hides a shift.
 */
const PERIOD = 65_521
const BLOCK = Buffer.alloc(PERIOD * 2)
for (let i = 0; i < BLOCK.length; i++) BLOCK[i] = (((i % PERIOD) * 2_654_435_761) >>> 16) & 0xff

/** At most {@link PERIOD} bytes of the stream, beginning at `offset`; shares memory between calls. */
export function patternAt(offset: number, length: number): Buffer {
  const start = offset % PERIOD
  return BLOCK.subarray(start, start + Math.min(length, PERIOD))
}

/** Whether `chunk` is what the stream holds at `offset`. */
export function isPattern(chunk: Buffer, offset: number): boolean {
  for (let done = 0; done < chunk.length; ) {
    const want = patternAt(offset + done, chunk.length - done)
    if (want.compare(chunk, done, done + want.length) !== 0) return false
    done += want.length
  }
  return true
}
