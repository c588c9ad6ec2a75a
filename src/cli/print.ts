import CliTable from 'cli-table3'
import type { Table } from '../inspect/tables.js'

/** Columns in kubectl's manner: no lines, three blanks between, nothing after the last. */
export function printTable({ head, rows }: Table): string {
  const none = ''
  const table = new CliTable({
    head: [...head],
    chars: {
      ...{ top: none, 'top-mid': none, 'top-left': none, 'top-right': none },
      ...{ bottom: none, 'bottom-mid': none, 'bottom-left': none, 'bottom-right': none },
      ...{ left: none, 'left-mid': none, mid: none, 'mid-mid': none, right: none, 'right-mid': none },
      middle: '   ',
    },
    style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
  })
  for (const row of rows) table.push(row.map(printable))
  return `${table
    .toString()
    .split('\n')
    .map(line => line.trimEnd())
    .join('\n')}\n`
}

/** Control characters in a name from outside could rewrite the terminal; shown as escapes. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, character => JSON.stringify(character).slice(1, -1))
}
