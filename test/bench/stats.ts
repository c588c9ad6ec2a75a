/** Medians, and ratios of series that were measured round by round, side by side. Pure. */

/** Of all rounds: the middle one and the extremes. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** The value at share `q` (0-1) of the sorted values. */
export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) throw new RangeError('no values')
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] as number
}

export function spread(values: readonly number[]): Spread {
  return { median: quantile(values, 0.5), min: Math.min(...values), max: Math.max(...values) }
}

/** Ratio in each round: what disturbs the machine for longer than a round hits both. */
export function ratios(values: readonly number[], baseline: readonly number[]): Spread {
  if (values.length !== baseline.length) throw new RangeError(`${values.length} rounds against ${baseline.length}`)
  return spread(values.map((value, round) => value / (baseline[round] as number)))
}
