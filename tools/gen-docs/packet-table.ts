import type { PacketRow } from '../../test/packet-table.js'
import { code, page, table } from './markdown.js'
import type { RowTest } from './test-titles.js'

/**
 * docs/reference/packet-table.md: each row with the tests that name it. Throws when a row
 * has none and does not say why, when one is shown in one family alone, and when a test
 * names a row that does not exist.
 */
export function packetTablePage(rows: readonly PacketRow[], tests: readonly RowTest[]): string {
  const problems = [...rows.flatMap(row => problemsOf(row, testsOf(row, tests))), ...unknownRows(rows, tests)]
  if (problems.length > 0) throw new Error(`the packet table does not hold:\n  ${problems.join('\n  ')}`)
  const proved = rows.filter(row => testsOf(row, tests).length > 0)
  return page(
    '# Packet table',
    `What may arrive, what must come of it, and the tests that show it. The rows are those of
[packet-table.ts](../../test/packet-table.ts); a test names the rows that it proves in its title. \`make gen\` fails when a
row has no test and no reason, or is shown for IPv4 or IPv6 alone without one.`,
    `${proved.length} of ${rows.length} rows have tests, ${rows.filter(({ open }) => open).length} say what is left open. Where a test runs: \`tc\` programs on packets
that are made by hand or by sockets, \`XDP\` the same at XDP, \`sockets\` the programs of the socket layer, \`lab\` a cluster of
network namespaces with running agents.`,
    table(
      ['Row', 'What is sent', 'What must come of it', 'Left open'],
      rows.map(({ row, sent, expected, open }) => [`[${row}](#row-${row})`, sent, expected, open ?? '']),
    ),
    ...rows.map(row => section(row, testsOf(row, tests))),
  )
}

const testsOf = ({ row }: PacketRow, tests: readonly RowTest[]) => tests.filter(({ rows }) => rows.includes(row))

function problemsOf(row: PacketRow, tests: readonly RowTest[]): string[] {
  if (tests.length === 0) return row.open ? [] : [`row ${row.row} (${row.sent}): no test names it`]
  const wanted = row.family ? [row.family] : (['IPv4', 'IPv6'] as const)
  const missing = wanted.filter(family => !tests.some(({ families }) => families.includes(family)))
  return missing.map(family => `row ${row.row} (${row.sent}): no test for ${family}`)
}

function unknownRows(rows: readonly PacketRow[], tests: readonly RowTest[]): string[] {
  const known = new Set(rows.map(({ row }) => row))
  return tests.flatMap(test =>
    test.rows.filter(row => !known.has(row)).map(row => `${test.file}: ${test.title}: there is no row ${row}`),
  )
}

function section({ row, sent, expected, open }: PacketRow, tests: readonly RowTest[]): string {
  const shown = tests.map(({ file, title, families, hook }) => [
    `[${file.split('/').at(-1)}](../../${file})`,
    title.replace(/^(?:rows? [\d, and]+(?:: ?| > )?)/, '').trim() || title,
    families.join(', '),
    code(hook),
  ])
  return [
    `## Row ${row}`,
    `${sent} → ${expected}`,
    ...(open ? [`Left open: ${open}`] : []),
    ...(shown.length > 0 ? [table(['File', 'Test', 'Families', 'Where'], shown)] : []),
  ].join('\n\n')
}
