import { describe, expect, test } from 'vitest'
import { packetTablePage } from '../../tools/gen-docs/packet-table.js'
import { type RowTest, rowsIn, rowTests } from '../../tools/gen-docs/test-titles.js'

describe('rows that a title names', () => {
  test.each([
    { title: 'row 7: data after a reset', rows: [7] },
    { title: 'rows 12, 26 and 27: large ones', rows: [12, 26, 27] },
    { title: 'datagrams up to six fragments (rows 12, 26)', rows: [12, 26] },
    { title: 'a row 7 and rows 8 and 9', rows: [7, 8, 9] },
    { title: 'rows of the table, 3 of them', rows: [] },
    { title: 'borrow 4', rows: [] },
  ])('$title', ({ title, rows }) => expect(rowsIn(title)).toEqual(rows))
})

describe('tests in a source', () => {
  const found = (source: string, file = 'test/bpf/tc-x.test.ts') => rowTests(file, source)

  test('families are those of what a suite is repeated for, through constants', () => {
    const source = `
      const PLAN = { IPv4: 1, IPv6: 2 }
      const CASES = Object.keys(PLAN)
      describe.each(CASES)('%s', family => {
        test('row 1: there and back', () => {})
        test.each(['A'])('no row: %s', () => {})
      })`
    expect(found(source)).toEqual([
      {
        file: 'test/bpf/tc-x.test.ts',
        title: 'row 1: there and back',
        rows: [1],
        families: ['IPv4', 'IPv6'],
        hook: 'tc',
      },
    ])
  })

  test('what a title says goes first, addresses in the body count where nothing else tells', () => {
    const source = `
      test('row 2: over IPv6', () => send('192.0.2.1'))
      test('row 3: by address', () => send('192.0.2.1'))`
    expect(found(source).map(({ families }) => families)).toEqual([['IPv6'], ['IPv4']])
  })

  test('rows of a suite are those of its tests', () => {
    const source = `describe('rows 37 and 38: sources', () => { test('that cannot be', () => send('::1')) })`
    expect(found(source)).toMatchObject([{ title: 'rows 37 and 38: sources', rows: [37, 38] }])
  })

  test('where a test runs follows from its file, and from what it is repeated for', () => {
    const source = `test.each(['tc', 'xdp'])('row 1: %s', () => {})`
    expect(found(source)[0]?.hook).toBe('XDP')
    expect(found(source, 'test/bpf/sock-x.test.ts')[0]?.hook).toBe('sockets')
    expect(found(source, 'test/netns/x.test.ts')[0]?.hook).toBe('lab')
  })
})

describe('the page', () => {
  const row = { row: 1, sent: 'a SYN', expected: 'a backend' }
  const shown = (rows: number[], families: RowTest['families']): RowTest => ({
    file: 'test/bpf/tc-x.test.ts',
    title: 'row 1: it goes',
    rows,
    families,
    hook: 'tc',
  })

  test('names the tests of a row', () => {
    const page = packetTablePage([row], [shown([1], ['IPv4', 'IPv6'])])
    expect(page).toContain('1 of 1 rows have tests')
    expect(page).toContain('| [tc-x.test.ts](../../test/bpf/tc-x.test.ts) | it goes | IPv4, IPv6 | `tc` |')
  })

  test.each([
    { name: 'a row without a test', tests: [], says: 'row 1 (a SYN): no test names it' },
    { name: 'one family alone', tests: [shown([1], ['IPv4'])], says: 'row 1 (a SYN): no test for IPv6' },
    { name: 'a row that does not exist', tests: [shown([1, 2], ['IPv4', 'IPv6'])], says: 'there is no row 2' },
  ])('$name stops it', ({ tests, says }) => {
    expect(() => packetTablePage([row], tests)).toThrow(says)
  })

  test('what is left open, and a row of one family, do not', () => {
    expect(packetTablePage([{ ...row, open: 'not served' }], [])).toContain('Left open: not served')
    expect(packetTablePage([{ ...row, family: 'IPv4' }], [shown([1], ['IPv4'])])).toContain('it goes')
  })
})
