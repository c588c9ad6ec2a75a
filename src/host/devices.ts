import { type Address, familyOf } from '../model/address.js'
import type { HostDevice, NetworkFacts } from './facts.js'

/** A device that packets for Services arrive on. */
export interface Device {
  readonly name: string
  readonly ifindex: number
  /** Source of flows that leave by it, one for each family; missing = none. */
  readonly address4?: Address
  readonly address6?: Address
  /** Its packets begin with the IP header, not with Ethernet's. Default false. */
  readonly l3?: boolean
}

/**
 * Which devices get programs, sorted by name. `patterns` are names with `*` and `?`, or
 * `auto`: a default route or one of the Node's InternalIPs. `lo` never.
 *
 * A device that was chosen before stays as long as one of its name exists, with the
 * addresses it had: one that loses carrier for a moment shows neither address nor route,
 * and taking its programs away would cost a gap when it comes back.
 */
export function chooseDevices(
  facts: NetworkFacts,
  patterns: readonly string[],
  internalIPs: readonly Address[],
  before: readonly Device[],
): Device[] {
  const kept = new Map(before.map(device => [device.name, device]))
  const matches = patterns.map(pattern => matcher(pattern, internalIPs))
  return facts
    .filter(({ name }) => name !== 'lo')
    .filter(device => kept.has(device.name) || matches.some(match => match(device)))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, ifindex, l3, addresses }) => {
      const old = kept.get(name)
      const address4 = sourceAddress(addresses, 'IPv4', internalIPs) ?? old?.address4 ?? primary(internalIPs, 'IPv4')
      const address6 = sourceAddress(addresses, 'IPv6', internalIPs) ?? old?.address6 ?? primary(internalIPs, 'IPv6')
      return { name, ifindex, ...(address4 && { address4 }), ...(address6 && { address6 }), ...(l3 && { l3 }) }
    })
}

function matcher(pattern: string, internalIPs: readonly Address[]): (device: HostDevice) => boolean {
  if (pattern === 'auto') {
    return ({ defaultRoute, addresses }) => defaultRoute || addresses.some(address => internalIPs.includes(address))
  }
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&')
  const name = new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`)
  return device => name.test(device.name)
}

/** The Node's InternalIP if the device has it, else its first address. */
function sourceAddress(
  addresses: readonly Address[],
  family: 'IPv4' | 'IPv6',
  internalIPs: readonly Address[],
): Address | undefined {
  const usable = addresses.filter(address => familyOf(address) === family)
  return usable.find(address => internalIPs.includes(address)) ?? usable[0]
}

/** What a device without an address of its own uses, as the kernel does: a pod's, or one that is not numbered. */
function primary(internalIPs: readonly Address[], family: 'IPv4' | 'IPv6'): Address | undefined {
  return internalIPs.find(address => familyOf(address) === family)
}

/** Every address of this machine that has a meaning beyond one link, sorted; loopback included. */
export function ownAddresses(facts: NetworkFacts): Address[] {
  return [...new Set(facts.flatMap(({ addresses }) => addresses))].sort()
}
