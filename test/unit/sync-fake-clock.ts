import type { Cancel, Clock } from '../../src/base/clock.js'

/** A clock that stands still until it is told to advance; timers fire in order of time. */
export class FakeClock implements Clock {
  #now = 0
  #timers: { at: number; run: () => void }[] = []

  monotonic(): number {
    return this.#now
  }

  wall(): Date {
    return new Date(Date.UTC(2026, 0, 1) + this.#now)
  }

  after(ms: number, run: () => void): Cancel {
    const timer = { at: this.#now + ms, run }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter(other => other !== timer)
    }
  }

  /** Timers that have not fired. */
  get pending(): number {
    return this.#timers.length
  }

  /** Lets `ms` pass and fires what is due, also what fired timers have set. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const due = this.#timers.filter(timer => timer.at <= end).sort((a, b) => a.at - b.at)[0]
      if (due === undefined) break
      this.#timers = this.#timers.filter(timer => timer !== due)
      this.#now = due.at
      due.run()
    }
    this.#now = end
  }

  /** {@link advance}, step by step, with promises settled in between. */
  async advanceAsync(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settle()
      const next = this.#timers.reduce((min, timer) => Math.min(min, timer.at), Number.POSITIVE_INFINITY)
      if (next > end) break
      this.advance(next - this.#now)
    }
    this.#now = end
    await settle()
  }
}

/** Lets every promise that can settle do so. */
async function settle(): Promise<void> {
  await new Promise(resolve => setImmediate(resolve))
}
