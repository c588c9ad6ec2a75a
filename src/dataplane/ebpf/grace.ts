import type { Cancel, Clock } from '../../base/clock.js'

/**
 * Work that must wait until nobody can be reading what it changes. Runs in the order of
 * its due times, again and again until it succeeds; what is pending at a crash is found as
 * orphans by the next run.
 */
export class Grace {
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #queue: { due: number; run: () => void }[] = []
  #cancel: Cancel | undefined

  /** `onError` hears what a piece of work threw; the others go on, it is tried again. */
  constructor(clock: Clock, onError: (error: unknown) => void) {
    this.#clock = clock
    this.#onError = onError
  }

  get pending(): number {
    return this.#queue.length
  }

  after(ms: number, run: () => void): void {
    const due = this.#clock.monotonic() + ms
    let at = this.#queue.length
    while (at > 0 && (this.#queue[at - 1]?.due ?? 0) > due) at--
    this.#queue.splice(at, 0, { due, run })
    if (at === 0) this.#arm()
  }

  /** Drops what is pending: the kernel keeps it, the next run cleans it up. */
  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#queue.length = 0
  }

  #arm(): void {
    const first = this.#queue[0]
    this.#cancel?.()
    this.#cancel = first && this.#clock.after(Math.max(0, first.due - this.#clock.monotonic()), () => this.#runDue())
  }

  #runDue(): void {
    const now = this.#clock.monotonic()
    const due = this.#queue.filter(each => each.due <= now)
    this.#queue.splice(0, due.length)
    for (const { run } of due) {
      try {
        run()
      } catch (error) {
        this.#onError(error)
        this.after(RETRY_MS, run)
      }
    }
    this.#arm()
  }
}

/** Pause before a failed piece of work is tried again. */
const RETRY_MS = 1000
