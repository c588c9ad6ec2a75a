import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { FlowTableKind } from '../../src/dataplane/ebpf/flow-table.js'
import { connect } from './connect.js'
import { control } from './control.js'
import { count } from './count.js'
import { daemon } from './daemon.js'
import { useFlowTable } from './dataplane.js'
import { type Effort, FULL, QUICK, TINY } from './effort.js'
import { forward } from './forward.js'
import { loadSpread } from './load-spread.js'
import { memory } from './memory.js'
import { program } from './program.js'
import { writeReport } from './report.js'
import { type Results, renderTable } from './result.js'
import { leftovers, missing, ROOT } from './world.js'
import { xdp } from './xdp.js'

/** The command line of tools/bench. Exit status: 0 measured, 1 failed, 2 wrong usage. */

type Bench = (progress: (line: string) => void, effort: Effort) => Promise<Results>

const BENCHES: Readonly<Record<string, { readonly about: string; readonly run: Bench }>> = {
  connect: { about: 'new connections against direct ones, nft and iptables', run: connect },
  forward: { about: 'packets of known flows through a node against routing, nft and iptables', run: forward },
  xdp: { about: 'frames of a node port by XDP, against a program that only sends, nft and iptables', run: xdp },
  program: { about: 'one run of the packet programs, by what they meet', run: program },
  count: { about: 'instructions of the small differences, counted in an emulated machine', run: count },
  spread: { about: 'how evenly each scheduler spreads new flows', run: loadSpread },
  memory: { about: 'kernel memory of the maps, and of a flow', run: memory },
  control: { about: 'from API objects to the maps: full sync, restart, one change', run: control },
  daemon: { about: 'the agent as a process: start, restart, changes, memory', run: daemon },
}
const DATAPATH = ['connect', 'forward', 'xdp', 'program', 'count', 'spread', 'memory']

const USAGE = `usage: tools/bench [NAME...] [options]      (or: make bench, make bench-datapath)
       tools/bench report [FILE]

Measures what docs/performance.md claims, in private namespaces, and prints a table. Each
figure is a median over rounds in which all rivals take turns, with its extremes.

${Object.entries(BENCHES)
  .map(([name, { about }]) => `  ${name.padEnd(10)}${about}`)
  .join('\n')}
  datapath  ${DATAPATH.join(', ')}; results also in build/bench/datapath.json

  --quick        fewer rounds: roughly what comes out
  --tiny         as little as there is: to see that it works
  --services N,… numbers of Services (connect)
  --rounds N     rounds of each comparison
  --flow-table hash|flat   where flows are kept, for comparing the two in runs by turns
  -o json        print JSON instead of the table
  -h, --help     this text

Results go to build/bench/NAME.json, too, but for --tiny. On two cores datapath takes about twelve minutes,
five with --quick.

report writes the tables and plots of docs/performance.md and the ratios of README.md from
FILE, build/bench/datapath.json if not said, and keeps a copy in docs/performance.json.
`

/** Addresses of a path's networks end there. */
const MAX_SERVICES = 65_000

/** What somebody must know of the machine to judge the figures. */
function machine(effort: string) {
  const [cpu] = cpus()
  return {
    kernel: release(),
    cpu: cpu?.model ?? 'unknown',
    cpus: cpus().length,
    node: process.version,
    load: loadavg().map(value => Math.round(value * 100) / 100),
    command: ['tools/bench', ...process.argv.slice(2)].join(' '),
    effort,
    commit: execFileSync('git', ['-C', ROOT, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    version: JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version as string,
    at: new Date().toISOString(),
  }
}

interface Wanted {
  readonly names: readonly string[]
  readonly effort: Effort
  readonly json: boolean
  /** All of the datapath, kept in one file. */
  readonly datapath: boolean
  readonly flowTable: FlowTableKind | undefined
}

function parse(args: readonly string[]): Wanted | undefined {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      tiny: { type: 'boolean', default: false },
      services: { type: 'string' },
      rounds: { type: 'string' },
      'flow-table': { type: 'string' },
      output: { type: 'string', short: 'o', default: 'table' },
    },
  })
  const effort = values.tiny ? TINY : values.quick ? QUICK : FULL
  const sizes = values.services?.split(',').map(Number) ?? effort.sizes
  const rounds = values.rounds === undefined ? effort.rounds : Number(values.rounds)
  const isCount = (value: number, max: number) => Number.isInteger(value) && value >= 1 && value <= max
  const flowTable = values['flow-table'] as FlowTableKind | undefined
  const datapath = positionals.includes('datapath')
  const names = positionals.flatMap(name => (name === 'datapath' ? DATAPATH : [name]))
  const valid =
    names.every(name => Object.hasOwn(BENCHES, name)) &&
    sizes.every(size => isCount(size, MAX_SERVICES)) &&
    isCount(rounds, 1_000) &&
    ['hash', 'flat', undefined].includes(flowTable) &&
    ['json', 'table'].includes(values.output)
  if (!valid) return undefined
  return {
    names: [...new Set(names.length > 0 ? names : Object.keys(BENCHES))],
    effort: { ...effort, sizes, rounds },
    json: values.output === 'json',
    datapath,
    flowTable,
  }
}

async function main(args: readonly string[]): Promise<number> {
  if (args.some(arg => arg === '-h' || arg === '--help')) {
    process.stdout.write(USAGE)
    return 0
  }
  if (args[0] === 'report' && args.length <= 2) {
    for (const file of writeReport(ROOT, args[1] ?? join(ROOT, 'build/bench/datapath.json'))) console.log(file)
    return 0
  }
  const wanted = tryParse(args)
  if (wanted === undefined) {
    process.stderr.write(USAGE)
    return 2
  }
  const lack = missing()
  if (lack !== undefined) {
    console.error(`bench: this machine lacks ${lack}`)
    return 1
  }
  return measure(wanted)
}

function tryParse(args: readonly string[]): Wanted | undefined {
  try {
    return parse(args)
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`)
    return undefined
  }
}

async function measure({ names, effort, json, datapath, flowTable }: Wanted): Promise<number> {
  useFlowTable(flowTable)
  const keep = (name: string, results: Results) => {
    // What a tiny run measures is not worth keeping.
    if (effort.name === 'tiny') return
    mkdirSync(join(ROOT, 'build/bench'), { recursive: true })
    writeFileSync(join(ROOT, 'build/bench', `${name}.json`), text({ machine: machine(effort.name), ...results }))
  }
  const all: Results[] = []
  const began = performance.now()
  for (const name of names) {
    const start = performance.now()
    const say = (line: string) => console.error(`${seconds(began)} ${name}: ${line}`)
    say('begins')
    const results = await (BENCHES[name] as { run: Bench }).run(say, effort)
    keep(name, results)
    say(`took ${((performance.now() - start) / 1000).toFixed(1)} s`)
    all.push(results)
  }
  const results: Results = { rows: all.flatMap(each => each.rows), skips: all.flatMap(each => each.skips) }
  if (datapath) keep('datapath', results)
  process.stdout.write(json ? text({ machine: machine(effort.name), ...results }) : renderTable(results))
  const left = leftovers()
  if (left.length > 0) console.error(`bench: left behind: ${left.join(', ')}`)
  return left.length > 0 ? 1 : 0
}

function text(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(0).padStart(4)} s`
}

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => process.exit(1))
try {
  process.exit(await main(process.argv.slice(2)))
} catch (error) {
  console.error('bench:', error)
  process.exit(1)
}
