/**
 * `make coverage`: which lines and branches of bpf/ do the tests of the bpf tier reach?
 *
 * Each program file is built with counters (instrument.ts) and the tier is run on that. A
 * program with all counters at once is more than the verifier looks at, so the functions of a
 * file are dealt to several objects, as many as it takes until each loads, and the tier is
 * run once for each of them. llvm-cov does the rest.
 *
 * usage: main.ts [FILTER...]      only test files whose name contains a FILTER
 * env    CLANG, LLVM_COV, LLVM_PROFDATA, BPF_CFLAGS (from the Makefile)
 * status 0; 1 when tests fail on the counting programs
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { countedFunctions, instrument, profileText } from './instrument.js'
import { coverageOf, reportText } from './report.js'

const ROOT = join(import.meta.dirname, '../..')
const OUT = join(ROOT, 'build/coverage')
const { CLANG = 'clang', LLVM_COV = 'llvm-cov', LLVM_PROFDATA = 'llvm-profdata', BPF_CFLAGS = '' } = process.env
const flags = BPF_CFLAGS.split(/\s+/).filter(flag => flag !== '' && flag !== '-Werror')

function compile(source: string, output: string): void {
  execFileSync(CLANG, [...flags, '-Wno-unused-command-line-argument', '-c', source, '-o', output], { cwd: ROOT })
}

/** The IR of a program file with clang's counting calls, not yet optimised. */
function irOf(file: string): string {
  const output = join(OUT, `${file}.ll`)
  const counting = ['-fprofile-instrument=clang', '-fcoverage-mapping', '-disable-llvm-passes']
  const more = [...counting.flatMap(flag => ['-Xclang', flag]), '-S', '-emit-llvm']
  execFileSync(CLANG, [...flags, ...more, join('bpf', `${file}.bpf.c`), '-o', output], { cwd: ROOT })
  return readFileSync(output, 'utf8')
}

/** Will the verifier take it? Small maps: they are no part of the question. */
function loads(path: string): boolean {
  const object = loadNative().openObject(path)
  try {
    for (const { name, maxEntries } of Object.values(maps)) {
      if (object.mapNames().includes(name) && maxEntries > 64) object.setMaxEntries(name, 64)
    }
    object.load()
    return true
  } catch (error) {
    if (/too large/i.test(String((error as { log?: string }).log))) return false
    throw error
  } finally {
    object.close()
  }
}

const folderOf = (part: number) => join(OUT, `objects-${part}`)

/**
 * Builds a program file with the counters of some of its functions, by position; what does
 * not load is halved. Returns how many objects there are, numbered from `next` on.
 */
function buildParts(file: string, ir: string, positions: readonly number[], next = 0): number {
  mkdirSync(folderOf(next), { recursive: true })
  const source = join(OUT, `${file}.${next}.ll`)
  const object = join(folderOf(next), `${file}.bpf.o`)
  writeFileSync(
    source,
    instrument(ir, (_, position) => positions.includes(position)),
  )
  compile(source, object)
  if (loads(object)) return next + 1
  if (positions.length === 1) throw new Error(`${file}: not even one function with counters loads`)
  return [0, 1].reduce(
    (at, rest) =>
      buildParts(
        file,
        ir,
        positions.filter((_, i) => i % 2 === rest),
        at,
      ),
    next,
  )
}

/** Runs the tier on one part; false when tests failed. */
function runTests(part: number, filters: readonly string[]): boolean {
  const counts = join(OUT, 'counts')
  mkdirSync(counts, { recursive: true })
  const { status } = spawnSync(
    process.execPath,
    [
      'node_modules/vitest/vitest.mjs',
      'run',
      '--config',
      'tools/coverage/vitest.config.ts',
      '--reporter=dot',
      ...filters,
    ],
    {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit'],
      // Random packets reach what they reach within the first few thousand.
      env: { N: '20000', ...process.env, WAGGLE_COVERAGE_OBJECTS: folderOf(part), WAGGLE_COVERAGE_COUNTS: counts },
    },
  )
  return status === 0
}

/** Counts of one object file, over all test files and parts. */
function countsOf(file: string): bigint[] {
  const sum: bigint[] = []
  for (const name of readdirSync(join(OUT, 'counts'))) {
    const found = JSON.parse(readFileSync(join(OUT, 'counts', name), 'utf8')) as { object: string; counts: string[] }[]
    for (const { object, counts } of found) {
      if (object !== `${file}.bpf.o`) continue
      counts.forEach((count, i) => {
        sum[i] = (sum[i] ?? 0n) + BigInt(count)
      })
    }
  }
  return sum
}

const filters = process.argv.slice(2)
rmSync(OUT, { recursive: true, force: true })
mkdirSync(OUT, { recursive: true })
const files = readdirSync(join(ROOT, 'bpf'))
  .filter(name => name.endsWith('.bpf.c') && name !== 'layout.bpf.c')
  .map(name => name.replace('.bpf.c', ''))
const sources = files.map(file => ({ file, ir: irOf(file) }))
const parts = sources.map(({ file, ir }) => {
  const { size } = countedFunctions(ir)
  const count = buildParts(file, ir, [...Array(size).keys()])
  console.log(`${file}: ${size} functions with counters in ${count} objects`)
  return count
})
let passed = true
for (let part = 0; part < Math.max(...parts); part++) passed = runTests(part, filters) && passed

const profiles = sources.map(({ file, ir }) => {
  const path = join(OUT, `${file}.proftext`)
  writeFileSync(path, profileText(countedFunctions(ir).values(), countsOf(file)))
  return path
})
const profile = join(OUT, 'all.profdata')
execFileSync(LLVM_PROFDATA, ['merge', '-o', profile, ...profiles])
// Any part will do: each has the whole map from counters to the source.
const objects = files.map(file => join(folderOf(0), `${file}.bpf.o`))
const exported = (format: string) =>
  execFileSync(
    LLVM_COV,
    ['export', `-format=${format}`, '-instr-profile', profile, ...objects.flatMap(path => ['-object', path])],
    { encoding: 'utf8', maxBuffer: 1 << 28, cwd: ROOT },
  )
const coverage = coverageOf(exported('lcov'), exported('text'), path => readFileSync(path, 'utf8'), `${ROOT}/bpf/`)
const text = reportText(coverage)
writeFileSync(join(OUT, 'report.txt'), text)
console.log(text)
if (!passed) console.log('some tests failed with counters: see above')
process.exitCode = passed ? 0 : 1
