/** What a load client saw; the one JSON object that `tools/lab load` prints. */
export interface LoadResult {
  attempts: number
  ok: number
  failed: number
  /** Successful attempts by the name of the backend that answered. */
  backends: Record<string, number>
  /** Failed attempts by error code: an errno name, TIMEOUT, SHORT, CORRUPT, WRONG_SOURCE or BAD_ANSWER. */
  errors: Record<string, number>
  /** Successful attempts by the peer address that the backend saw. */
  peers: Record<string, number>
  seconds: number
  perSecond: number
  /** Longest time between two successes (or start, or end, and a success) of any worker, in milliseconds. */
  longestGapMs: number
}

/** Counts attempts. Times are milliseconds of any monotonic clock. */
export class Tally {
  readonly #started: number
  #lastSuccess: number
  #longestGap = 0
  #successes = 0
  readonly #backends = new Map<string, number>()
  readonly #errors = new Map<string, number>()
  readonly #peers = new Map<string, number>()

  constructor(now: number) {
    this.#started = now
    this.#lastSuccess = now
  }

  /** Returns how many successes there are now. */
  success(now: number, backend: string, peer: string): number {
    add(this.#backends, backend)
    add(this.#peers, peer)
    this.#longestGap = Math.max(this.#longestGap, now - this.#lastSuccess)
    this.#lastSuccess = now
    return ++this.#successes
  }

  failure(code: string): void {
    add(this.#errors, code)
  }

  result(now: number): LoadResult {
    const ok = this.#successes
    const failed = sum(this.#errors)
    const seconds = (now - this.#started) / 1000
    return {
      attempts: ok + failed,
      ok,
      failed,
      backends: sorted(this.#backends),
      errors: sorted(this.#errors),
      peers: sorted(this.#peers),
      seconds: Math.round(seconds * 1000) / 1000,
      perSecond: Math.round((ok + failed) / Math.max(seconds, 0.001)),
      longestGapMs: Math.round(Math.max(this.#longestGap, now - this.#lastSuccess)),
    }
  }
}

function add(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

function sum(counts: Map<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0)
}

function sorted(counts: Map<string, number>): Record<string, number> {
  return Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)))
}
