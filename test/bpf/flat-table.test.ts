import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MappedArray } from '../../src/dataplane/ebpf/mapped-array.js'
import { maps as layouts } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfObject } from '../../src/ebpf/native.js'
import { missing } from './tc-node.js'

const lacking = missing() ?? (availableParallelism() < 2 ? 'two CPUs' : undefined)
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const SOURCES = join(import.meta.dirname, '../flat-table')

/** test/flat-table/stress.bpf.c: the counters of one struct report, in its order. */
const COUNTERS = [
  'found',
  'missed',
  'added',
  'exists',
  'taken',
  'full',
  'none',
  'ended',
  'lost',
  'noted',
  'wrong',
  'twice',
] as const
type Report = Readonly<Record<(typeof COUNTERS)[number], number>>

const MAX_KEYS = 4096
/** bpf/layout/flat.h: 7 words a bucket behind a count; a word is tag, direction, record. */
const WORDS = 7
const RECORD_MASK = 0x3f_ffff
const DIRECTION_BIT = 1 << 22
const STATE_MASK = 7
const FREE = 0
const LIVE = 4

/** A place in the product's sources and what stands there instead. */
interface Edit {
  readonly file: string
  readonly at: string
  readonly becomes: string
}

/** Where the table waits and counts in the stress. */
const LAST_LOOK = '\tr = flat_behind(first, read);\n\tbehind = FLAT_READ(r->control);\n'
const CONTEST = '\t\tret = flat_contest(from, client, to, backend, new->place);\n'
const FREE_AGAIN = '\tflat_unlink(place);\n\tFLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_FREE));\n'
const COPY = '\tif (to)\n\t\tread = flat_record_to('
const COMMIT = '\tif (!ret && flat_commit('
const WATCHED: readonly Edit[] = [
  { file: 'lib/flat_index.h', at: COPY, becomes: `\tpause_sometimes();\n${COPY}` },
  { file: 'lib/flat_add.h', at: CONTEST, becomes: `\t{\n\t\tpause_sometimes();\n${CONTEST}\t}\n` },
  { file: 'lib/flat_add.h', at: COMMIT, becomes: `\tpause_sometimes();\n${COMMIT}` },
  { file: 'lib/flat_table.h', at: FREE_AGAIN, becomes: `\tended(r);\n${FREE_AGAIN}` },
]

/** What the stress must notice. */
const BROKEN: Readonly<Record<string, Edit>> = {
  'no contest': { file: 'lib/flat_add.h', at: CONTEST, becomes: '\t\tret = 0;\n' },
  'no second look': { file: 'lib/flat_index.h', at: LAST_LOOK, becomes: '\tbehind = before;\n' },
}

interface Shape {
  readonly ipv4: boolean
  readonly records: number
  readonly buckets: number
  readonly keys: number
}

/** Operations of each process in one round; more find more. */
const OPERATIONS = Number(process.env.WAGGLE_STRESS ?? 200_000)

describe.skipIf(lacking)('the flat flow table under two CPUs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'waggle-flat-'))
  const runner = join(folder, 'run')
  const native = loadNative()

  beforeAll(() => {
    execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-o', runner, join(SOURCES, 'run.c')])
    compile('', [])
    for (const [what, edit] of Object.entries(BROKEN)) compile(what, [edit])
  })

  afterAll(() => rmSync(folder, { recursive: true }))

  function compile(name: string, edits: readonly Edit[]): void {
    const copy = join(folder, `bpf${name}`)
    cpSync(join(SOURCES, '../../bpf'), copy, { recursive: true })
    for (const { file, at, becomes } of [...WATCHED, ...edits]) {
      const text = readFileSync(join(copy, file), 'utf8')
      expect(text.split(at), `${file}: ${at}`).toHaveLength(2)
      writeFileSync(join(copy, file), text.replace(at, becomes))
    }
    const arch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
    const include = [`-I${copy}`, `-I/usr/include/${arch}`, '-include', join(SOURCES, 'watch.h')]
    const flags = ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', ...include]
    execFileSync('clang', [...flags, '-c', join(SOURCES, 'stress.bpf.c'), '-o', join(folder, `stress${name}.o`)])
  }

  test.each<Shape & { what: string }>([
    { what: 'few records: most are taken again at once', ipv4: true, records: 16, buckets: 64, keys: 64 },
    { what: 'full buckets: words stand elsewhere', ipv4: true, records: 64, buckets: 16, keys: 64 },
    { what: 'hot keys and room for all', ipv4: true, records: 1024, buckets: 1024, keys: 256 },
    { what: 'IPv6', ipv4: false, records: 64, buckets: 32, keys: 128 },
  ])('$what', shape => {
    const table = new Table(native.openObject(join(folder, 'stress.o')), shape)
    try {
      for (let round = 0; round < 3; round++) {
        table.run(runner)
        expect(table.violations()).toEqual([])
        expect(table.report()).toMatchObject({ wrong: 0, twice: 0 })
      }
      const { added, found, ended, exists } = table.report()
      expect(Math.min(added, found, ended, exists)).toBeGreaterThan(1000)
      table.drain()
      expect(table.remains()).toEqual([])
    } finally {
      table.close()
    }
  })

  test('what is broken on purpose is noticed', () => {
    const shape = { ipv4: true, records: 16, buckets: 64, keys: 16 }
    for (const broken of Object.keys(BROKEN)) {
      const table = new Table(native.openObject(join(folder, `stress${broken}.o`)), shape)
      try {
        let noticed = false
        for (let round = 0; round < 20 && !noticed; round++) {
          table.run(runner)
          const { wrong, twice } = table.report()
          noticed = table.violations().length > 0 || wrong + twice > 0
        }
        expect(noticed, broken).toBe(true)
      } finally {
        table.close()
      }
    }
  })
})

class Table {
  readonly #object: BpfObject
  readonly #shape: Shape
  readonly #records: MappedArray
  readonly #index: MappedArray
  readonly #held: MappedArray
  readonly #report: MappedArray

  constructor(object: BpfObject, shape: Shape) {
    this.#object = object
    this.#shape = shape
    const u32 = (value: number) => new Uint8Array(Uint32Array.of(value).buffer)
    for (const { name, maxEntries } of Object.values(layouts)) {
      if (maxEntries > 64 && object.mapNames().includes(name)) object.setMaxEntries(name, 64)
    }
    object.setMaxEntries(layouts.flatRecs4.name, shape.records + 1)
    object.setMaxEntries(layouts.flatRecs6.name, shape.records + 1)
    object.setMaxEntries(layouts.flatIndex.name, shape.buckets)
    object.setConstant('keys', u32(shape.keys))
    object.setConstant('ipv4', Uint8Array.of(Number(shape.ipv4)))
    object.load()
    object.map(layouts.flatSecret.name).update(u32(0), randomBytes(80))
    const mapped = (name: string) => {
      const map = object.map(name)
      return new MappedArray(map.mmap(), map.info.valueSize, map.info.maxEntries)
    }
    this.#records = mapped((shape.ipv4 ? layouts.flatRecs4 : layouts.flatRecs6).name)
    this.#index = mapped(layouts.flatIndex.name)
    this.#held = mapped('held')
    this.#report = mapped('report')
  }

  close(): void {
    this.#object.close()
  }

  run(runner: string): void {
    const program = this.#object.program('stress')
    execFileSync(runner, [String(program.info.id), String(OPERATIONS), '2'])
    program.close()
  }

  report(): Report {
    const values = COUNTERS.map((name, i) => [name, Number(this.#report.view.getBigUint64(i * 8, true))])
    return Object.fromEntries(values) as Report
  }

  /** Ends all flows. */
  drain(): void {
    const program = this.#object.program('end_one')
    const ctxIn = new Uint8Array(192)
    for (let record = 1; record <= this.#shape.records; record++) {
      new DataView(ctxIn.buffer).setUint32(48, record, true)
      program.testRun({ data: new Uint8Array(64), ctxIn })
    }
    program.close()
  }

  /** What is wrong with a table that nobody uses now. */
  violations(): string[] {
    const found: string[] = []
    const words = new Map<number, number[]>()
    for (const { word } of this.#words()) {
      const record = word & RECORD_MASK
      words.set(record, [...(words.get(record) ?? []), word & DIRECTION_BIT])
    }
    const clients = new Map<number, number>()
    const backends = new Map<number, number>()
    for (let record = 1; record <= this.#shape.records; record++) {
      const state = this.#control(record) & STATE_MASK
      const directions = words.get(record) ?? []
      if (state !== FREE && state !== LIVE) found.push(`record ${record}: state ${state}`)
      const whole = directions.length === 2 && directions[0] !== directions[1]
      if (state === LIVE && !whole) found.push(`record ${record} is live and has ${directions.length} words`)
      if (state === FREE && directions.length > 0) found.push(`record ${record} is free and has words`)
      if (state !== LIVE) continue
      const payload = this.#records.view.getUint32(this.#records.offset(record) + 8, true)
      clients.set(payload & 0xffff, (clients.get(payload & 0xffff) ?? 0) + 1)
      backends.set(payload >>> 16, (backends.get(payload >>> 16) ?? 0) + 1)
    }
    for (let key = 0; key < this.#shape.keys; key++) {
      for (const [flows, at] of [
        [clients.get(key) ?? 0, key],
        [backends.get(key) ?? 0, key + MAX_KEYS],
      ] as const) {
        const held = Number(BigInt.asIntN(64, this.#held.loadWord(at, 0)))
        if (flows > 1) found.push(`key ${at} has ${flows} flows`)
        if (held !== flows) found.push(`key ${at} has ${flows} flows, and ${held} were counted`)
      }
    }
    return found
  }

  /** What stands in the index. */
  remains(): string[] {
    const left = this.#words().map(({ bucket, word }) => `bucket ${bucket}: ${word.toString(16)}`)
    for (let bucket = 0; bucket < this.#index.length; bucket++) {
      const elsewhere = this.#index.view.getUint32(this.#index.offset(bucket), true)
      if (elsewhere !== 0) left.push(`bucket ${bucket}: ${elsewhere} words elsewhere`)
    }
    return left
  }

  #control(record: number): number {
    return this.#records.view.getUint32(this.#records.offset(record), true)
  }

  #words(): { bucket: number; word: number }[] {
    const words: { bucket: number; word: number }[] = []
    for (let bucket = 0; bucket < this.#index.length; bucket++) {
      for (let i = 1; i <= WORDS; i++) {
        const word = this.#index.view.getUint32(this.#index.offset(bucket) + 4 * i, true)
        if (word !== 0) words.push({ bucket, word })
      }
    }
    return words
  }
}
