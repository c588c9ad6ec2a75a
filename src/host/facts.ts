import type { Native } from '../ebpf/native.js'
import { type Address, parseAddress } from '../model/address.js'
import { isWithoutEthernet } from './link-type.js'

/** A device of this network namespace, as it is now. */
export interface HostDevice {
  readonly name: string
  readonly ifindex: number
  /** Its packets begin with the IP header, not with Ethernet's. */
  readonly l3: boolean
  /** Those that have a meaning beyond the link, in the kernel's order; none while it is down or has no carrier. */
  readonly addresses: readonly Address[]
  /** A default route of either family leaves by it. */
  readonly defaultRoute: boolean
}

/** What this network namespace looks like now: all its devices. */
export type NetworkFacts = readonly HostDevice[]

/** Reads the facts of the network namespace that the thread is in. */
export function readNetworkFacts(native: Pick<Native, 'readNetwork'>): NetworkFacts {
  return native.readNetwork().map(({ name, ifindex, type, running, addresses, defaultRoute }) => ({
    name,
    ifindex,
    l3: isWithoutEthernet(type),
    // Every device has a link-local one: not parsed, on a machine with thousands.
    addresses: running ? addresses.filter(text => !isLinkLocal(text)).flatMap(text => parseAddress(text) ?? []) : [],
    defaultRoute,
  }))
}

/** 169.254.0.0/16 and fe80::/10, in lower case: meaningful on one link only. */
function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.') || /^fe[89ab][0-9a-f]:/.test(address)
}
