import type { Answer, Side } from './answer.js'
import type { MemoryFlows } from './flows.js'
import type { MemoryFragments } from './fragments.js'
import type { NodeFacts } from './node.js'
import type { Packet } from './packet.js'
import type { MemoryServices } from './services.js'

/** All that the reference knows when a packet comes. */
export interface State {
  readonly facts: NodeFacts
  readonly services: MemoryServices
  readonly flows: MemoryFlows
  readonly fragments: MemoryFragments
}

/** A packet, where and when it was seen. */
export interface Sighting {
  readonly packet: Packet
  /** Its bytes: a fragment that comes early is sent again as it came. */
  readonly frame: Uint8Array
  readonly side: Side
  /** Name of the device. */
  readonly device: string
  /** Seconds, monotonic. */
  readonly now: number
}

/** An answer to a TCP or UDP packet; served = it is of a flow, known or new. */
export interface Step extends Answer {
  readonly served?: true
}
