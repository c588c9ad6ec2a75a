import type { MemoryTimeouts } from './node.js'
import { exchanged, isPureSyn, type Packet, TCP, TcpFlag, type Tuple, tupleKey, UDP } from './packet.js'
import type { MemoryBackend, MemoryService } from './services.js'

export type FlowState = 'opening' | 'established' | 'half-closed' | 'closed'

/** What one side of a flow has said so far. */
interface Said {
  anything: boolean
  fin: boolean
  /** Its last word: a later segment takes it back. */
  rst: boolean
}

export interface MemoryFlow {
  readonly service: MemoryService
  readonly backend: MemoryBackend
  /** A packet of the client, as it arrives. */
  readonly dialled: Tuple
  /** The same, as the backend gets it. */
  readonly sent: Tuple
  /** Through the node's stack to a backend here; else redirected, both ways. */
  readonly local: boolean
  readonly client: Said
  readonly answers: Said
  /** The client went on after a reply. */
  confirmed: boolean
  /** Of the last packet of either side, seconds. */
  seen: number
}

/** A flow and the direction in which a tuple belongs to it. */
export interface Half {
  readonly flow: MemoryFlow
  readonly direction: 'forward' | 'reply'
}

/** Silence after which a datagram flow to a removed backend ends: answers under way still find it. */
const LAST_ANSWERS_SECONDS = 5

/** Times of flows are kept to the second, and clocks tick. */
const SECOND = 1.1

/**
 * The flows of a node: one record each, found by the tuple as dialled and by that of the
 * replies. Both come and go together.
 */
export class MemoryFlows {
  readonly #byTuple = new Map<string, Half>()
  readonly #timeouts: MemoryTimeouts
  readonly #limit: number

  constructor(timeouts: MemoryTimeouts, limit: number) {
    this.#timeouts = timeouts
    this.#limit = limit
  }

  get size(): number {
    return this.#byTuple.size / 2
  }

  *[Symbol.iterator](): Iterator<MemoryFlow> {
    for (const { flow, direction } of this.#byTuple.values()) if (direction === 'forward') yield flow
  }

  find(tuple: Tuple): Half | undefined {
    return this.#byTuple.get(tupleKey(tuple))
  }

  add(flow: MemoryFlow): void {
    for (const tuple of [flow.dialled, exchanged(flow.sent)]) {
      const other = this.find(tuple)
      if (other !== undefined) this.remove(other.flow)
    }
    this.#byTuple.set(tupleKey(flow.dialled), { flow, direction: 'forward' })
    this.#byTuple.set(tupleKey(exchanged(flow.sent)), { flow, direction: 'reply' })
  }

  remove(flow: MemoryFlow): void {
    this.#byTuple.delete(tupleKey(flow.dialled))
    this.#byTuple.delete(tupleKey(exchanged(flow.sent)))
  }

  /**
   * Whether a new flow may have taken its place: it is due, or the table is so full that
   * those which yield do.
   */
  mayBeGone(flow: MemoryFlow, now: number): boolean {
    return this.#silence(flow, now) + SECOND > 0 || (this.isCrowded && yields(flow))
  }

  /** Whether flows that yield may have to: a new one looks at a few places only. */
  get isCrowded(): boolean {
    return this.size * 8 > this.#limit
  }

  /** Ends what is due for certain, as the agent's walk does; what may be due stays, and {@link mayBeGone}. */
  sweep(now: number): void {
    for (const flow of [...this]) if (this.#silence(flow, now) > SECOND) this.remove(flow)
  }

  /** Seconds beyond its timeout. */
  #silence(flow: MemoryFlow, now: number): number {
    return now - flow.seen - this.#timeoutOf(flow)
  }

  #timeoutOf({ dialled, backend, ...flow }: MemoryFlow): number {
    const state = stateOf(flow)
    if (dialled.proto === UDP) {
      if (backend.removed) return LAST_ANSWERS_SECONDS
      return state === 'opening' ? this.#timeouts.udpSeconds : this.#timeouts.udpStreamSeconds
    }
    if (state === 'closed') return this.#timeouts.tcpClosedSeconds
    return state === 'opening' ? this.#timeouts.tcpTransitorySeconds : this.#timeouts.tcpEstablishedSeconds
  }
}

export function stateOf({
  client,
  answers,
  confirmed,
}: Pick<MemoryFlow, 'client' | 'answers' | 'confirmed'>): FlowState {
  if (client.rst || answers.rst || (client.fin && answers.fin)) return 'closed'
  if (!confirmed) return 'opening'
  return client.fin || answers.fin ? 'half-closed' : 'established'
}

/** Unconfirmed and closed flows make room for others. */
function yields(flow: MemoryFlow): boolean {
  const state = stateOf(flow)
  return state === 'opening' || state === 'closed'
}

/**
 * Whether a packet of the client needs another backend: a datagram once its backend is
 * removed; of TCP a SYN, when the old connection is over or its backend is removed.
 */
export function choosesAgain(flow: MemoryFlow, packet: Pick<Packet, 'tcpFlags'>): boolean {
  if (flow.dialled.proto !== TCP) return flow.backend.removed
  if (!isPureSyn(packet)) return false
  const { client, answers, backend } = flow
  return client.fin || client.rst || answers.fin || answers.rst || backend.removed
}

/** What a packet of a flow changes of what is known of it. */
export function follow({ flow, direction }: Half, { tcpFlags }: Pick<Packet, 'tcpFlags'>, now: number): void {
  flow.seen = now
  if (flow.dialled.proto === TCP && opensStill(flow, direction, tcpFlags)) return
  const side = direction === 'forward' ? flow.client : flow.answers
  side.anything = true
  side.rst = (tcpFlags & TcpFlag.RST) !== 0
  if (side.rst) return
  if (tcpFlags & TcpFlag.FIN) side.fin = true
  if (direction === 'forward' && flow.answers.anything && !(tcpFlags & TcpFlag.SYN)) flow.confirmed = true
}

/**
 * A backend may answer a SYN by a bare ACK for an older connection, which the client
 * resets before it sends its SYN again (RFC 9293 3.10.7.3): none of that counts.
 */
function opensStill(flow: MemoryFlow, direction: Half['direction'], tcpFlags: number): boolean {
  if (flow.answers.anything) return false
  return direction === 'forward' ? (tcpFlags & TcpFlag.RST) !== 0 : !(tcpFlags & (TcpFlag.SYN | TcpFlag.RST))
}

export function newFlow(flow: Omit<MemoryFlow, 'client' | 'answers' | 'confirmed'>): MemoryFlow {
  const silent = { anything: false, fin: false, rst: false }
  return { ...flow, client: { ...silent, anything: true }, answers: silent, confirmed: false }
}
