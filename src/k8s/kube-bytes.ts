/**
 * Reads one protobuf message field by field, without making objects:
 * `while (bytes.next()) if (bytes.field === 1) … else bytes.skip()`.
 * Throws RangeError where the message ends too early or holds what no message may.
 */
export class ProtoBytes {
  readonly #buffer: Buffer
  #at: number
  readonly #end: number
  /** Number of the field that `next` came to. */
  field = 0
  #wire = 0

  constructor(buffer: Buffer, at = 0, end = buffer.length) {
    this.#buffer = buffer
    this.#at = at
    this.#end = end
  }

  /** Goes to the next field; false at the end. */
  next(): boolean {
    if (this.#at >= this.#end) return false
    const tag = this.#varint()
    this.field = Math.floor(tag / 8)
    this.#wire = tag % 8
    if (this.field === 0) throw new RangeError('a field with the number 0')
    return true
  }

  /** The field's message, to be read in the same way. */
  message(): ProtoBytes {
    const end = this.#delimited()
    const message = new ProtoBytes(this.#buffer, this.#at, end)
    this.#at = end
    return message
  }

  /** The field's bytes, shared with the input. */
  bytes(): Buffer {
    const end = this.#delimited()
    const bytes = this.#buffer.subarray(this.#at, end)
    this.#at = end
    return bytes
  }

  string(): string {
    const end = this.#delimited()
    const start = this.#at
    this.#at = end
    return this.#buffer.toString('utf8', start, end)
  }

  /** A number of up to 53 bits, not negative. */
  uint(): number {
    this.#expect(0)
    return this.#varint()
  }

  bool(): boolean {
    return this.uint() !== 0
  }

  /** Passes over the field. */
  skip(): void {
    if (this.#wire === 2) this.#at = this.#delimited()
    else if (this.#wire === 0) this.#varint()
    else if (this.#wire === 1) this.#at += 8
    else if (this.#wire === 5) this.#at += 4
    else throw new RangeError(`a field of wire type ${this.#wire}`)
    if (this.#at > this.#end) throw new RangeError('the message ends in the middle of a field')
  }

  #expect(wire: number): void {
    if (this.#wire !== wire) throw new RangeError(`field ${this.field} is of wire type ${this.#wire}, not ${wire}`)
  }

  /** Where the length-delimited field ends. */
  #delimited(): number {
    this.#expect(2)
    const end = this.#varint() + this.#at
    if (end > this.#end) throw new RangeError('the message ends in the middle of a field')
    return end
  }

  #varint(): number {
    let value = 0
    let factor = 1
    for (let i = 0; i < 10; i++) {
      if (this.#at >= this.#end) throw new RangeError('the message ends in the middle of a number')
      const byte = this.#buffer[this.#at++] as number
      value += (byte & 127) * factor
      if (byte < 128) return value
      factor *= 128
    }
    throw new RangeError('a number of more than ten bytes')
  }
}
