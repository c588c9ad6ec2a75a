import type { Family } from './paths.js'
import type { Results, Row } from './result.js'
import type { Spread } from './stats.js'

/** What a run of the datapath benchmarks was made with. */
export interface Machine {
  readonly kernel: string
  readonly cpu: string
  readonly cpus: number
  readonly node: string
  readonly load: readonly number[]
  readonly command: string
  readonly effort: 'full' | 'quick' | 'tiny'
  readonly commit: string
  readonly at: string
}

/** The results of a run, found by what they are of. Pure. */
export class Figures {
  readonly machine: Machine
  readonly rows: readonly Row[]
  readonly skips: Results['skips']

  constructor({ machine, rows, skips }: Results & { readonly machine: Machine }) {
    this.machine = machine
    this.rows = rows
    this.skips = skips
  }

  find(bench: string, what: string, family: Family, n?: number): Row | undefined {
    return this.rows.find(
      row =>
        row.bench === bench &&
        row.what === what &&
        (row.family ?? family) === family &&
        (n === undefined || row.n === n),
    )
  }

  /** Ratio of a row to its baseline, or 1 for a baseline. */
  ratio(bench: string, what: string, family: Family, n?: number): number | undefined {
    const row = this.find(bench, what, family, n)
    return row && (row.ratio?.median ?? 1)
  }

  value(bench: string, what: string, family: Family, n?: number): number | undefined {
    return this.find(bench, what, family, n)?.value.median
  }

  /** Numbers that rows of this kind were measured with, ascending. */
  sizes(bench: string, what: string): number[] {
    const all = this.rows.filter(row => row.bench === bench && row.what === what).flatMap(row => row.n ?? [])
    return [...new Set(all)].sort((a, b) => a - b)
  }
}

/** Three digits that count. */
export function number(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '-'
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en-US')
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** Ratios near 1 differ in their third decimal. */
export function ratioText(value: number | undefined): string {
  if (value === undefined) return '-'
  return value >= 10 ? value.toFixed(1) : value.toFixed(value < 1.1 && value > 0.9 ? 3 : 2)
}

export function withRange(spread: Spread | undefined, text: (value: number) => string): string {
  return spread === undefined ? '-' : `${text(spread.median)} [${text(spread.min)}, ${text(spread.max)}]`
}

/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')
}
