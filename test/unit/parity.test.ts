import { describe, expect, test } from 'vitest'
import { parityPage } from '../../tools/gen-docs/parity.js'
import { titlesOf } from '../../tools/gen-docs/test-titles.js'

const files = new Map([
  ['unit/a.test.ts', ['one port for each family', 'two ports']],
  ['scripts/b.script', []],
])
const row = (ours: string[], why?: string) =>
  parityPage([{ group: 'g', rows: [{ theirs: 'TestX', holds: 'x', ours, ...(why && { why }) }] }], files)

describe("the table of kube-proxy's tests", () => {
  test('links files, quotes titles, counts rows', () => {
    const text = row(['unit/a.test.ts > one port', 'unit/a.test.ts > two ports', 'scripts/b.script'], 'not all of it')
    expect(text).toContain(
      '| TestX | x | [a](../../test/unit/a.test.ts): “one port”, “two ports”; [b.script](../../test/scripts/b.script); not all of it |',
    )
    expect(text).toContain('1 of 1 rows have tests')
  })

  test.each([
    { ours: [], problem: 'neither a test nor a reason' },
    { ours: ['unit/b.test.ts > x'], problem: 'there is no file test/unit/b.test.ts' },
    { ours: ['unit/a.test.ts > ports'], problem: 'test/unit/a.test.ts has no test ports' },
    { ours: ['unit/a.test.ts'], problem: 'a title is missing' },
    { ours: ['scripts/c.script'], problem: 'there is no file test/scripts/c.script' },
  ])('refuses $ours: $problem', ({ ours, problem }) => expect(() => row(ours)).toThrow(problem))

  test('titles of a source: of tests and suites, in tables, and those that may say why they are skipped', () => {
    const source = `
      describe.skipIf(X)(titled('with root'), () => {
        test('plain', () => {})
        test.each([1])('of %i', () => {})
        test(\`made \${up}\`, () => {})
      })`
    expect(titlesOf('x.test.ts', source)).toEqual(['with root', 'plain', 'of %i', `made \${up}`])
  })
})
