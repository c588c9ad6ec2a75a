import { code, page, table } from './markdown.js'

/** docs/reference/outcomes.md, from the comments of bpf/layout/outcome.h. */
export function outcomesPage(header: string): string {
  const body = /enum outcome \{(.*?)\};/s.exec(header)?.[1]
  if (body === undefined) throw new Error('bpf/layout/outcome.h has no enum outcome')
  const rows = [...body.matchAll(/(?:\/\*(?<comment>(?:(?!\*\/).)*)\*\/\s*)?OUTCOME_(?<name>\w+) = \d+,/gs)]
    .map(({ groups }) => ({
      name: groups?.name ?? '',
      comment: groups?.comment?.replace(/\s*\n\s*\*?\s*/g, ' ').trim(),
    }))
    .filter(({ name }) => name !== 'CONTINUE' && name !== 'COUNT')
  const silent = rows.find(({ comment }) => comment === undefined)
  if (silent) throw new Error(`bpf/layout/outcome.h: OUTCOME_${silent.name} has no comment`)
  return page(
    '# Outcomes',
    `Every way out of a program of the packet path is counted once, by program and outcome. The names are those of
\`waggle show outcomes\` and of the label \`outcome\` of \`waggle_outcomes_total\`.`,
    table(
      ['Outcome', 'Meaning'],
      rows.map(({ name, comment }) => [code(name.toLowerCase()), comment ?? '']),
    ),
  )
}
