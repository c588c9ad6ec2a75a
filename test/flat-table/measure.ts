import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FlowTableKind } from '../../src/dataplane/ebpf/flow-table.js'
import { sizesOf } from '../../src/dataplane/ebpf/kernel-maps.js'
import { LOADS_IN_ORDER } from '../../src/dataplane/ebpf/loader.js'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'

/**
 * What a step of a flow costs on each flow table, in nanoseconds less what a step that does
 * nothing costs: `npx tsx test/flat-table/measure.ts`. Each round takes fresh tables, which
 * hold twice as many flows as there are, and both tables in turns; medians and, in brackets,
 * the lowest and highest of the rounds.
 */
const ROUNDS = 15
const TABLES = ['hash', 'flat'] as const
const STEPS = ['fresh', 'known', 'miss'] as const
type Step = (typeof STEPS)[number]

const native = loadNative()
const folder = mkdtempSync(join(tmpdir(), 'waggle-flat-'))
const sources = import.meta.dirname

try {
  const objects = { hash: compile('hash'), flat: compile('flat') }
  for (const ipv4 of [true, false]) {
    for (const flows of [1024, 65_536]) {
      const costs = new Map(TABLES.flatMap(table => STEPS.map(step => [`${table} ${step}`, [] as number[]] as const)))
      for (let round = 0; round < ROUNDS; round++) {
        for (const table of round % 2 ? TABLES.toReversed() : TABLES) {
          for (const [step, cost] of measure(objects[table], flows, ipv4)) costs.get(`${table} ${step}`)?.push(cost)
        }
      }
      console.log(`${ipv4 ? 'IPv4' : 'IPv6'}, ${flows} flows`)
      for (const step of STEPS) {
        const [hash, flat] = TABLES.map(table => costs.get(`${table} ${step}`) ?? []) as [number[], number[]]
        const ratios = flat.map((cost, i) => cost / (hash[i] ?? Number.NaN))
        console.log(`  ${step.padEnd(6)} hash ${spread(hash, 0)}  flat ${spread(flat, 0)}  ratio ${spread(ratios, 2)}`)
      }
    }
  }
} finally {
  rmSync(folder, { recursive: true })
}

function compile(table: FlowTableKind): string {
  const arch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
  const out = join(folder, `${table}.o`)
  const include = [`-I${join(sources, '../../bpf')}`, `-I/usr/include/${arch}`]
  const first = ['linux/bpf.h', 'lib/context_skb.h', `lib/flow_store_${table}.h`].flatMap(each => ['-include', each])
  const flags = ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', ...include, ...first]
  execFileSync('clang', [...flags, '-c', join(sources, 'measure.bpf.c'), '-o', out])
  return out
}

/** One round: nanoseconds of each step. */
function measure(path: string, flows: number, ipv4: boolean): [Step, number][] {
  const object = native.openObject(path)
  try {
    const wanted = sizesOf({
      services: 64,
      frontends: 64,
      backends: 64,
      slots: 1024,
      flows: flows * 2,
      sourceRanges: 64,
    })
    for (const [id, { name, maxEntries }] of Object.entries(maps)) {
      const size = wanted[id as keyof typeof maps] ?? Math.min(maxEntries, 1024)
      if (size > 0 && object.mapNames().includes(name)) object.setMaxEntries(name, size)
    }
    object.setConstant('flows', new Uint8Array(Uint32Array.of(flows).buffer))
    if (object.mapNames().includes(maps.flatIndex.name)) {
      object.setConstant('cfg_loads_in_order', Uint8Array.of(Number(LOADS_IN_ORDER)))
    }
    object.setConstant('ipv4', Uint8Array.of(Number(ipv4)))
    object.load()
    if (object.mapNames().includes(maps.flatSecret.name)) {
      object.map(maps.flatSecret.name).update(new Uint8Array(4), randomBytes(maps.flatSecret.value.size))
    }
    return STEPS.map(step => {
      const base = run('base', flows)
      return [step, run(step, flows) - base]
    })
  } finally {
    object.close()
  }

  function run(step: Step | 'base', repeat: number): number {
    const map = object.map('progress')
    map.update(new Uint8Array(4), new Uint8Array(16))
    const program = object.program(step)
    const { duration } = program.testRun({ data: new Uint8Array(64), repeat })
    program.close()
    const failed = new DataView(map.lookup(new Uint8Array(4))?.buffer ?? new ArrayBuffer(16)).getBigUint64(8, true)
    if (failed !== 0n) throw new Error(`${step}: ${failed} of ${repeat} runs failed`)
    return duration
  }
}

function spread(values: readonly number[], digits: number): string {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN).toFixed(digits)
  return `${at(0.5)} [${at(0)}, ${at(1)}]`
}
