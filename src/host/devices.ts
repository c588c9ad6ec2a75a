import { type Address, familyOf } from '../model/address.js'
import type { NetworkFacts } from './facts.js'

/** A device that packets for Services arrive on. */
export interface Uplink {
  readonly name: string
  /** Source of flows that leave by it, one for each family; missing = none. */
  readonly address4?: Address
  readonly address6?: Address
}

/**
 * Which devices get programs. `patterns` are names with `*` and `?`, or `auto`: a default
 * route or one of the Node's InternalIPs. `lo` never.
 *
 * A device that was chosen before stays as long as it exists, with the addresses it had:
 * one that loses carrier for a moment shows neither address nor route, and taking its
 * programs away would cost a gap when it comes back.
 */
export function chooseUplinks(
  facts: NetworkFacts,
  patterns: readonly string[],
  internalIPs: readonly Address[],
  before: readonly Uplink[],
): Uplink[] {
  const kept = new Map(before.map(uplink => [uplink.name, uplink]))
  return facts.names
    .filter(name => name !== 'lo')
    .filter(name => kept.has(name) || patterns.some(pattern => matches(pattern, name, facts, internalIPs)))
    .sort()
    .map(name => {
      const addresses = facts.addresses.get(name) ?? []
      const old = kept.get(name)
      const address4 = sourceAddress(addresses, 'IPv4', internalIPs) ?? old?.address4 ?? primary(internalIPs, 'IPv4')
      const address6 = sourceAddress(addresses, 'IPv6', internalIPs) ?? old?.address6 ?? primary(internalIPs, 'IPv6')
      return { name, ...(address4 && { address4 }), ...(address6 && { address6 }) }
    })
}

function matches(pattern: string, name: string, facts: NetworkFacts, internalIPs: readonly Address[]): boolean {
  if (pattern !== 'auto') return wildcard(pattern).test(name)
  if (facts.defaultRoutes.has(name)) return true
  return (facts.addresses.get(name) ?? []).some(address => internalIPs.includes(address))
}

function wildcard(pattern: string): RegExp {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`)
}

/** The Node's InternalIP if the device has it, else its first address that is not link-local. */
function sourceAddress(
  addresses: readonly Address[],
  family: 'IPv4' | 'IPv6',
  internalIPs: readonly Address[],
): Address | undefined {
  const usable = addresses.filter(address => familyOf(address) === family && !isLinkLocal(address))
  return usable.find(address => internalIPs.includes(address)) ?? usable[0]
}

/** What a device without an address of its own uses, as the kernel does: a pod's, or one that is not numbered. */
function primary(internalIPs: readonly Address[], family: 'IPv4' | 'IPv6'): Address | undefined {
  return internalIPs.find(address => familyOf(address) === family)
}

/** 169.254.0.0/16 and fe80::/10: meaningful on one link only. */
export function isLinkLocal(address: Address): boolean {
  return address.startsWith('169.254.') || /^fe[89ab][0-9a-f]:/.test(address)
}

/** Every address of this machine that has a meaning beyond one link, sorted; loopback included. */
export function ownAddresses(facts: NetworkFacts): Address[] {
  const all = [...facts.addresses.values()].flat().filter(address => !isLinkLocal(address))
  return [...new Set(all)].sort()
}
