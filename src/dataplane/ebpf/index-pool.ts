/**
 * Hands out indexes 1 to size-1 of an array map. A released index rests until its
 * quarantine ends: flows, affinities and sockets may still name it.
 */
export class IndexPool {
  readonly #size: number
  readonly #quarantineMs: number
  readonly #taken = new Set<number>()
  /** In order of release. */
  readonly #resting = new Map<number, number>()
  #next = 1

  constructor(size: number, quarantineMs: number) {
    this.#size = size
    this.#quarantineMs = quarantineMs
  }

  /** Indexes handed out now. */
  get used(): number {
    return this.#taken.size
  }

  /**
   * A free index, or undefined when all are taken or resting. Indexes never used come
   * first. `usable` may refuse a rested one, e.g. while sockets still point at it.
   */
  allocate(nowMs: number, usable: (index: number) => boolean = () => true): number | undefined {
    while (this.#next < this.#size) {
      const index = this.#next++
      if (this.#taken.has(index) || this.#resting.has(index)) continue
      this.#taken.add(index)
      return index
    }
    for (const [index, since] of this.#resting) {
      if (nowMs - since < this.#quarantineMs) break
      if (!usable(index)) continue
      this.#resting.delete(index)
      this.#taken.add(index)
      return index
    }
    return undefined
  }

  /** Takes an index that was found in use; false when it is out of range or taken. */
  reserve(index: number): boolean {
    if (index < 1 || index >= this.#size || this.#taken.has(index)) return false
    this.#resting.delete(index)
    this.#taken.add(index)
    return true
  }

  /** Starts the quarantine of an index, whether it was handed out here or by an earlier run. */
  release(index: number, nowMs: number): void {
    this.#taken.delete(index)
    this.#resting.delete(index)
    this.#resting.set(index, nowMs)
  }
}
