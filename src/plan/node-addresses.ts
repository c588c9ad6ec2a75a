import { type Address, familyOf } from '../model/address.js'
import { type Cidr, cidrHas, parseCidr } from '../model/cidr.js'

/** The loopback addresses that can serve node ports; the others of 127.0.0.0/8 do not. */
export const LOOPBACK = ['127.0.0.1', '::1'] as readonly string[] as readonly Address[]

/** What the choice of node port addresses depends on. */
export interface NodeAddresses {
  /** Of the Node object, in order. */
  readonly internalIPs: readonly Address[]
  /** Every address of this machine. */
  readonly hostAddresses: readonly Address[]
  /** Whether loopback addresses may be among them. */
  readonly localhost: boolean
}

/**
 * The addresses that serve node ports. `wanted` has CIDRs, `primary` (the first InternalIP
 * of each family), `localhost` or `all`; what matches several entries counts once. Empty
 * means `primary`. Entries that are none of these match nothing: the configuration refuses
 * them before.
 */
export function nodePortAddresses(node: NodeAddresses, wanted: readonly string[]): readonly Address[] {
  const entries = wanted.length === 0 ? ['primary'] : wanted
  const elsewhere = node.hostAddresses.filter(address => !isLoopback(address))
  const candidates = [...node.internalIPs, ...elsewhere, ...(node.localhost ? LOOPBACK : [])]
  return [...new Set(candidates)].filter(address => entries.some(entry => matches(address, entry, node)))
}

function matches(address: Address, entry: string, { internalIPs }: NodeAddresses): boolean {
  if (entry === 'all') return true
  if (entry === 'localhost') return LOOPBACK.includes(address)
  if (entry === 'primary') return internalIPs.find(other => familyOf(other) === familyOf(address)) === address
  const cidr = parseCidr(entry)
  return cidr !== undefined && cidrHas(cidr, address)
}

function isLoopback(address: Address): boolean {
  return address === '::1' || cidrHas(LOOPBACK_NETWORK, address)
}

const LOOPBACK_NETWORK = '127.0.0.0/8' as Cidr

/**
 * Where a server for health checks listens. As in kube-proxy: on each address that serves
 * node ports, and on the wildcard address of a family of which every address does; so an
 * address that only appears later is served at once.
 */
export function healthCheckAddresses(serving: readonly Address[], wanted: readonly string[]): readonly Address[] {
  const wildcards = WILDCARDS.filter(({ names }) => names.some(name => wanted.includes(name)))
  const covered = wildcards.map(({ address }) => familyOf(address))
  return [
    ...wildcards.map(({ address }) => address),
    ...serving.filter(address => !covered.includes(familyOf(address))),
  ]
}

const WILDCARDS = [
  { address: '0.0.0.0' as Address, names: ['all', '0.0.0.0/0'] },
  { address: '::' as Address, names: ['all', '::/0'] },
]
