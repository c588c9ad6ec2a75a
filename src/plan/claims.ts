import type { FrontendKind } from '../model/desired.js'

/** A Service port that wants a frontend. */
export interface Claim {
  /** ServicePort.id */
  readonly id: string
  readonly kind: FrontendKind
  /** Creation time of its Service, seconds; undefined for manifests. */
  readonly created: number | undefined
}

/**
 * What the API server allocates goes before what users write: no externalIP takes a
 * cluster IP or a node port away (CVE-2020-8554).
 */
const PRECEDENCE: Readonly<Record<FrontendKind, number>> = { ClusterIP: 0, NodePort: 1, LoadBalancer: 2, ExternalIP: 3 }

/**
 * Who owns each frontend (`address port protocol`). Two Services may claim the same one:
 * the better kind wins, then the older Service, then, where no time of creation is
 * known, the one that has it already, then the smaller id. So with creation times all
 * nodes decide alike, whatever the order of events and however often they restart.
 */
export class Claims {
  readonly #owner = new Map<string, Claim>()
  /** Only frontends that somebody else wants, too. */
  readonly #waiting = new Map<string, Map<string, Claim>>()

  /** The owner of a frontend that somebody claims. */
  owner(frontend: string): Claim | undefined {
    return this.#owner.get(frontend)
  }

  /**
   * Adds a claim, or changes the one of the same id. Returns the ids that should look
   * again: those whose ownership changed, and those who wait there.
   */
  add(frontend: string, claim: Claim): readonly string[] {
    const before = this.remove(frontend, claim.id)
    const owner = this.#owner.get(frontend)
    if (owner === undefined) {
      this.#owner.set(frontend, claim)
      return [claim.id]
    }
    const wins = beats(claim, owner)
    const loser = wins ? owner : claim
    if (wins) this.#owner.set(frontend, claim)
    const others = this.#waiting.get(frontend) ?? new Map<string, Claim>()
    this.#waiting.set(frontend, others.set(loser.id, loser))
    return wins ? [claim.id, ...others.keys()] : [...before, claim.id]
  }

  /** Withdraws a claim, if there is one. Returns the ids that should look again, as `add` does. */
  remove(frontend: string, id: string): readonly string[] {
    const others = this.#waiting.get(frontend)
    if (this.#owner.get(frontend)?.id !== id) {
      if (others?.delete(id) && others.size === 0) this.#waiting.delete(frontend)
      return []
    }
    this.#owner.delete(frontend)
    if (others === undefined) return [id]
    const ids = [id, ...others.keys()]
    const best = bestOf(others.values())
    if (best !== undefined) {
      this.#owner.set(frontend, best)
      others.delete(best.id)
    }
    if (others.size === 0) this.#waiting.delete(frontend)
    return ids
  }
}

/** Whether a challenger takes the frontend from the one that has it. */
function beats(challenger: Claim, owner: Claim): boolean {
  const order = compareAge(challenger, owner)
  if (order !== 0) return order < 0
  return challenger.created !== undefined && challenger.id < owner.id
}

function bestOf(claims: Iterable<Claim>): Claim | undefined {
  let best: Claim | undefined
  for (const claim of claims) {
    const order = best === undefined ? -1 : compareAge(claim, best)
    if (best === undefined || order < 0 || (order === 0 && claim.id < best.id)) best = claim
  }
  return best
}

/** By kind, then age; a Service without a time of creation counts as the youngest. */
function compareAge(a: Claim, b: Claim): number {
  const kind = PRECEDENCE[a.kind] - PRECEDENCE[b.kind]
  if (kind !== 0) return kind
  if (a.created === b.created) return 0
  return (a.created ?? Number.POSITIVE_INFINITY) - (b.created ?? Number.POSITIVE_INFINITY)
}
