import { type Answer, after, drop, type OutcomeName, pass } from './answer.js'
import { type FirstFragment, joined } from './fragments.js'
import { icmp } from './icmp.js'
import { deviceAddress } from './node.js'
import { open } from './open.js'
import type { Packet } from './packet.js'
import type { Sighting, State, Step } from './state.js'
import { ofFlow, sideOf } from './translate.js'

/** What may happen to a packet as it arrives: the order of questions. */
export function atIngress(state: State, sighting: Sighting): readonly Answer[] {
  const { packet } = sighting
  if (!packet.forHost) return [pass(packet.left ?? 'not_handled')]
  if (!isLaterFragment(packet) || packet.left) return atItsFlow(state, sighting)
  const first = state.fragments.find(packet, sighting.now)
  return first ? withFirst(state, sighting, first) : [early(state, sighting)]
}

/** What may happen to a packet on its way out: only replies of backends here are changed. */
export function atEgress(state: State, sighting: Sighting): readonly Answer[] {
  const { packet } = sighting
  if (!isLaterFragment(packet) || packet.left) return atItsFlow(state, sighting)
  // Fragments leave in order: this node made them, or put them in order.
  const first = state.fragments.find(packet, sighting.now)
  return first ? withFirst(state, sighting, first) : [pass('fragment')]
}

function isLaterFragment({ fragment }: Packet): boolean {
  return fragment !== undefined && fragment.offset > 0
}

function atItsFlow(state: State, sighting: Sighting): readonly Answer[] {
  const { packet, side } = sighting
  if (packet.defect) return judge(state, sighting, packet.defect)
  if (packet.left) return [pass(packet.left)]
  if (packet.icmp) return icmp(state, sighting)
  const isNew = side === 'ingress' && !isLaterFragment(packet)
  const steps = ofFlow(state, sighting, gone => (isNew ? open(state, sighting, gone) : withoutFlow(sighting)))
  return packet.fragment?.offset === 0 ? settle(state, sighting, steps) : steps
}

/** Of no flow, and nothing that opens one. */
function withoutFlow({ side }: Sighting): readonly Step[] {
  return [side === 'egress' ? pass('not_service') : drop('fragment')]
}

/** Something is wrong with it: it is dropped if it is a Service's. */
function judge(state: State, { packet, now }: Sighting, defect: OutcomeName): readonly Answer[] {
  const { services, flows, facts } = state
  const { tuple, left } = packet
  if (left !== undefined && left !== defect) return [pass(left)]
  const { dst, dport, proto } = tuple
  // Where the ports could not be read the address decides.
  const isServices = !left && services.frontend(dst, dport, proto) !== undefined
  if (isServices || (services.hasAddress(dst) && !facts.ownAddresses.has(dst))) return [drop(defect)]
  const flow = left ? undefined : flows.find(tuple)?.flow
  const others = pass(left ?? 'not_service')
  if (flow === undefined) return [others]
  return flows.mayBeGone(flow, now) ? [drop(defect), others] : [drop(defect)]
}

/** A later fragment is a packet of the flow of its first one. */
function withFirst(state: State, sighting: Sighting, first: FirstFragment): readonly Answer[] {
  const { packet } = sighting
  if (first.backend === undefined) return [pass('fragment')]
  // It would replace what the first one was judged by (RFC 1858 4).
  const overlaps = (packet.fragment?.offset ?? 0) < first.size
  const defect = overlaps ? ('bad_fragment' as const) : packet.defect
  const joint = { ...sighting, packet: { ...packet, tuple: joined(packet.tuple, first), defect } }
  if (defect) return judge(state, joint, defect)
  const half = state.flows.find(joint.packet.tuple)
  // Two backends never get parts of one datagram.
  const another = half && half.flow.backend !== first.backend && sideOf(half) === sighting.side
  if (!another) return atItsFlow(state, joint)
  return [drop('fragment'), ...(state.flows.mayBeGone(half.flow, sighting.now) ? withoutFlow(joint) : [])]
}

/** A later fragment of which nothing is known yet: a copy waits, if it may be a Service's. */
function early(state: State, { packet, frame, device, now }: Sighting): Answer {
  const { services, facts, fragments } = state
  const { dst } = packet.tuple
  const isServices = services.hasAddress(dst)
  const forNode = isServices ? facts.ownAddresses.has(dst) : isAddressOf(state, packet, device)
  if (!isServices && !forNode) return pass('fragment')
  if (!fragments.canHold(packet, now)) return forNode ? pass('fragment') : drop('fragment')
  const held: Answer = { outcome: 'fragment_held', verdict: forNode ? 'next' : 'drop' }
  return after(() => fragments.hold(packet, frame, now), held)
}

function isAddressOf({ facts }: State, { tuple, family }: Packet, device: string): boolean {
  return deviceAddress(facts.devices.get(device), family) === tuple.dst
}

/** Notes for the later ones what a first fragment is part of, and lets go those that waited for it. */
function settle(state: State, sighting: Sighting, steps: readonly Step[]): readonly Answer[] {
  const { packet, frame, side, device, now } = sighting
  const waiting = side === 'ingress' ? state.fragments.waiting(packet, now) : undefined
  return steps.map(step => {
    if (step.served && waiting) return release(state, packet, [frame, ...waiting])
    if (step.served) return thenRemember(state, sighting, step)
    // Spares the host's own fragments being held.
    if (side === 'egress' || step.verdict !== 'next' || !isAddressOf(state, packet, device)) return step
    return after(() => state.fragments.remember(packet, undefined, now), step)
  })
}

/** Notes where the flow leads that it is of by then. */
function thenRemember({ fragments, flows }: State, { packet, now }: Sighting, step: Step): Answer {
  return {
    ...step,
    take(seen) {
      step.take?.(seen)
      fragments.remember(packet, flows.find(packet.tuple)?.flow.backend, now)
    },
  }
}

/** All that is known of its flow by now is seen when it comes again. */
function release(state: State, packet: Packet, frames: readonly Uint8Array[]): Answer {
  return {
    outcome: 'fragment_released',
    verdict: 'drop',
    becomes: { kind: 'again', frames },
    take: () => state.fragments.release(packet),
  }
}
