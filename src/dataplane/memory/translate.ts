import { type Answer, after, drop, pass, type Side } from './answer.js'
import { choosesAgain, follow, type Half, type MemoryFlow } from './flows.js'
import { exchanged, hasConnections, isPureSyn, type Packet, SCTP, type Tuple } from './packet.js'
import { refuse } from './refuse.js'
import type { Sighting, State, Step } from './state.js'
import { wayTo } from './way.js'

/** Where packets of this half are translated: replies of backends here on their way out, all others on their way in. */
export function sideOf({ flow, direction }: Half): Side {
  return direction === 'reply' && flow.local ? 'egress' : 'ingress'
}

/** What a packet of this half becomes. */
export function becomesOf({ flow, direction }: Half): Tuple {
  return direction === 'forward' ? flow.sent : exchanged(flow.dialled)
}

/**
 * The answers to a TCP or UDP packet by the flow that it is of; `without` answers when it
 * is of none, or when the one that it was of has ended or may have (`gone`).
 */
export function ofFlow(
  state: State,
  sighting: Sighting,
  without: (gone?: MemoryFlow) => readonly Step[],
): readonly Step[] {
  const { packet, side, now } = sighting
  const half = state.flows.find(packet.tuple)
  if (!half) return without()
  const { flow, direction } = half
  const ended = () => without(flow).map(answer => ({ ...answer, ...after(() => state.flows.remove(flow), answer) }))
  const here = side === sideOf(half)
  const again = here && direction === 'forward' ? choosesAgain(flow, packet, state.flows.isOver(flow, now)) : false
  if (again) return ended()
  const doubt = again === undefined || state.flows.mayBeGone(flow, now)
  const known = knownFlow(state, sighting, half, doubt)
  return doubt ? [known, ...ended()] : [known]
}

/** doubt: it may have ended before. */
function knownFlow(state: State, sighting: Sighting, half: Half, doubt: boolean): Step {
  const { packet, side, now } = sighting
  if (side !== sideOf(half)) return pass('not_service')
  // A packet that can open one may have done so, and looks the same.
  const anew = doubt && half.direction === 'forward' && (!hasConnections(half.flow.dialled.proto) || isPureSyn(packet))
  // Also of a packet that gets no further: its sender has said it.
  return { ...after(() => follow(half, packet, now, anew), translated(state, sighting, half)), served: true }
}

function translated(state: State, sighting: Sighting, half: Half): Answer {
  const { flow, direction } = half
  const to = becomesOf(half)
  const outcome = direction === 'reply' ? 'replied' : flow.local ? 'delivered' : 'forwarded'
  if (flow.local) {
    if (cannotFollow(sighting.packet, to)) return drop('bad_fragment')
    return { outcome, verdict: 'next', becomes: { kind: 'translated', to, routed: false } }
  }
  const way = wayTo(state, to.dst, sighting.packet)
  if ('refusal' in way) return refuse(state, sighting, way.refusal, 'mtu' in way ? way.mtu : 0)
  if (cannotFollow(sighting.packet, to)) return drop('bad_fragment')
  return { outcome, verdict: 'redirect', becomes: { kind: 'translated', to, routed: true } }
}

/** The checksum of SCTP covers ports, and what a change does to it depends on a length that a first fragment does not tell. */
function cannotFollow({ tuple, fragment }: Packet, to: Tuple): boolean {
  const portsChange = tuple.sport !== to.sport || tuple.dport !== to.dport
  return tuple.proto === SCTP && fragment?.offset === 0 && portsChange
}
