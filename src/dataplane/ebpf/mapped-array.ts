/**
 * A BPF array map's memory: elements at multiples of 8 bytes, written without system
 * calls. Element and word stores are visible to programs at once.
 */
export class MappedArray {
  readonly view: DataView
  readonly bytes: Uint8Array
  readonly length: number
  /** Bytes from one element to the next. */
  readonly stride: number
  readonly #words: BigUint64Array

  constructor(memory: ArrayBuffer, valueSize: number, length: number) {
    this.view = new DataView(memory)
    this.bytes = new Uint8Array(memory)
    this.length = length
    this.stride = Math.ceil(valueSize / 8) * 8
    this.#words = new BigUint64Array(memory, 0, (this.stride * length) / 8)
  }

  /** Byte offset of an element. */
  offset(index: number): number {
    if (!(index >= 0 && index < this.length)) throw new RangeError(`element ${index} of ${this.length}`)
    return index * this.stride
  }

  /** The 8 bytes at `index`'s `byteOffset` (a multiple of 8), loaded at once. */
  loadWord(index: number, byteOffset: number): bigint {
    return Atomics.load(this.#words, (this.offset(index) + byteOffset) / 8)
  }

  /** Stores 8 bytes at once, after all earlier writes: readers see the old or the new word. */
  storeWord(index: number, byteOffset: number, value: bigint): void {
    Atomics.store(this.#words, (this.offset(index) + byteOffset) / 8, value)
  }
}
