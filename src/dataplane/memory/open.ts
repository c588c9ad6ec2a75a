import { cidrHas } from '../../model/cidr.js'
import { type Answer, drop, type PortChoice, pass } from './answer.js'
import { chooseBackend, isBoundToNode } from './choice.js'
import { type MemoryFlow, newFlow } from './flows.js'
import { deviceAddress, isNoClient } from './node.js'
import { exchanged, hasConnections, isPureSyn, SCTP, type Tuple } from './packet.js'
import { refuse } from './refuse.js'
import type { MemoryBackend, MemoryFrontend } from './services.js'
import type { Sighting, State, Step } from './state.js'
import { wayTo } from './way.js'

/**
 * The answers to a TCP, UDP or SCTP packet that is of no flow. `gone` is one that has ended by
 * this packet: what it held is free.
 */
export function open(state: State, sighting: Sighting, gone?: MemoryFlow): readonly Step[] {
  const { packet } = sighting
  const { src, dst, dport, proto } = packet.tuple
  const frontend = state.services.frontend(dst, dport, proto)
  // It may be of a connection from before us, which netfilter translates.
  if (hasConnections(proto) && !isPureSyn(packet)) return [pass(frontend ? 'unknown_flow' : 'not_service')]
  // An INIT is small; in fragments its ports could not be changed.
  if (proto === SCTP && packet.fragment) return [frontend ? drop('bad_fragment') : pass('not_service')]
  if (!frontend) return [withoutFrontend(state, sighting)]
  if (isLoopback(frontend)) return [pass('not_service')]
  if (isForged(state, sighting)) return [drop('martian')]
  if (!isLetIn(frontend, src)) return [drop('source_denied')]
  return give(state, sighting, frontend, gone)
}

function withoutFrontend(state: State, sighting: Sighting): Answer {
  const { dst } = sighting.packet.tuple
  if (!state.services.hasAddress(dst)) return pass('not_service')
  if (state.facts.ownAddresses.has(dst)) return pass('host_port')
  return refuse(state, sighting, 'no_port')
}

/** For sockets of the node alone: no packet may reach it (CVE-2020-8558). */
function isLoopback({ address }: MemoryFrontend): boolean {
  return address.startsWith('127.') || address === '::1'
}

/** No client has such an address; a frontend as source would let two Services answer each other for ever. */
function isForged({ services, facts }: State, { packet, device }: Sighting): boolean {
  const { src, sport, dst, proto } = packet.tuple
  const own = deviceAddress(facts.devices.get(device), packet.family)
  return isNoClient(src) || src === dst || src === own || services.frontend(src, sport, proto) !== undefined
}

/** Source ranges bind load-balancer addresses, whoever dials them. */
function isLetIn({ kind, service }: MemoryFrontend, client: Tuple['src']): boolean {
  const { sourceRanges } = service.desired
  if (kind !== 'LoadBalancer' || sourceRanges === undefined) return true
  return sourceRanges.ranges.some(range => cidrHas(range, client))
}

/** What comes of each backend that it may get. */
function give(state: State, sighting: Sighting, frontend: MemoryFrontend, gone?: MemoryFlow): readonly Step[] {
  const { packet, now } = sighting
  const { service } = frontend
  const choice = chooseBackend(service, isBoundToNode(state.services, frontend, packet.tuple.src), packet, now)
  if ('refusal' in choice) return [refuse(state, sighting, choice.refusal)]
  const steps: Step[] = []
  // A packet that gets no further does not show which backend it was given: one of those that end like this.
  const failed = new Map<string, { readonly answer: Answer; readonly backends: MemoryBackend[] }>()
  for (const backend of choice.backends) {
    for (const way of waysTo(state, sighting, backend, gone)) {
      if ('failure' in way) {
        const key = `${way.failure.outcome} ${JSON.stringify(way.failure.becomes)}`
        const same = failed.get(key) ?? { answer: way.failure, backends: [] }
        failed.set(key, same)
        same.backends.push(backend)
        continue
      }
      const { to, sport, local } = way
      steps.push({
        outcome: local ? 'delivered' : 'forwarded',
        verdict: local ? 'next' : 'redirect',
        becomes: { kind: 'translated', to, ...(sport && { sport }), routed: !local },
        served: true,
        take(sent) {
          choice.take([backend])
          state.flows.add(newFlow({ service, backend, dialled: packet.tuple, sent, local, seen: now }))
        },
      })
    }
  }
  for (const { answer, backends } of failed.values()) steps.push({ ...answer, take: () => choice.take(backends) })
  return steps
}

type WayToBackend =
  | { readonly failure: Answer }
  | { readonly to: Tuple; readonly sport?: PortChoice; readonly local: boolean }

function waysTo(state: State, sighting: Sighting, backend: MemoryBackend, gone?: MemoryFlow): readonly WayToBackend[] {
  const { tuple } = sighting.packet
  const to = { ...tuple, dst: backend.address, dport: backend.port }
  // A pod that is its own backend would drop a packet of its own: it sees this node as the client.
  const itself = tuple.src === backend.address
  return backend.desired.local && !itself
    ? waysHere(state, sighting, to, gone)
    : waysElsewhere(state, sighting, to, gone)
}

/** The client's own port, unless another flow's replies would look the same. */
function waysHere(state: State, { now }: Sighting, to: Tuple, gone?: MemoryFlow): readonly WayToBackend[] {
  const other = state.flows.find(exchanged(to))?.flow
  const taken = other !== undefined && other !== gone
  const ways: WayToBackend[] = []
  if (!taken || state.flows.mayBeGone(other, now)) ways.push({ to, local: true })
  if (taken) ways.push({ to, sport: freePorts(state, to, now, gone), local: true }, ...exhausted(state, to))
  return [...ways, ...full(state)]
}

/** The node's address on the device that the packet leaves by, and a port of its own. */
function waysElsewhere(state: State, sighting: Sighting, to: Tuple, gone?: MemoryFlow): readonly WayToBackend[] {
  const { packet, now } = sighting
  const way = wayTo(state, to.dst, packet)
  if ('refusal' in way) {
    return [{ failure: refuse(state, sighting, way.refusal, 'mtu' in way ? way.mtu : 0) }, ...full(state)]
  }
  const src = deviceAddress(state.facts.devices.get(way.device), packet.family)
  if (src === undefined) return [{ failure: drop('no_source_address') }, ...full(state)]
  const from = { ...to, src }
  const free = freePorts(state, from, now, gone)
  const sport = { has: (port: number) => !state.services.frontend(src, port, to.proto) && free.has(port) }
  return [{ to: from, sport, local: false }, ...exhausted(state, from), ...full(state)]
}

/** Those with which no other flow's replies would look the same. */
function freePorts({ facts, flows }: State, to: Tuple, now: number, gone?: MemoryFlow): PortChoice {
  return {
    has(sport) {
      if (!facts.sourcePorts.some(([first, last]) => sport >= first && sport <= last)) return false
      const other = flows.find(exchanged({ ...to, sport }))?.flow
      return other === undefined || other === gone || flows.mayBeGone(other, now)
    },
  }
}

/** The tries are bounded, so with most ports taken none may be found. */
function exhausted({ facts, flows }: State, to: Tuple): readonly WayToBackend[] {
  const ports = facts.sourcePorts.reduce((sum, [first, last]) => sum + last - first + 1, 0)
  if (flows.size * 2 < ports) return []
  let taken = 0
  for (const { sent } of flows) {
    if (sent.src === to.src && sent.dst === to.dst && sent.dport === to.dport && sent.proto === to.proto) taken++
  }
  return taken * 2 < ports ? [] : [{ failure: drop('snat_exhausted') }]
}

/** Confirmed flows stay, whatever arrives. */
function full({ flows }: State): readonly WayToBackend[] {
  return flows.isCrowded ? [{ failure: drop('flows_full') }] : []
}
