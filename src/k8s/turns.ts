import type { Clock } from '../base/clock.js'

/** Longest stretch of work, milliseconds; what waits for the event loop waits this long. */
const stretchMs = 8

/** Lets the event loop run in between long work: `await turns.next()` after each small piece. */
export class Turns {
  readonly #clock: Clock
  #since: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** Resolves at once, or after other work had its turn. */
  next(): Promise<void> | undefined {
    if (this.#clock.monotonic() - this.#since < stretchMs) return undefined
    return new Promise(resolve =>
      setImmediate(() => {
        this.#since = this.#clock.monotonic()
        resolve()
      }),
    )
  }
}
