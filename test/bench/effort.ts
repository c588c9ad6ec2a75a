/** How much a benchmark does. Figures of different efforts are not to be compared. */
export interface Effort {
  readonly name: 'full' | 'quick' | 'tiny'
  /** Rounds of each comparison; one more before them warms up. */
  readonly rounds: number
  /** Connections, or requests, of one variant in one round. */
  readonly steps: number
  /** Numbers of Services. */
  readonly sizes: readonly number[]
  /** A rival whose rules take longer to load is left out at that size. */
  readonly loadSeconds: number
  /** Datagrams of one variant in one round. */
  readonly datagrams: number
  /** Runs of a program in one round. */
  readonly runs: number
  /** Flows that are known where many are. */
  readonly flows: number
  /** Services of 128 backends each, where many are to choose from. */
  readonly manyServices: number
  /** New flows whose spread over the backends is counted. */
  readonly spreadFlows: number
}

export const FULL: Effort = {
  name: 'full',
  rounds: 15,
  steps: 1_000,
  sizes: [10, 1_000, 10_000, 50_000],
  loadSeconds: 90,
  datagrams: 5_000,
  runs: 20_000,
  flows: 65_536,
  manyServices: 2_048,
  spreadFlows: 1_000_000,
}

export const QUICK: Effort = {
  name: 'quick',
  rounds: 5,
  steps: 200,
  sizes: [10, 1_000, 10_000],
  loadSeconds: 20,
  datagrams: 2_000,
  runs: 10_000,
  flows: 65_536,
  manyServices: 256,
  spreadFlows: 100_000,
}

/** To see that everything works; the figures mean nothing. */
export const TINY: Effort = {
  name: 'tiny',
  rounds: 1,
  steps: 50,
  sizes: [5, 20],
  loadSeconds: 10,
  datagrams: 200,
  runs: 200,
  flows: 256,
  manyServices: 4,
  spreadFlows: 2_000,
}
