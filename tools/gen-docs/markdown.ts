/** First line of every generated page. */
export const NOTE = '<!-- Written by `make gen` (tools/gen-docs). Do not edit. -->'

/** A Markdown table; cells may hold Markdown, bars are escaped. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

/** Text in code marks. */
export const code = (text: string) => `\`${text}\``

/** A page: parts with a blank line between, ended by one line end. */
export const page = (...parts: readonly string[]) => `${[NOTE, ...parts].join('\n\n')}\n`
