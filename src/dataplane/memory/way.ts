import type { Address } from '../../model/address.js'
import type { State } from './state.js'

/** How a packet leaves when it is not left to the stack, or why it cannot. */
export type Way =
  | { readonly device: string }
  | { readonly refusal: 'ttl_exceeded' | 'no_route' }
  | { readonly refusal: 'too_big'; readonly mtu: number }

/** An address of this node counts as no route: what starts or ends here is not ours to send on. */
export function wayTo({ facts }: State, to: Address, packet: { readonly ttl: number; readonly size: number }): Way {
  if (packet.ttl <= 1) return { refusal: 'ttl_exceeded' }
  const target = facts.routes.find(to)
  if (target === 'local' || target === 'unreachable') return { refusal: 'no_route' }
  const { mtu } = facts.devices.get(target.device) ?? { mtu: 0 }
  return packet.size > mtu ? { refusal: 'too_big', mtu } : { device: target.device }
}
