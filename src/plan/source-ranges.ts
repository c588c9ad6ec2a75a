import type { Address, Family } from '../model/address.js'
import { familyOf } from '../model/address.js'
import { type Cidr, cidrCovers, cidrHas, familyOfCidr, isEverybody } from '../model/cidr.js'
import type { SourceRanges } from '../model/desired.js'

/** Whose addresses count when a socket of this node has none yet. */
export interface Inside {
  readonly internalIPs: readonly Address[]
  /** Networks that hold every pod of this node; none = not known. */
  readonly podCIDRs: readonly Cidr[]
}

/**
 * Who of one family may use the load-balancer frontends; undefined = everybody. A network
 * that holds the whole family restricts nobody, as in kube-proxy. Without a network of the
 * family nobody is let in.
 */
export function sourceRangesOf(
  ranges: readonly Cidr[] | undefined,
  family: Family,
  inside: Inside,
): SourceRanges | undefined {
  const mine = ranges?.filter(range => familyOfCidr(range) === family)
  if (mine === undefined || mine.some(isEverybody)) return undefined
  const addresses = inside.internalIPs.filter(address => familyOf(address) === family)
  const pods = inside.podCIDRs.filter(cidr => familyOfCidr(cidr) === family)
  return {
    ranges: mine,
    node: addresses.some(address => mine.some(range => cidrHas(range, address))),
    pods: pods.length > 0 && pods.every(cidr => mine.some(range => cidrCovers(range, cidr))),
  }
}
