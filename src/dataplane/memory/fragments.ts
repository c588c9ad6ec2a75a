import type { Packet, Tuple } from './packet.js'
import type { MemoryBackend } from './services.js'

/** What the first fragment of a datagram said. */
export interface FirstFragment {
  readonly sport: number
  readonly dport: number
  readonly proto: number
  /** Bytes of data in it: later ones begin behind them. */
  readonly size: number
  /** Where its flow leads; unset = it is no Service's, and later ones are left alone. */
  readonly backend: MemoryBackend | undefined
  readonly seen: number
}

interface Held {
  readonly frame: Uint8Array
  readonly seen: number
}

/** As long as Linux waits for the rest of a datagram (net.ipv4.ipfrag_time). */
const REMEMBERED_SECONDS = 30
const HELD_SECONDS = 2
const HELD_OF_ONE = 16
const HELD_FRAME_BYTES = 1600

/** First fragments that were seen, and later ones that wait for theirs. */
export class MemoryFragments {
  readonly #first = new Map<string, FirstFragment>()
  readonly #held = new Map<string, (Held | undefined)[]>()

  remember(packet: Packet, backend: MemoryBackend | undefined, now: number): void {
    const { sport, dport, proto } = packet.tuple
    const size = packet.fragment?.size ?? 0
    this.#first.set(keyOf(packet), { sport, dport, proto, size, backend, seen: now })
  }

  find(packet: Packet, now: number): FirstFragment | undefined {
    const first = this.#first.get(keyOf(packet))
    return first && now - first.seen <= REMEMBERED_SECONDS ? first : undefined
  }

  /** Whether there is room for a copy of this frame to wait. */
  canHold(packet: Packet, now: number): boolean {
    if (packet.frameSize > HELD_FRAME_BYTES) return false
    const waiting = this.#held.get(keyOf(packet))?.filter(held => isFresh(held, now)).length ?? 0
    return waiting < HELD_OF_ONE
  }

  hold(packet: Packet, frame: Uint8Array, now: number): void {
    const key = keyOf(packet)
    const places = this.#held.get(key) ?? new Array<Held | undefined>(HELD_OF_ONE).fill(undefined)
    this.#held.set(key, places)
    places[places.findIndex(held => !isFresh(held, now))] = { frame, seen: now }
  }

  /** The frames that wait for this first fragment; undefined = none ever did. */
  waiting(packet: Packet, now: number): readonly Uint8Array[] | undefined {
    return this.#held.get(keyOf(packet))?.flatMap(held => (held && isFresh(held, now) ? [held.frame] : []))
  }

  release(packet: Packet): void {
    this.#held.delete(keyOf(packet))
  }
}

function isFresh(held: Held | undefined, now: number): boolean {
  return held !== undefined && now - held.seen < HELD_SECONDS
}

/** IPv6 tells the protocol in the first fragment alone. */
function keyOf({ tuple, family, fragment }: Packet): string {
  return `${tuple.src} ${tuple.dst} ${fragment?.id} ${family === 'IPv4' ? tuple.proto : ''}`
}

/** The tuple of a later fragment, once its first one is known. */
export function joined(tuple: Tuple, { sport, dport, proto }: FirstFragment): Tuple {
  return { ...tuple, sport, dport, proto }
}
