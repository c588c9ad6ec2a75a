import { ratios, type Spread, spread } from './stats.js'

/** One line of a result: what was measured, over all rounds. */
export interface Row {
  readonly bench: string
  readonly what: string
  /** Number of Services (or flows) that it was measured with. */
  readonly n?: number
  readonly family?: 'IPv4' | 'IPv6'
  readonly unit: string
  readonly value: Spread
  /** How many measurements the spread is of; 1 = an exact figure. */
  readonly rounds: number
  /** Round by round against another row of the same run. */
  readonly ratio?: Spread & { readonly to: string }
  /** The ratio of the 99th percentiles of the rounds. */
  readonly ratioP99?: Spread
  readonly note?: string
}

/** Something that was not measured, and why. */
export interface Skip {
  readonly bench: string
  readonly what: string
  readonly why: string
}

export interface Results {
  readonly rows: readonly Row[]
  readonly skips: readonly Skip[]
}

/** One measurement of one round: median and 99th percentile of its steps. */
export interface Sample {
  readonly p50: number
  readonly p99: number
}

/** What is common to the rows of one comparison. */
export type Heading = Pick<Row, 'bench' | 'unit'> & Partial<Pick<Row, 'n' | 'family'>>

/** Something that is measured once a round, next to its rivals. */
export interface Variant {
  readonly what: string
  readonly run: () => Promise<Sample>
}

/**
 * Runs every variant once a round, one after the other, each round beginning with another
 * one: what changes on the machine hits all of them. A round before the first warms up.
 */
export async function interleave(variants: readonly Variant[], rounds: number): Promise<Map<string, Sample[]>> {
  const samples = new Map<string, Sample[]>(variants.map(({ what }) => [what, []]))
  for (let round = -1; round < rounds; round++) {
    for (let i = 0; i < variants.length; i++) {
      const variant = variants[(i + round + variants.length) % variants.length] as Variant
      const sample = await variant.run()
      if (round >= 0) samples.get(variant.what)?.push(sample)
    }
  }
  return samples
}

/** A row for each variant, with its ratio to `baseline`. `scale` turns samples into the unit. */
export function compare(
  heading: Heading,
  samples: ReadonlyMap<string, readonly Sample[]>,
  baseline: string,
  scale = 1,
): Row[] {
  const base = samples.get(baseline)
  if (!base) throw new RangeError(`no variant ${baseline}`)
  const pick = (list: readonly Sample[], which: keyof Sample) => list.map(sample => sample[which])
  return [...samples].map(([what, list]) => ({
    ...heading,
    what,
    value: spread(pick(list, 'p50').map(value => value * scale)),
    rounds: list.length,
    ...(what === baseline
      ? {}
      : {
          ratio: { to: baseline, ...ratios(pick(list, 'p50'), pick(base, 'p50')) },
          ratioP99: ratios(pick(list, 'p99'), pick(base, 'p99')),
        }),
  }))
}

/** A row from plain values, one a round. */
export function plainRow(heading: Heading, what: string, values: readonly number[], note?: string): Row {
  return { ...heading, what, value: spread(values), rounds: values.length, ...(note === undefined ? {} : { note }) }
}

/** The table that people read: medians with their extremes. */
export function renderTable({ rows, skips }: Results): string {
  const lines: string[] = []
  for (const bench of new Set([...rows, ...skips].map(each => each.bench))) {
    const own = rows.filter(row => row.bench === bench)
    const cells = [
      ['measured', 'N', 'family', 'rounds', 'median [min, max]', 'ratio [min, max]', 'p99', 'to'],
      ...own.map(row => [
        row.what,
        row.n === undefined ? '' : String(row.n),
        row.family ?? '',
        String(row.rounds),
        `${spreadText(row.value)} ${row.unit}`,
        row.ratio ? spreadText(row.ratio) : '',
        row.ratioP99 ? number(row.ratioP99.median) : '',
        row.ratio?.to ?? row.note ?? '',
      ]),
    ]
    const widths = (cells[0] as string[]).map((_, column) => Math.max(...cells.map(row => row[column]?.length ?? 0)))
    lines.push('', `## ${bench}`)
    for (const row of cells) {
      lines.push(
        row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd(),
      )
    }
    for (const skip of skips.filter(each => each.bench === bench)) lines.push(`skipped: ${skip.what}: ${skip.why}`)
  }
  return `${lines.join('\n').trimStart()}\n`
}

function spreadText({ median, min, max }: Spread): string {
  return min === max ? number(median) : `${number(median)} [${number(min)}, ${number(max)}]`
}

/** Three digits that count. */
function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString('en-US')
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3)
}
