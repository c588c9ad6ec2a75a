/** What llvm-cov exports, as the table and the list that `make coverage` prints. Pure. */

/** One way out of a condition that no test took. */
export interface MissedSide {
  readonly file: string
  readonly line: number
  /** The C function around it. */
  readonly fn: string
  /** Source of the condition, in one line. */
  readonly condition: string
  readonly never: 'true' | 'false'
}

export interface FileCoverage {
  readonly file: string
  readonly lines: { readonly reached: number; readonly all: number; readonly missed: readonly number[] }
  /** Each condition has two sides. */
  readonly sides: { readonly reached: number; readonly all: number; readonly missed: readonly MissedSide[] }
}

/** First and last line and column of a condition, how often true and false; more follows. */
type Branch = readonly [number, number, number, number, number, number, ...number[]]

/**
 * Coverage of each file below `folder`, by name.
 *
 * in    lcov and json: `llvm-cov export` in both formats; read: the text of a source file
 */
export function coverageOf(lcov: string, json: string, read: (path: string) => string, folder: string): FileCoverage[] {
  const linesOf = linesByFile(lcov)
  const { data } = JSON.parse(json) as { data: { files: { filename: string; branches: Branch[] }[] }[] }
  const files = data.flatMap(each => each.files).filter(({ filename }) => filename.startsWith(folder))
  return files
    .map(({ filename, branches }) => {
      const file = filename.slice(folder.length)
      const source = read(filename).split('\n')
      const lines = [...(linesOf.get(filename) ?? [])]
      const missed = lines.filter(([, count]) => count === 0).map(([line]) => line)
      const all = sumOfInstances(branches)
      return {
        file,
        lines: { reached: lines.length - missed.length, all: lines.length, missed },
        sides: {
          reached: all.reduce((sum, [, , , , yes, no]) => sum + Number(yes > 0) + Number(no > 0), 0),
          all: all.length * 2,
          missed: all.flatMap(branch => missedSides(file, source, branch)),
        },
      }
    })
    .sort((a, b) => (a.file < b.file ? -1 : 1))
}

/** A function that several programs contain has its conditions once for each of them. */
function sumOfInstances(branches: readonly Branch[]): Branch[] {
  const sums = new Map<string, Branch>()
  for (const branch of branches) {
    const [l1, c1, l2, c2, yes, no] = branch
    const key = [l1, c1, l2, c2].join(':')
    const [, , , , yesBefore = 0, noBefore = 0] = sums.get(key) ?? []
    sums.set(key, [l1, c1, l2, c2, yes + yesBefore, no + noBefore])
  }
  return [...sums.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1])
}

function missedSides(file: string, source: readonly string[], [l1, c1, l2, c2, yes, no]: Branch): MissedSide[] {
  const text = source.slice(l1 - 1, l2)
  text.push((text.pop() ?? '').slice(0, c2 - 1))
  text[0] = (text[0] ?? '').slice(c1 - 1)
  const condition = text.map(line => line.trim()).join(' ')
  const at = { file, line: l1, fn: functionAt(source, l1), condition }
  return [...(yes ? [] : [{ ...at, never: 'true' as const }]), ...(no ? [] : [{ ...at, never: 'false' as const }])]
}

/** Name of the function that a line is in: in kernel style its head alone begins at the left. */
function functionAt(source: readonly string[], line: number): string {
  const heads = source.slice(0, line).map(text => /^(?=[a-z]).*?(\w+)\([^;]*$/.exec(text)?.[1])
  return heads.findLast(name => name !== undefined) ?? '?'
}

function linesByFile(lcov: string): Map<string, Map<number, number>> {
  const files = new Map<string, Map<number, number>>()
  let lines = new Map<number, number>()
  for (const record of lcov.split('\n')) {
    if (record.startsWith('SF:')) {
      lines = new Map()
      files.set(record.slice(3), lines)
    }
    const [, line, count] = /^DA:(\d+),(\d+)/.exec(record) ?? []
    if (line !== undefined) lines.set(Number(line), Number(count))
  }
  return files
}

/** A line for each file and one for all; then every side that no test took, and lines of functions that nobody calls. */
export function reportText(coverage: readonly FileCoverage[]): string {
  const total = (part: 'lines' | 'sides') => ({
    reached: coverage.reduce((sum, each) => sum + each[part].reached, 0),
    all: coverage.reduce((sum, each) => sum + each[part].all, 0),
  })
  const sides = coverage
    .flatMap(each => each.sides.missed)
    .map(({ file, line, fn, condition, never }) => `  ${file}:${line} ${fn}: ${condition} is never ${never}`)
  const quiet = coverage
    .filter(each => each.lines.missed.length > 0 && each.sides.missed.length === 0)
    .map(({ file, lines }) => `  ${file}: lines ${lines.missed.join(', ')}`)
  return [
    row('file', 'lines', 'sides of conditions'),
    ...coverage.map(each => row(each.file, shareOf(each.lines), shareOf(each.sides))),
    row('all', shareOf(total('lines')), shareOf(total('sides'))),
    '',
    'Reached by no test:',
    ...sides,
    ...quiet,
    '',
  ].join('\n')
}

function row(file: string, lines: string, sides: string): string {
  return `${file.padEnd(28)}${lines.padStart(18)}${sides.padStart(24)}`
}

function shareOf({ reached, all }: { reached: number; all: number }): string {
  const percent = all === 0 ? 100 : (100 * reached) / all
  return `${reached}/${all} ${percent.toFixed(1).padStart(5)} %`
}
