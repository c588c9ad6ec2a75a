import type { Cancel, Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Address } from '../model/address.js'
import { chooseDevices, type Device, ownAddresses } from './devices.js'
import type { NetworkFacts } from './facts.js'

/** What the rest of the daemon needs to know of this machine's network. */
export interface HostNetwork {
  readonly devices: readonly Device[]
  /** Sorted; see {@link ownAddresses}. */
  readonly addresses: readonly Address[]
}

export interface HostWatchOptions {
  readonly readFacts: () => NetworkFacts
  /** Calls back when something may have changed, until closed; throws when the kernel refuses. */
  readonly listen: (onChange: () => void) => { close(): void }
  readonly patterns: readonly string[]
  readonly onChange: (network: HostNetwork) => void
  readonly clock: Clock
  readonly logger: Logger
}

/** Milliseconds from the first word of a change to the look: what belongs together comes together. */
const SETTLE_MS = 20
/** Milliseconds between two looks, at least: a storm of changes is some ten looks a second. */
const PAUSE_MS = 80
/** So many times as long as a look took, too, up to a second: a machine of many devices spends a tenth of a CPU. */
const PAUSE_FACTOR = 9
const LONGEST_PAUSE_MS = 1000
/** Milliseconds to the next look when nothing is heard; when nothing can be, or the last look failed. */
const QUIET_MS = 10_000
const DEAF_MS = 1000

/** Looks at devices and addresses when the kernel tells of a change, and tells when it was one. */
export class HostWatch {
  readonly #options: HostWatchOptions
  #internalIPs: readonly Address[] = []
  #devices: readonly Device[] = []
  #seen = ''
  #failing = false
  #running = false
  #listener: { close(): void } | undefined
  #complained = false
  /** Whether the next look is for something that was heard. */
  #heard = false
  /** No look for something heard before this. */
  #notBefore = 0
  #cancel: Cancel = () => {}

  constructor(options: HostWatchOptions) {
    this.#options = options
  }

  /** Reports the first state before it returns; harmless when it runs already. */
  start(): void {
    if (this.#running) return
    this.#running = true
    this.#look()
  }

  stop(): void {
    this.#running = false
    this.#cancel()
    this.#listener?.close()
    this.#listener = undefined
  }

  /** The Node's InternalIPs as the source reports them; a running watch looks at once when they changed. */
  setInternalIPs(internalIPs: readonly Address[]): void {
    if (internalIPs.join() === this.#internalIPs.join()) return
    this.#internalIPs = internalIPs
    if (this.#running) this.#look()
  }

  #look(): void {
    // Before looking, so no change falls between the two.
    this.#listen()
    this.#heard = false
    const { clock, onChange } = this.#options
    const began = clock.monotonic()
    const network = this.#read()
    const ended = clock.monotonic()
    const pause = Math.max(PAUSE_MS, Math.min(PAUSE_FACTOR * (ended - began), LONGEST_PAUSE_MS))
    this.#notBefore = ended + pause
    this.#lookAfter(this.#listener === undefined || this.#failing ? DEAF_MS : QUIET_MS)
    const seen = JSON.stringify(network)
    if (network === undefined || seen === this.#seen) return
    this.#seen = seen
    onChange(network)
  }

  #lookAfter(ms: number): void {
    this.#cancel()
    this.#cancel = this.#options.clock.after(ms, () => this.#look())
  }

  #listen(): void {
    if (this.#listener !== undefined) return
    const { listen, logger } = this.#options
    try {
      this.#listener = listen(() => this.#hear())
      this.#complained = false
    } catch (error) {
      const what = 'cannot listen to the kernel; devices and addresses are looked at once a second'
      if (!this.#complained) logger.warn(what, { error })
      this.#complained = true
    }
  }

  #hear(): void {
    if (this.#heard) return
    this.#heard = true
    this.#lookAfter(Math.max(SETTLE_MS, this.#notBefore - this.#options.clock.monotonic()))
  }

  /** Undefined after a failure, which is logged once. */
  #read(): HostNetwork | undefined {
    const { readFacts, patterns, logger } = this.#options
    try {
      const facts = readFacts()
      this.#devices = chooseDevices(facts, patterns, this.#internalIPs, this.#devices)
      this.#failing = false
      return { devices: this.#devices, addresses: ownAddresses(facts) }
    } catch (error) {
      if (!this.#failing) logger.error('cannot read devices and addresses', { error })
      this.#failing = true
      return undefined
    }
  }
}
