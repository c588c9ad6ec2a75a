const newline = 0x0a

/** A watch event holds one object, and etcd refuses objects above some megabytes. */
const maxLineBytes = 32 * 1024 * 1024

/**
 * Cuts a byte stream into lines. It searches bytes, and no byte of a longer UTF-8
 * sequence is a newline, so a character may be split over any number of chunks.
 */
export class LineFramer {
  #rest: Buffer[] = []
  #restBytes = 0

  /** True between two lines. */
  get whole(): boolean {
    return this.#restBytes === 0
  }

  /** The lines that `chunk` completes, without newline, empty ones left out. */
  push(chunk: Buffer): string[] {
    const lines: string[] = []
    let start = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = this.#take(chunk.subarray(start, end))
      if (line.trim() !== '') lines.push(line)
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return lines
  }

  #keep(part: Buffer): void {
    this.#rest.push(part)
    this.#restBytes += part.length
    if (this.#restBytes > maxLineBytes) throw new RangeError(`a line exceeds ${maxLineBytes} bytes`)
  }

  #take(end: Buffer): string {
    if (this.#rest.length === 0) return end.toString('utf8')
    const line = Buffer.concat([...this.#rest, end]).toString('utf8')
    this.#rest = []
    this.#restBytes = 0
    return line
  }
}
