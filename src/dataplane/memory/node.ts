import type { Address, Family } from '../../model/address.js'
import { familyOf } from '../../model/address.js'
import { type Cidr, cidrHas, splitCidr } from '../../model/cidr.js'

/** A device that is served, with the node's addresses on it. */
export interface MemoryDevice {
  readonly address4?: Address
  readonly address6?: Address
  readonly mtu: number
}

/** Where a network leads to: a device, this node itself, or nowhere. */
export type RouteTarget = { readonly device: string } | 'local' | 'unreachable'

export interface Route {
  readonly to: Cidr
  readonly target: RouteTarget
}

/** Seconds without a packet after which a flow ends (docs/packet-path.md, "The life of a flow"). */
export interface MemoryTimeouts {
  readonly tcpEstablishedSeconds: number
  readonly tcpTransitorySeconds: number
  readonly tcpClosedSeconds: number
  readonly udpSeconds: number
  readonly udpStreamSeconds: number
}

/** What the reference is told of its node. */
export interface NodeFacts {
  /** By name. */
  readonly devices: ReadonlyMap<string, MemoryDevice>
  readonly routes: Routes
  /** The node's own addresses: an unknown port of one of them is the host's. */
  readonly ownAddresses: ReadonlySet<Address>
  readonly answerPing: boolean
  readonly timeouts: MemoryTimeouts
  /** Ports from which flows to backends elsewhere get theirs, pairs of first and last. */
  readonly sourcePorts: readonly (readonly [number, number])[]
  /** Most flows at a time: from an eighth of them on one that yields may be gone at any time. */
  readonly flows: number
}

export function deviceAddress(device: MemoryDevice | undefined, family: Family): Address | undefined {
  return family === 'IPv4' ? device?.address4 : device?.address6
}

/** Where packets to an address go: the longest prefix wins. */
export class Routes {
  readonly #routes: readonly (Route & { readonly bits: number })[]
  readonly #known = new Map<Address, RouteTarget>()

  constructor(routes: readonly Route[]) {
    const bits = (route: Route) => splitCidr(route.to).bits
    this.#routes = routes.map(route => ({ ...route, bits: bits(route) })).sort((a, b) => b.bits - a.bits)
  }

  find(to: Address): RouteTarget {
    const known = this.#known.get(to)
    if (known !== undefined) return known
    const target = this.#routes.find(route => cidrHas(route.to, to))?.target ?? 'unreachable'
    if (this.#known.size > MOST_REMEMBERED) this.#known.clear()
    this.#known.set(to, target)
    return target
  }
}

const MOST_REMEMBERED = 10_000

/** 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3 (RFC 6890); ::, ::1, ff00::/8 (RFC 4291 2.4). */
export function isNoClient(address: Address): boolean {
  if (familyOf(address) === 'IPv6') return address === '::' || address === '::1' || isIpv6Multicast(address)
  const first = firstByte(address)
  return first === 0 || first === 127 || first >= 224
}

/** Whether a reply may be sent there: to a single host (RFC 1122 3.2.2, RFC 4443 2.4e). */
export function isReceiver(address: Address): boolean {
  if (familyOf(address) === 'IPv6') return address !== '::' && !isIpv6Multicast(address)
  const first = firstByte(address)
  return first !== 0 && first < 224
}

function firstByte(address: Address): number {
  return Number.parseInt(address, 10)
}

/** In canonical text only an address whose first word has no leading zero begins so. */
function isIpv6Multicast(address: Address): boolean {
  return /^ff[0-9a-f]{2}:/.test(address)
}
