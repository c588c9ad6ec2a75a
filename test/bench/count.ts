import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Effort } from './effort.js'
import type { Results, Row } from './result.js'
import { compileTo, ROOT, World } from './world.js'

const BENCH = 'count'
/** The newest that tools/kernel-image knows. */
const KERNEL = '6.12'
/** Boots and counts in a minute or two where two cores are idle. */
const LIMIT_SECONDS = 400

/**
 * Instructions, the kernel's included, of what differs by too little to be timed on a busy
 * machine: a packet program's run, and a connect through the socket layer. Counted in an
 * emulated machine whose clock is its instructions, so they repeat.
 */
export async function count(progress: (line: string) => void, _effort: Effort): Promise<Results> {
  const skip = (why: string): Results => ({ rows: [], skips: [{ bench: BENCH, what: 'instructions', why }] })
  try {
    execFileSync('tools/kernel-image', [KERNEL], { cwd: ROOT, stdio: ['ignore', 'ignore', 'pipe'] })
  } catch (error) {
    const said = String((error as { stderr?: Buffer }).stderr ?? error).trim()
    return skip(
      said
        .split('\n')
        .at(-1)
        ?.replace(/^kernel-image: /, '') ?? 'no kernel',
    )
  }
  const world = new World(BENCH)
  try {
    for (const file of ['driver.bpf.c', 'netclient.c']) compileTo(world.dir, file)
    const results = join(ROOT, 'build/bench')
    mkdirSync(results, { recursive: true })
    const out = join(results, `counted-${process.pid}.json`)
    world.later(() => rmSync(out, { force: true }))
    progress(`Linux ${KERNEL} in an emulated machine`)
    const machine = spawn(
      'tools/with-kernel',
      [
        ...['--count', '--results', results, '--timeout', String(LIMIT_SECONDS), KERNEL],
        ...[process.execPath, join(results, 'counted.mjs'), world.dir, out],
      ],
      { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], detached: true },
    )
    // A group of its own, so that the emulator ends with it.
    world.later(() => endGroup(machine))
    const lines: string[] = []
    for (const stream of [machine.stdout, machine.stderr]) {
      createInterface(stream).on('line', line => void lines.push(line))
    }
    const [status] = (await once(machine, 'close')) as [number | null]
    if (status === 125) return skip(lines.at(-1) ?? 'the machine did not finish')
    if (status !== 0) throw new Error(`counting failed with ${status}:\n${lines.slice(-20).join('\n')}`)
    return { rows: JSON.parse(readFileSync(out, 'utf8')) as Row[], skips: [] }
  } finally {
    world.close()
  }
}

function endGroup(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  process.kill(-child.pid, 'SIGTERM')
}
