import type { Address } from '../../model/address.js'
import type { Tuple } from './packet.js'

/** Where the packet is seen: as it arrives at an uplink, or as it is about to leave by one. */
export type Side = 'ingress' | 'egress'

/** Names of the ways out of the packet layer (docs/packet-path.md, "Outcomes"). */
export type OutcomeName =
  | 'not_service'
  | 'not_handled'
  | 'fragment'
  | 'bad_fragment'
  | 'fragment_held'
  | 'fragment_released'
  | 'delivered'
  | 'forwarded'
  | 'replied'
  | 'unknown_flow'
  | 'host_port'
  | 'no_port'
  | 'no_backend'
  | 'no_local_backend'
  | 'source_denied'
  | 'malformed'
  | 'source_route'
  | 'extension_headers'
  | 'martian'
  | 'snat_exhausted'
  | 'flows_full'
  | 'no_route'
  | 'no_source_address'
  | 'ttl_exceeded'
  | 'too_big'
  | 'icmp_translated'
  | 'ping_answered'
  | 'ping_ignored'

/** next: as if we were not there, unless it was changed. */
export type Verdict = 'next' | 'drop' | 'redirect'

/** A source port that may be any of several. */
export interface PortChoice {
  has(port: number): boolean
}

/** What a packet has become when it is neither unchanged nor gone. */
export type Becomes =
  /** Its tuple is `to`, with a source port of `sport` where that is given; routed = its TTL is one less. */
  | { readonly kind: 'translated'; readonly to: Tuple; readonly sport?: PortChoice; readonly routed: boolean }
  /** An ICMP error from `src` to `dst`, which quotes a packet with the tuple `quote`. */
  | {
      readonly kind: 'error'
      readonly src: Address
      readonly dst: Address
      readonly quote: Tuple
      readonly routed: boolean
    }
  /** The reset for a SYN, from where it went to. */
  | { readonly kind: 'reset' }
  /** An ICMP error about the packet, from `src`. */
  | { readonly kind: 'refusal'; readonly what: Refusal; readonly src: Address; readonly mtu: number }
  | { readonly kind: 'echo reply' }
  /** Dropped, and seen again at ingress: itself, then these frames, each as it came. */
  | { readonly kind: 'again'; readonly frames: readonly Uint8Array[] }

export type Refusal = 'port unreachable' | 'time exceeded' | 'too big'

/** One thing that may happen to a packet. */
export interface Answer {
  readonly outcome: OutcomeName
  readonly verdict: Verdict
  readonly becomes?: Becomes
  /** Makes this what has happened. `seen` is the tuple that the packet has now, where the answer left a choice. */
  take?(seen: Tuple): void
}

/** Left alone: the stack, or who comes after us, sees it unchanged. */
export function pass(outcome: OutcomeName): Answer {
  return { outcome, verdict: 'next' }
}

export function drop(outcome: OutcomeName, take?: () => void): Answer {
  return { outcome, verdict: 'drop', ...(take && { take }) }
}

/** The same answer, before which something else happens. */
export function after(first: () => void, answer: Answer): Answer {
  return {
    ...answer,
    take(seen) {
      first()
      answer.take?.(seen)
    },
  }
}
