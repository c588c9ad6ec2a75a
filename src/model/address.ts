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
  if (IPV4.test(text)) return text as Address
  if (!text.includes(':') || text.includes('%') || !ipaddr.IPv6.isValid(text)) return undefined
  const v6 = ipaddr.IPv6.parse(text)
  if (v6.isIPv4MappedAddress()) return v6.toIPv4Address().toString() as Address
  return v6.toRFC5952String() as Address
}

const IPV4 = /^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?!$)|$)){4}$/

/** Family of a canonical address. */
export function familyOf(address: Address): Family {
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

/** Bytes of an IPv4-mapped address before the IPv4 address (RFC 4291 2.5.5.2). */
const MAPPED_PREFIX = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] as const

/** The 16 bytes of `struct ip_addr`: network order, IPv4 as ::ffff:a.b.c.d. */
export function addressToBytes(address: Address): Uint8Array {
  if (familyOf(address) === 'IPv6') return Uint8Array.from(ipaddr.IPv6.parse(address).toByteArray())
  // By hand: a cluster has a hundred thousand of these, and the library goes by IPv6 text.
  const bytes = new Uint8Array(16)
  bytes[10] = 0xff
  bytes[11] = 0xff
  let at = MAPPED_PREFIX.length
  let octet = 0
  for (let i = 0; i < address.length; i++) {
    const code = address.charCodeAt(i)
    if (code === DOT) {
      bytes[at++] = octet
      octet = 0
    } else octet = octet * 10 + code - ZERO
  }
  bytes[at] = octet
  return bytes
}

const DOT = 0x2e
const ZERO = 0x30

/** The inverse of {@link addressToBytes}; `bytes` has 16 elements. */
export function addressFromBytes(bytes: Uint8Array): Address {
  if (MAPPED_PREFIX.every((byte, i) => bytes[i] === byte)) {
    return `${bytes[12]}.${bytes[13]}.${bytes[14]}.${bytes[15]}` as Address
  }
  return new ipaddr.IPv6([...bytes]).toRFC5952String() as Address
}

/** `10.0.0.1:80`, `[2001:db8::1]:80`. */
export function formatEndpoint(address: Address, port: number): string {
  return familyOf(address) === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
}
