import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { connect } from './connect.js'
import { control } from './control.js'
import { daemon } from './daemon.js'
import { memory } from './memory.js'
import { packet } from './packet.js'
import { program } from './program.js'
import { type Results, renderTable } from './result.js'
import { leftovers, missing, ROOT } from './world.js'

/** The command line of tools/bench. Exit status: 0 measured, 1 failed, 2 wrong usage. */

type Bench = (progress: (line: string) => void) => Promise<Results>

const BENCHES: Readonly<Record<string, { readonly about: string; readonly run: Bench }>> = {
  connect: { about: 'new connections to a ClusterIP against direct ones and against nft and iptables', run: connect },
  packet: { about: 'a node port through a node, against plain routing and nft', run: packet },
  program: { about: 'one run of the ingress program, by what it meets', run: program },
  control: { about: 'from API objects to the maps: full sync, restart, one change', run: control },
  daemon: { about: 'the agent as a process: start, restart, changes, memory', run: daemon },
  memory: { about: 'kernel memory of the maps, and of a flow', run: memory },
}

const USAGE = `usage: tools/bench [NAME...] [-o json]      (or: make bench)

Measures what docs/performance.md claims, in private namespaces, and prints a table. Each
figure is a median over rounds in which all rivals take turns, with its extremes. Results
go to build/bench/NAME.json, too. Meant to take less than six minutes on two cores; where
that is not enough the long ones do fewer rounds, and say so.

${Object.entries(BENCHES)
  .map(([name, { about }]) => `  ${name.padEnd(10)}${about}`)
  .join('\n')}

  -o json    print JSON instead of the table
  -h, --help this text
`

/** What somebody must know of the machine to judge the figures. */
function machine() {
  const [cpu] = cpus()
  return {
    kernel: release(),
    cpu: cpu?.model ?? 'unknown',
    cpus: cpus().length,
    node: process.version,
    load: loadavg().map(value => Math.round(value * 100) / 100),
    commit: execFileSync('git', ['-C', ROOT, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    version: JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version as string,
    at: new Date().toISOString(),
  }
}

function parse(args: readonly string[]): { names: string[]; json: boolean } | undefined {
  const names: string[] = []
  let json = false
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as string
    if (arg === '-o') {
      i++
      if (args[i] === 'json') json = true
      else if (args[i] !== 'table') return undefined
    } else if (Object.hasOwn(BENCHES, arg)) names.push(arg)
    else return undefined
  }
  return { names: names.length > 0 ? names : Object.keys(BENCHES), json }
}

async function main(args: readonly string[]): Promise<number> {
  if (args.some(arg => arg === '-h' || arg === '--help')) {
    process.stdout.write(USAGE)
    return 0
  }
  const wanted = parse(args)
  if (wanted === undefined) {
    process.stderr.write(USAGE)
    return 2
  }
  const lack = missing()
  if (lack !== undefined) {
    console.error(`bench: this machine lacks ${lack}`)
    return 1
  }
  const out = join(ROOT, 'build/bench')
  mkdirSync(out, { recursive: true })
  const all: Results[] = []
  const began = performance.now()
  for (const name of wanted.names) {
    const start = performance.now()
    const say = (line: string) => console.error(`${seconds(began)} ${name}: ${line}`)
    say('begins')
    const results = await (BENCHES[name] as { run: Bench }).run(say)
    writeFileSync(join(out, `${name}.json`), `${JSON.stringify({ machine: machine(), ...results }, undefined, 2)}\n`)
    say(`took ${((performance.now() - start) / 1000).toFixed(1)} s`)
    all.push(results)
  }
  const results = { rows: all.flatMap(each => each.rows), skips: all.flatMap(each => each.skips) }
  process.stdout.write(
    wanted.json ? `${JSON.stringify({ machine: machine(), ...results }, undefined, 2)}\n` : renderTable(results),
  )
  const left = leftovers()
  if (left.length > 0) console.error(`bench: left behind: ${left.join(', ')}`)
  return left.length > 0 ? 1 : 0
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
