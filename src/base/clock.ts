/** Ends a timer; harmless when it fired already. */
export type Cancel = () => void

/** Time as an argument, so that tests need not wait. */
export interface Clock {
  /** Milliseconds of a clock that never jumps; only differences mean something. */
  monotonic(): number
  /** The wall clock, for people. */
  wall(): Date
  /** Calls `run` once after `ms`; a pending timer keeps the process alive. */
  after(ms: number, run: () => void): Cancel
}

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => new Date(),
  after(ms, run) {
    if (ms <= 0) {
      // A timer waits a millisecond at least; a change that may be written at once should be.
      const immediate = setImmediate(run)
      return () => clearImmediate(immediate)
    }
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}
