import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'

/**
 * What a step of a flow costs on the product's flow table and on the flat one, in
 * nanoseconds less what a step that does nothing costs: `npx tsx test/flat-table/measure.ts`.
 * Each round takes fresh tables, which hold twice as many flows as there are, and both
 * tables in turns; medians and, in brackets, the lowest and highest of the rounds.
 */
const ROUNDS = 15
const STEPS = ['hash_new', 'hash_known', 'hash_miss', 'flat_new', 'flat_known', 'flat_miss'] as const
type Step = (typeof STEPS)[number]

const native = loadNative()
const folder = mkdtempSync(join(tmpdir(), 'waggle-flat-'))
const sources = import.meta.dirname

try {
  const object = compile()
  for (const ipv4 of [true, false]) {
    for (const flows of [1024, 65_536]) {
      const costs = new Map<Step, number[]>(STEPS.map(step => [step, []]))
      for (let round = 0; round < ROUNDS; round++) {
        for (const [step, cost] of measure(object, flows, ipv4, round % 2 === 1)) costs.get(step)?.push(cost)
      }
      console.log(`${ipv4 ? 'IPv4' : 'IPv6'}, ${flows} flows`)
      for (const kind of ['known', 'miss', 'new'] as const) {
        const [hash, flat] = [costs.get(`hash_${kind}`) ?? [], costs.get(`flat_${kind}`) ?? []]
        const ratios = flat.map((cost, i) => cost / (hash[i] ?? Number.NaN))
        console.log(`  ${kind.padEnd(6)} hash ${spread(hash, 0)}  flat ${spread(flat, 0)}  ratio ${spread(ratios, 2)}`)
      }
    }
  }
} finally {
  rmSync(folder, { recursive: true })
}

function compile(): string {
  const arch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
  const out = join(folder, 'measure.o')
  const include = [`-I${join(sources, '../../bpf')}`, `-I/usr/include/${arch}`]
  const flags = ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', ...include]
  execFileSync('clang', [...flags, '-c', join(sources, 'measure.bpf.c'), '-o', out])
  return out
}

/** One round: nanoseconds of each step. */
function measure(path: string, flows: number, ipv4: boolean, flatFirst: boolean): [Step, number][] {
  const object = native.openObject(path)
  try {
    const sizes: Record<string, number> = {
      [maps.flows.name]: flows * 4,
      [maps.flowSlots.name]: flows * 2,
      flat_recs4: flows * 2 + 1,
      flat_recs6: flows * 2 + 1,
      flat_index: flows * 2,
    }
    for (const [name, entries] of Object.entries(sizes)) object.setMaxEntries(name, entries)
    object.setConstant('flows', new Uint8Array(Uint32Array.of(flows).buffer))
    object.setConstant('ipv4', Uint8Array.of(Number(ipv4)))
    object.load()
    object.map('flat_secret').update(new Uint8Array(4), randomBytes(80))
    const costs = new Map<Step, number>()
    const order = flatFirst ? [...STEPS.slice(3), ...STEPS.slice(0, 3)] : STEPS
    for (const step of order) {
      const base = run('base', flows)
      costs.set(step, run(step, flows) - base)
    }
    return [...costs]
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
