/** Numbers that look random and are the same for the same seed (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** 32 bits. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let z = this.#state
    z = Math.imul(z ^ (z >>> 15), z | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return (z ^ (z >>> 14)) >>> 0
  }

  /** 0 to below - 1. */
  below(below: number): number {
    return this.next() % below
  }

  /** True once in `n` times. */
  once(n: number): boolean {
    return this.below(n) === 0
  }

  pick<T>(from: readonly T[]): T {
    if (from.length === 0) throw new RangeError('nothing to pick from')
    return from[this.below(from.length)] as T
  }

  /** Each of them or not. */
  some<T>(from: readonly T[], n = 2): T[] {
    return from.filter(() => this.once(n))
  }

  /** The first with weight 1 as often as others with weight 1. */
  weighted<T>(from: readonly (readonly [number, T])[]): T {
    let at = this.below(from.reduce((sum, [weight]) => sum + weight, 0))
    for (const [weight, value] of from) {
      if (at < weight) return value
      at -= weight
    }
    throw new RangeError('nothing to pick from')
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.next())
  }
}
