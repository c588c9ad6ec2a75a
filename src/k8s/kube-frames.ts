/** A watch event holds one object, and etcd refuses objects above some megabytes. */
const maxFrameBytes = 32 * 1024 * 1024

/** Cuts a byte stream into frames, each behind its length in four bytes, big-endian. */
export class LengthFramer {
  #rest: Buffer = Buffer.alloc(0)

  /** True between two frames. */
  get whole(): boolean {
    return this.#rest.length === 0
  }

  /** The frames that `chunk` completes; they may share its memory. Throws RangeError for one that is too long. */
  *push(chunk: Buffer): Generator<Buffer> {
    let data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    // Kept also when the reader stops early, so that no frame comes twice.
    this.#rest = data
    while (data.length >= 4) {
      const length = data.readUInt32BE(0)
      if (length > maxFrameBytes) throw new RangeError(`a frame of ${length} bytes`)
      if (data.length < 4 + length) break
      const frame = data.subarray(4, 4 + length)
      data = data.subarray(4 + length)
      this.#rest = data
      yield frame
    }
    if (this.#rest.length > 0 && this.#rest.buffer === chunk.buffer) this.#rest = Buffer.from(this.#rest)
  }
}
