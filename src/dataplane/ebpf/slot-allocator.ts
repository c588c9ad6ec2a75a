/**
 * Which slots of the slots map belong to whom: a buddy allocator over positions 0 to
 * size-1. A block's size is a power of two and its base a multiple of it, so the block
 * around any list found in the kernel can be derived from {base, count} alone.
 */
export class SlotAllocator {
  /** Free blocks by order; a block of order o has 2^o slots. */
  readonly #free: Set<number>[]
  readonly #maxOrder: number
  #used = 0

  /** @param size number of slots, a power of two. Slot 0 stays unused so that base 0 means "no list". */
  constructor(size: number) {
    this.#maxOrder = Math.log2(size)
    if (!Number.isInteger(this.#maxOrder)) throw new TypeError(`slots: ${size} is not a power of two`)
    this.#free = Array.from({ length: this.#maxOrder + 1 }, () => new Set<number>())
    this.#free[this.#maxOrder]?.add(0)
    this.reserve(0, 1)
  }

  /** Slots in blocks that are handed out. */
  get used(): number {
    return this.#used
  }

  /** Base of a block with room for `capacity` slots (a power of two), or undefined when none is left. */
  allocate(capacity: number): number | undefined {
    const order = Math.log2(capacity)
    for (let from = order; from <= this.#maxOrder; from++) {
      const [base] = this.#free[from] ?? []
      if (base === undefined) continue
      this.#free[from]?.delete(base)
      this.#split(base, from, base, order)
      this.#used += capacity
      return base
    }
    return undefined
  }

  /** Takes the block at `base` out of the free ones; false when a part of it is taken already. */
  reserve(base: number, capacity: number): boolean {
    const order = Math.log2(capacity)
    for (let from = order; from <= this.#maxOrder; from++) {
      const around = base - (base % 2 ** from)
      if (!this.#free[from]?.delete(around)) continue
      this.#split(around, from, base, order)
      this.#used += capacity
      return true
    }
    return false
  }

  /** Gives back a block that allocate or reserve handed out. */
  release(base: number, capacity: number): void {
    this.#used -= capacity
    let order = Math.log2(capacity)
    let at = base
    while (order < this.#maxOrder) {
      const buddy = at ^ (2 ** order)
      if (!this.#free[order]?.delete(buddy)) break
      at = Math.min(at, buddy)
      order++
    }
    this.#free[order]?.add(at)
  }

  /** Frees all of the block at `from` but the wanted block inside it. */
  #split(base: number, from: number, wanted: number, order: number): void {
    let at = base
    for (let o = from - 1; o >= order; o--) {
      const half = at + 2 ** o
      if (wanted >= half) {
        this.#free[o]?.add(at)
        at = half
      } else {
        this.#free[o]?.add(half)
      }
    }
  }
}

/** Smallest block for a list of `count` backends; room for four avoids moves of small lists. */
export function capacityFor(count: number): number {
  return count <= 4 ? 4 : 2 ** Math.ceil(Math.log2(count))
}
