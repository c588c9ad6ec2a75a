import { describe, expect, test } from 'vitest'
import { countedFunctions, instrument, profileText } from '../../tools/coverage/instrument.js'
import { coverageOf, reportText } from '../../tools/coverage/report.js'

const NAME = (symbol: string, name: string) => `@__profn_${symbol} = private constant [${name.length} x i8] c"${name}"`
const INC = (symbol: string, hash: string, count: number, index: number) =>
  `  call void @llvm.instrprof.increment(i8* getelementptr inbounds ([9 x i8], [9 x i8]* @__profn_${symbol}, i32 0, i32 0), i64 ${hash}, i32 ${count}, i32 ${index})`
const IR = [
  NAME('tc.bpf.c_one', 'tc.bpf.c:one'),
  NAME('two', 'two'),
  INC('tc.bpf.c_one', '-1', 2, 0),
  INC('two', '7', 3, 2),
  `  call void @llvm.instrprof.increment.step(i8* getelementptr inbounds ([9 x i8], [9 x i8]* @__profn_tc.bpf.c_one, i32 0, i32 0), i64 -1, i32 2, i32 1, i64 %5), !dbg !1`,
  'declare void @llvm.instrprof.increment(i8*, i64, i32, i32) #2',
].join('\n')

describe('counters in LLVM IR', () => {
  const functions = countedFunctions(IR)

  test('each function has its own, one behind the other', () => {
    expect([...functions.values()]).toEqual([
      { name: 'tc.bpf.c:one', hash: 0xffffffffffffffffn, first: 0, counters: 2 },
      { name: 'two', hash: 7n, first: 2, counters: 3 },
    ])
  })

  test('a call becomes an addition at its place; a step adds what it is', () => {
    const ir = instrument(IR, () => true)
    expect(ir).toContain('lock *(u64 *)(r1 + 0) += r0')
    expect(ir).toContain('lock *(u64 *)(r1 + 32) += r0')
    expect(ir).toContain('lock *(u64 *)(r1 + 8) += $1", "i,r,~{r1}"([5 x i64]* @waggle_coverage, i64 %5), !dbg !1')
    expect(ir).not.toContain('instrprof')
  })

  test('functions that were not chosen do not count', () => {
    const ir = instrument(IR, fn => fn.name === 'two')
    expect(ir.match(/lock/g)).toHaveLength(1)
    expect(ir).toContain('[5 x i64] zeroinitializer')
  })

  test('a profile names each function with its hash and its counts', () => {
    expect(profileText(functions.values(), [4n, 0n, 9n])).toBe(
      'tc.bpf.c:one\n18446744073709551615\n2\n4\n0\n\ntwo\n7\n3\n9\n0\n0\n',
    )
  })
})

describe('what llvm-cov exports', () => {
  const source = [
    'static int',
    'step(struct packet *p)',
    '{',
    '\tif (p->egress &&',
    '\t    p->ttl)',
    '\t\treturn 1;',
    '}',
  ]
  const json = (...counts: [number, number][]) =>
    JSON.stringify({
      data: [
        {
          files: [
            { filename: '/w/bpf/lib/step.h', branches: counts.map(([yes, no]) => [4, 6, 5, 12, yes, no, 0, 0, 4]) },
            { filename: '/usr/include/linux/bpf.h', branches: [] },
          ],
        },
      ],
    })
  const lcov = 'SF:/w/bpf/lib/step.h\nDA:4,2\nDA:6,0\nend_of_record\n'
  const read = () => source.join('\n')

  test('lines, and the sides of conditions summed over the programs that contain them', () => {
    const [file, ...others] = coverageOf(lcov, json([2, 0], [0, 0]), read, '/w/bpf/')
    expect(others).toEqual([])
    expect(file).toEqual({
      file: 'lib/step.h',
      lines: { reached: 1, all: 2, missed: [6] },
      sides: {
        reached: 1,
        all: 2,
        missed: [{ file: 'lib/step.h', line: 4, fn: 'step', condition: 'p->egress && p->ttl', never: 'false' }],
      },
    })
  })

  test('what is not reached is named', () => {
    const text = reportText(coverageOf(lcov, json([2, 0]), read, '/w/bpf/'))
    expect(text).toContain('lib/step.h:4 step: p->egress && p->ttl is never false')
    expect(text).toMatch(/^all +1\/2 +50\.0 % +1\/2 +50\.0 %$/m)
  })
})
