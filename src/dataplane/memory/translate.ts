import { type Answer, after, pass, type Side } from './answer.js'
import { choosesAgain, follow, type Half, type MemoryFlow } from './flows.js'
import { exchanged, type Tuple } from './packet.js'
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
  const known = knownFlow(state, sighting, half)
  if (side === sideOf(half) && direction === 'forward' && choosesAgain(flow, packet)) return ended()
  return state.flows.mayBeGone(flow, now) ? [known, ...ended()] : [known]
}

function knownFlow(state: State, sighting: Sighting, half: Half): Step {
  const { packet, side, now } = sighting
  if (side !== sideOf(half)) return pass('not_service')
  // Also of a packet that gets no further: its sender has said it.
  return { ...after(() => follow(half, packet, now), translated(state, sighting, half)), served: true }
}

function translated(state: State, sighting: Sighting, half: Half): Answer {
  const { flow, direction } = half
  const to = becomesOf(half)
  const outcome = direction === 'reply' ? 'replied' : flow.local ? 'delivered' : 'forwarded'
  if (flow.local) return { outcome, verdict: 'next', becomes: { kind: 'translated', to, routed: false } }
  const way = wayTo(state, to.dst, sighting.packet)
  if ('refusal' in way) return refuse(state, sighting, way.refusal, 'mtu' in way ? way.mtu : 0)
  return { outcome, verdict: 'redirect', becomes: { kind: 'translated', to, routed: true } }
}
