import ipaddr from 'ipaddr.js'

/** Address families of the Kubernetes API. */
export type Family = 'IPv4' | 'IPv6'

/**
 * An IP address in canonical text: dotted quad, or RFC 5952 for IPv6. Two equal
 * addresses are equal strings, so it serves as a key. Never IPv4-mapped.
 */
export type Address = string & { readonly __address: unique symbol }

/**
 * The canonical form of `text`, or undefined when it is no IP address. IPv4 must be
 * four decimal parts without leading zeros, as Kubernetes demands; an IPv4-mapped
 * IPv6 address becomes IPv4; zones (`%eth0`) are refused.
 */
export function parseAddress(text: string): Address | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) {
    return /(^|\.)0[0-9]/.test(text) ? undefined : (text as Address)
  }
  if (!text.includes(':') || text.includes('%') || !ipaddr.IPv6.isValid(text)) return undefined
  const v6 = ipaddr.IPv6.parse(text)
  if (v6.isIPv4MappedAddress()) return v6.toIPv4Address().toString() as Address
  return v6.toRFC5952String() as Address
}

/** Family of a canonical address. */
export function familyOf(address: Address): Family {
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

/** The 16 bytes of `struct ip_addr`: network order, IPv4 as ::ffff:a.b.c.d. */
export function addressToBytes(address: Address): Uint8Array {
  const parsed = ipaddr.parse(address)
  const v6 = parsed.kind() === 'ipv4' ? (parsed as ipaddr.IPv4).toIPv4MappedAddress() : parsed
  return Uint8Array.from(v6.toByteArray())
}

/** The inverse of {@link addressToBytes}; `bytes` has 16 elements. */
export function addressFromBytes(bytes: Uint8Array): Address {
  const parsed = ipaddr.IPv6.parse(ipaddr.fromByteArray([...bytes]).toString())
  const text = parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.toRFC5952String()
  return text as Address
}

/** `10.0.0.1:80`, `[2001:db8::1]:80`. */
export function formatEndpoint(address: Address, port: number): string {
  return familyOf(address) === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
}
