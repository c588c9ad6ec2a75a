import type { MemoryTimeouts } from './node.js'
import { exchanged, hasConnections, isPureSyn, type Packet, TcpFlag, type Tuple, tupleKey, UDP } from './packet.js'
import type { MemoryBackend, MemoryService } from './services.js'

export type FlowState = 'opening' | 'established' | 'half-closed' | 'closed'

/** What one side of a flow has said so far. */
interface Said {
  readonly anything: boolean
  readonly fin: boolean
  /** Its last word: a later segment takes it back. */
  readonly rst: boolean
}

/** What both sides have said since the flow was opened. */
export interface History {
  readonly client: Said
  readonly answers: Said
  /** The client went on after a reply. */
  readonly confirmed: boolean
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
  /** One of these: more than one when it may have ended and have been opened again, to the same backend. */
  histories: readonly History[]
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
    return flow.histories.some(
      history => this.#overdue(flow, history, now) + SECOND > 0 || (this.isCrowded && yields(history)),
    )
  }

  /** Whether flows that yield may have to: a new one looks at a few places only. */
  get isCrowded(): boolean {
    return this.size * 8 > this.#limit
  }

  /** Ends what is due for certain, as the agent has it done; what may be due stays, and {@link mayBeGone}. */
  sweep(now: number): void {
    for (const flow of [...this]) if (this.isOver(flow, now)) this.remove(flow)
  }

  /** Whether it is due for certain. */
  isOver(flow: MemoryFlow, now: number): boolean {
    return flow.histories.every(history => this.#overdue(flow, history, now) > SECOND)
  }

  /** Seconds beyond its timeout. */
  #overdue(flow: MemoryFlow, history: History, now: number): number {
    return now - flow.seen - this.#timeout(flow, stateOf(history))
  }

  #timeout({ dialled, backend }: MemoryFlow, state: FlowState): number {
    if (dialled.proto === UDP) {
      if (backend.removed) return LAST_ANSWERS_SECONDS
      return state === 'opening' ? this.#timeouts.udpSeconds : this.#timeouts.udpStreamSeconds
    }
    if (state === 'closed') return this.#timeouts.tcpClosedSeconds
    return state === 'opening' ? this.#timeouts.tcpTransitorySeconds : this.#timeouts.tcpEstablishedSeconds
  }
}

export function stateOf({ client, answers, confirmed }: History): FlowState {
  if (client.rst || answers.rst || (client.fin && answers.fin)) return 'closed'
  if (!confirmed) return 'opening'
  return client.fin || answers.fin ? 'half-closed' : 'established'
}

/** Unconfirmed and closed flows make room for others. */
function yields(history: History): boolean {
  const state = stateOf(history)
  return state === 'opening' || state === 'closed'
}

/**
 * Whether a packet of the client needs another backend: a datagram or a SYN once the
 * backend is removed or the flow's time is over; a SYN when the old connection is, too.
 * Undefined: that depends on which history is the true one.
 */
export function choosesAgain(flow: MemoryFlow, packet: Pick<Packet, 'tcpFlags'>, isOver: boolean): boolean | undefined {
  const connected = hasConnections(flow.dialled.proto)
  if (connected && !isPureSyn(packet)) return false
  if (flow.backend.removed || isOver) return true
  if (!connected) return false
  const over = flow.histories.map(({ client, answers }) => client.fin || client.rst || answers.fin || answers.rst)
  return over.every(each => each === over[0]) ? over[0] : undefined
}

/** What a packet of a flow changes of what is known of it; `anew`: it may have been opened again by this packet. */
export function follow({ flow, direction }: Half, packet: Pick<Packet, 'tcpFlags'>, now: number, anew: boolean): void {
  const connected = hasConnections(flow.dialled.proto)
  flow.seen = now
  flow.histories = distinct([
    ...flow.histories.map(history => heard(history, direction, packet.tcpFlags, connected)),
    ...(anew ? [OPENED] : []),
  ])
}

function heard(history: History, direction: Half['direction'], tcpFlags: number, connected: boolean): History {
  if (connected && opensStill(history, direction, tcpFlags)) return history
  const forward = direction === 'forward'
  const before = forward ? history.client : history.answers
  const rst = (tcpFlags & TcpFlag.RST) !== 0
  const fin = before.fin || (!rst && (tcpFlags & TcpFlag.FIN) !== 0)
  const said = { anything: true, fin, rst }
  if (!forward) return { ...history, answers: said }
  const goesOn = history.answers.anything && !rst && !(tcpFlags & TcpFlag.SYN)
  return { ...history, client: said, confirmed: history.confirmed || goesOn }
}

/**
 * A backend may answer a SYN by a bare ACK for an older connection, which the client
 * resets before it sends its SYN again (RFC 9293 3.10.7.3): none of that counts.
 */
function opensStill({ answers }: History, direction: Half['direction'], tcpFlags: number): boolean {
  if (answers.anything) return false
  return direction === 'forward' ? (tcpFlags & TcpFlag.RST) !== 0 : !(tcpFlags & (TcpFlag.SYN | TcpFlag.RST))
}

const SILENT: Said = { anything: false, fin: false, rst: false }
const OPENED: History = { client: { ...SILENT, anything: true }, answers: SILENT, confirmed: false }

export function newFlow(flow: Omit<MemoryFlow, 'histories'>): MemoryFlow {
  return { ...flow, histories: [OPENED] }
}

function distinct(histories: readonly History[]): readonly History[] {
  return histories.length === 1 ? histories : [...new Map(histories.map(each => [JSON.stringify(each), each])).values()]
}
