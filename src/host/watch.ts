import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Address } from '../model/address.js'
import { chooseUplinks, ownAddresses, type Uplink } from './devices.js'
import type { NetworkFacts } from './facts.js'
import { isWithoutEthernet } from './link-type.js'

/** An uplink as the kernel numbers it now. */
export interface Device extends Uplink {
  readonly ifindex: number
  /** Its packets begin with the IP header, not with Ethernet's. Default false. */
  readonly l3?: boolean
}

/** What the rest of the daemon needs to know of this machine's network. */
export interface HostNetwork {
  readonly devices: readonly Device[]
  /** Sorted; see {@link ownAddresses}. */
  readonly addresses: readonly Address[]
}

export interface HostWatchOptions {
  readonly readFacts: () => NetworkFacts
  /** 0 when there is no such device. */
  readonly ifNameToIndex: (name: string) => number
  readonly patterns: readonly string[]
  readonly onChange: (network: HostNetwork) => void
  readonly clock: Clock
  readonly logger: Logger
}

/** Milliseconds between two looks: a new device or address is in use within a second. */
const PERIOD_MS = 1000

/** Looks at devices and addresses once a second and tells when something changed. */
export class HostWatch {
  readonly #options: HostWatchOptions
  #internalIPs: readonly Address[] = []
  #uplinks: readonly Uplink[] = []
  #seen = ''
  #failing = false
  #cancel: (() => void) | undefined

  constructor(options: HostWatchOptions) {
    this.#options = options
  }

  /** Reports the first state before it returns; harmless when it runs already. */
  start(): void {
    if (this.#cancel !== undefined) return
    this.look()
    this.#schedule()
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** The Node's InternalIPs as the source reports them; a running watch looks at once when they changed. */
  setInternalIPs(internalIPs: readonly Address[]): void {
    if (internalIPs.join() === this.#internalIPs.join()) return
    this.#internalIPs = internalIPs
    if (this.#cancel !== undefined) this.look()
  }

  /** Looks now. A failure keeps the last state and is logged once. */
  look(): void {
    const { readFacts, ifNameToIndex, patterns, onChange, logger } = this.#options
    let network: HostNetwork
    try {
      const facts = readFacts()
      this.#uplinks = chooseUplinks(facts, patterns, this.#internalIPs, this.#uplinks)
      const devices = this.#uplinks
        .map(uplink => ({ ...uplink, ifindex: ifNameToIndex(uplink.name) }))
        .filter(device => device.ifindex !== 0)
        .map(device => (isWithoutEthernet(device.name, device.ifindex) ? { ...device, l3: true } : device))
      network = { devices, addresses: ownAddresses(facts) }
      this.#failing = false
    } catch (error) {
      if (!this.#failing) logger.error('cannot read devices and addresses', { error })
      this.#failing = true
      return
    }
    const seen = JSON.stringify(network)
    if (seen === this.#seen) return
    this.#seen = seen
    onChange(network)
  }

  #schedule(): void {
    this.#cancel = this.#options.clock.after(PERIOD_MS, () => {
      this.look()
      this.#schedule()
    })
  }
}
