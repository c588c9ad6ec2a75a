import ipaddr from 'ipaddr.js'
import { type Address, type Family, familyOf } from '../model/address.js'

/**
 * The addresses of a node that serve node ports. `wanted` has CIDRs, `primary` (the first
 * address of each family) or `all`; what matches several entries counts once. Empty means
 * `primary`. Entries that are neither match nothing: the configuration refuses them before.
 */
export function nodePortAddresses(internalIPs: readonly Address[], wanted: readonly string[]): readonly Address[] {
  const entries = wanted.length === 0 ? ['primary'] : wanted
  return internalIPs.filter(address => entries.some(entry => matches(address, entry, internalIPs)))
}

function matches(address: Address, entry: string, internalIPs: readonly Address[]): boolean {
  if (entry === 'all') return true
  const family: Family = familyOf(address)
  if (entry === 'primary') return internalIPs.find(other => familyOf(other) === family) === address
  if (!ipaddr.isValidCIDR(entry)) return false
  const [network, bits] = ipaddr.parseCIDR(entry)
  const parsed = ipaddr.parse(address)
  return parsed.kind() === network.kind() && parsed.match(network, bits)
}
