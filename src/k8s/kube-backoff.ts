import { backoff } from '../base/backoff.js'
import type { Clock } from '../base/clock.js'

export interface BackoffLimits {
  /** First and shortest wait, milliseconds. */
  readonly minMs: number
  /** Longest wait of our own choice, milliseconds; a server may ask for more. */
  readonly maxMs: number
  /** A connection that lived this long was healthy: the next failure counts as the first. */
  readonly healthyMs: number
}

/** What client-go uses as well; thousands of agents retry at the same time. */
export const defaultBackoff: BackoffLimits = { minMs: 800, maxMs: 30_000, healthyMs: 60_000 }

/**
 * How long to wait before try after try: within minMs..maxMs, growing, and spread at
 * every stage, so that no two agents keep step.
 */
export class Backoff {
  readonly #limits: BackoffLimits
  readonly #random: () => number
  #failures = 0

  /** `random` gives values in [0, 1). */
  constructor(limits: BackoffLimits, random: () => number) {
    this.#limits = limits
    this.#random = random
  }

  /** Failures since the last healthy connection. */
  get failures(): number {
    return this.#failures
  }

  /**
   * Milliseconds to wait after a failure. `livedMs` is how long the failed connection
   * worked (0 = not at all), `retryAfterMs` what the server asked for: never less than
   * that, and up to a tenth more, since it told everybody the same.
   */
  next(livedMs: number, retryAfterMs = 0): number {
    const { minMs, maxMs, healthyMs } = this.#limits
    if (livedMs >= healthyMs) this.#failures = 0
    const own = backoff(++this.#failures, { firstMs: 2 * minMs, maxMs }, this.#random())
    return Math.max(own, retryAfterMs * (1 + 0.1 * this.#random()))
  }

  /** A connection lives: forget the failures before it. */
  reset(): void {
    this.#failures = 0
  }
}

/** Resolves after `ms`, or at once when `signal` is aborted. Never rejects. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal.addEventListener('abort', done)
  })
}
