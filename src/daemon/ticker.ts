import type { Cancel, Clock } from '../base/clock.js'
import { messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'

/** Does a chore again and again, never two at a time; a failure that repeats is logged once. */
export class Ticker {
  readonly #what: string
  readonly #periodMs: number
  readonly #chore: () => Promise<void>
  readonly #clock: Clock
  readonly #logger: Logger
  #complaint: string | undefined
  #cancel: Cancel | undefined
  #stopped = false

  constructor(what: string, periodMs: number, chore: () => Promise<void>, clock: Clock, logger: Logger) {
    this.#what = what
    this.#periodMs = periodMs
    this.#chore = chore
    this.#clock = clock
    this.#logger = logger
  }

  start(): void {
    if (this.#stopped) return
    this.#cancel = this.#clock.after(this.#periodMs, () => void this.#tick().then(() => this.start()))
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
  }

  async #tick(): Promise<void> {
    try {
      await this.#chore()
      if (this.#complaint !== undefined) this.#logger.info(`${this.#what} works again`)
      this.#complaint = undefined
    } catch (error) {
      const complaint = messageOf(error)
      if (complaint !== this.#complaint) this.#logger.error(`${this.#what} failed`, { error })
      this.#complaint = complaint
    }
  }
}
