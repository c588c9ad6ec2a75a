import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { type Address, parseAddress } from '../model/address.js'
import { defaultRouteDevices, deviceNames } from './proc-net.js'

/** What this network namespace looks like now. */
export interface NetworkFacts {
  /** Names of all devices, also those without carrier or address. */
  readonly names: readonly string[]
  /** Addresses of devices that are up and have carrier, in the kernel's order. */
  readonly addresses: ReadonlyMap<string, readonly Address[]>
  /** Devices of a default route of either family. */
  readonly defaultRoutes: ReadonlySet<string>
}

/**
 * Reads the facts of the network namespace that the process is in. /proc/self/net
 * follows it; /sys/class/net would show the namespace that mounted sysfs.
 */
export function readNetworkFacts(): NetworkFacts {
  const addresses = new Map<string, readonly Address[]>()
  for (const [name, entries] of Object.entries(networkInterfaces())) {
    addresses.set(
      name,
      (entries ?? []).flatMap(entry => parseAddress(entry.address) ?? []),
    )
  }
  return {
    names: deviceNames(readFileSync('/proc/self/net/dev', 'latin1')),
    addresses,
    defaultRoutes: defaultRouteDevices(readOptional('/proc/self/net/route'), readOptional('/proc/self/net/ipv6_route')),
  }
}

/** A file that a kernel without that family does not have. */
function readOptional(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
