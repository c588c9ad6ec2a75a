export interface BackoffLimits {
  readonly firstMs: number
  readonly maxMs: number
}

/**
 * Milliseconds to wait before try `attempt` (1 = the first repetition): doubling up to a
 * limit, and of that a random part between one half and all, so that many who failed
 * together do not return together. `random` is from 0 to 1.
 */
export function backoff(attempt: number, limits: BackoffLimits, random: number): number {
  const full = Math.min(limits.maxMs, limits.firstMs * 2 ** (attempt - 1))
  return full * (0.5 + random / 2)
}
