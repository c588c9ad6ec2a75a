import type { DesiredState } from '../../model/desired.js'
import type { ApplyReport, Dataplane, Missing } from '../dataplane.js'
import type { FlowRow } from '../inspection.js'
import type { Answer } from './answer.js'
import { type FlowState, MemoryFlows, stateOf } from './flows.js'
import { MemoryFragments } from './fragments.js'
import type { NodeFacts } from './node.js'
import type { Tuple } from './packet.js'
import { MemoryServices } from './services.js'
import type { Sighting, State } from './state.js'
import { atEgress, atIngress } from './steps.js'

/**
 * The reference: given a desired state and a packet it says where the packet goes, by the
 * rules of docs/packet-path.md and docs/semantics.md. It has no kernel and no clock: time
 * and random choices are told to it. Where a choice is free, each of its outcomes is one
 * answer, and the one that was observed becomes what has happened.
 */
export class MemoryDataplane implements Dataplane {
  readonly name = 'memory'
  readonly #state: State

  constructor(facts: NodeFacts) {
    this.#state = {
      facts,
      services: new MemoryServices(),
      flows: new MemoryFlows(facts.timeouts, facts.flows),
      fragments: new MemoryFragments(),
    }
  }

  async probe(): Promise<readonly Missing[]> {
    return []
  }

  async start(): Promise<void> {}

  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    this.take(desired, prune)
    const services = changed?.size ?? desired.services.size
    return { revision: desired.revision, services, writes: 0, failed: [] }
  }

  async stop(): Promise<void> {}

  async cleanup(): Promise<void> {}

  /** {@link apply}, at once. */
  take(desired: DesiredState, prune = true): void {
    this.#state.services.apply(desired, prune)
  }

  /** All that may happen to a packet, at least one thing; changes nothing until an answer is taken. */
  where(sighting: Sighting): readonly Answer[] {
    return sighting.side === 'ingress' ? atIngress(this.#state, sighting) : atEgress(this.#state, sighting)
  }

  /**
   * An answer was taken that could not be told from another one, so it is not known which
   * backend the client of this packet is bound to, if any: its next flow says so.
   */
  doubtAffinity({ src, dst, dport, proto }: Tuple): void {
    this.#state.services.frontend(dst, dport, proto)?.service.affinities.delete(src)
  }

  /** Ends the flows that are due, as the agent does now and then. `now` in seconds. */
  sweep(now: number): void {
    this.#state.flows.sweep(now)
  }

  /**
   * Known flows, in no particular order; those that may have ended without a packet are
   * `uncertain`, and `states` are all that they may be in.
   */
  flows(now: number): (FlowRow & { readonly uncertain: boolean; readonly states: readonly FlowState[] })[] {
    return Array.from(this.#state.flows, flow => {
      const { namespace, name, portName, protocol } = flow.service.desired
      const states = flow.histories.map(stateOf)
      return {
        namespace,
        service: name,
        port: portName,
        protocol,
        client: flow.dialled.src,
        clientPort: flow.dialled.sport,
        frontend: flow.dialled.dst,
        frontendPort: flow.dialled.dport,
        backend: flow.sent.dst,
        backendPort: flow.sent.dport,
        source: flow.sent.src,
        sourcePort: flow.sent.sport,
        state: states[0] ?? 'opening',
        states,
        local: flow.local,
        idleSeconds: now - flow.seen,
        uncertain: this.#state.flows.mayBeGone(flow, now),
      }
    })
  }
}
