import ipaddr from 'ipaddr.js'
import { type Address, addressToBytes, type Family, familyOf, parseAddress } from './address.js'

/** A network in canonical text, `192.0.2.0/24` or `2001:db8::/32`, bits beyond its prefix 0. Equal networks are equal strings. */
export type Cidr = string & { readonly __cidr: unique symbol }

/** Bits of an IPv4 address in its mapped form that come before it. */
const MAPPED_BITS = 96

/**
 * The canonical form of `text`, or undefined when it is no network. An IPv4-mapped
 * network (`::ffff:192.0.2.0/120`) is the IPv4 one; bits beyond the prefix are cut off.
 */
export function parseCidr(text: string): Cidr | undefined {
  const { 1: first = '', 2: length = '' } = /^([^/]+)\/([0-9]{1,3})$/.exec(text) ?? []
  const address = parseAddress(first)
  if (address === undefined) return undefined
  const mapped = first.includes(':') && familyOf(address) === 'IPv4'
  const bits = Number(length) - (mapped ? MAPPED_BITS : 0)
  if (bits < 0 || bits > (familyOf(address) === 'IPv4' ? 32 : 128)) return undefined
  const kind = familyOf(address) === 'IPv4' ? ipaddr.IPv4 : ipaddr.IPv6
  const base = parseAddress(kind.networkAddressFromCIDR(`${address}/${bits}`).toString())
  return base === undefined ? undefined : (`${base}/${bits}` as Cidr)
}

/** First address and prefix length in bits of its own family. */
export function splitCidr(cidr: Cidr): { readonly base: Address; readonly bits: number } {
  const at = cidr.lastIndexOf('/')
  return { base: cidr.slice(0, at) as Address, bits: Number(cidr.slice(at + 1)) }
}

export function familyOfCidr(cidr: Cidr): Family {
  return familyOf(splitCidr(cidr).base)
}

/** Whether every address of its family is in it. */
export function isEverybody(cidr: Cidr): boolean {
  return splitCidr(cidr).bits === 0
}

export function cidrHas(cidr: Cidr, address: Address): boolean {
  return cidrCovers(cidr, `${address}/${familyOf(address) === 'IPv4' ? 32 : 128}` as Cidr)
}

/** Whether each address of `inner` is in `outer`, too. */
export function cidrCovers(outer: Cidr, inner: Cidr): boolean {
  const a = splitCidr(outer)
  const b = splitCidr(inner)
  if (familyOf(a.base) !== familyOf(b.base) || a.bits > b.bits) return false
  const bits = prefixInMapped(outer)
  const left = addressToBytes(a.base)
  const right = addressToBytes(b.base)
  for (let at = 0; at * 8 < bits; at++) {
    const mask = bits - at * 8 >= 8 ? 0xff : (0xff00 >> (bits - at * 8)) & 0xff
    if ((((left[at] ?? 0) ^ (right[at] ?? 0)) & mask) !== 0) return false
  }
  return true
}

/** Prefix length in the 128 bits of `struct ip_addr`, where IPv4 is mapped. */
export function prefixInMapped(cidr: Cidr): number {
  const { base, bits } = splitCidr(cidr)
  return familyOf(base) === 'IPv4' ? MAPPED_BITS + bits : bits
}

/** The network of those 16 bytes and that prefix length: the inverse of writing it into `struct ip_addr`. */
export function cidrOfMapped(base: Address, prefix: number): Cidr {
  return `${base}/${familyOf(base) === 'IPv4' ? prefix - MAPPED_BITS : prefix}` as Cidr
}
