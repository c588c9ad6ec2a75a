import { type Answer, drop, pass } from './answer.js'
import type { Half } from './flows.js'
import { isReceiver } from './node.js'
import { exchanged } from './packet.js'
import type { Sighting, State } from './state.js'
import { becomesOf, sideOf } from './translate.js'
import { wayTo } from './way.js'

/** The answers to a whole ICMP message. */
export function icmp(state: State, sighting: Sighting): readonly Answer[] {
  const message = sighting.packet.icmp
  if (message?.kind === 'error') return aboutFlow(state, sighting)
  if (message?.kind === 'echo request' && sighting.side === 'ingress') return [ping(state, sighting)]
  return [pass('not_handled')]
}

/**
 * What an error quotes, exchanged, is the tuple of the other half of a flow; the error
 * goes that half's way, and neither opens a flow nor keeps one alive.
 */
function aboutFlow(state: State, sighting: Sighting): readonly Answer[] {
  const message = sighting.packet.icmp
  if (message?.kind !== 'error') return []
  if (message.quote === undefined) return [pass(message.left ?? 'malformed')]
  // It comes to whom sent what it quotes.
  if (message.quote.src !== sighting.packet.tuple.dst) return [pass('not_service')]
  const half = state.flows.find(exchanged(message.quote))
  if (!half) return [pass('not_service')]
  const known = translated(state, sighting, half)
  return state.flows.mayBeGone(half.flow, sighting.now) ? [known, pass('not_service')] : [known]
}

function translated(state: State, { packet, side }: Sighting, half: Half): Answer {
  if (side !== sideOf(half)) return pass('not_service')
  const to = becomesOf(half)
  const before = half.direction === 'forward' ? half.flow.dialled : exchanged(half.flow.sent)
  // A router's own address is kept where the flow's source is.
  const src = to.src === before.src ? packet.tuple.src : to.src
  const { local } = half.flow
  if (!local) {
    const way = wayTo(state, to.dst, packet)
    if ('refusal' in way) return drop(way.refusal)
  }
  return {
    outcome: 'icmp_translated',
    verdict: local ? 'next' : 'redirect',
    becomes: { kind: 'error', src, dst: to.dst, quote: exchanged(to), routed: !local },
  }
}

/** An address that is also the node's own is the host's to answer for; of others the answer is a setting. */
function ping(state: State, { packet }: Sighting): Answer {
  const { src, dst } = packet.tuple
  if (!state.services.hasAddress(dst) || state.facts.ownAddresses.has(dst)) return pass('not_handled')
  if (!state.facts.answerPing || !isReceiver(src)) return drop('ping_ignored')
  const way = wayTo(state, src, { ttl: 64, size: packet.size })
  if ('refusal' in way) return drop(way.refusal)
  return { outcome: 'ping_answered', verdict: 'redirect', becomes: { kind: 'echo reply' } }
}
