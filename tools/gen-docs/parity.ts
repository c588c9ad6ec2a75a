import type { ParityGroup, ParityRow } from '../../test/parity.js'
import { page, table } from './markdown.js'

/** What the tree holds: titles of tests by file below test/, scripts without titles. */
export type TestFiles = ReadonlyMap<string, readonly string[]>

/**
 * docs/reference/kube-proxy-tests.md. Throws when a row names a file or a test that does not
 * exist, or neither a test nor a reason.
 */
export function parityPage(groups: readonly ParityGroup[], files: TestFiles): string {
  const rows = groups.flatMap(group => group.rows)
  const problems = rows.flatMap(row => problemsOf(row, files))
  if (problems.length > 0) throw new Error(`the table of kube-proxy's tests does not hold:\n  ${problems.join('\n  ')}`)
  const covered = rows.filter(({ ours = [] }) => ours.length > 0)
  return page(
    "# kube-proxy's tests and ours",
    `What kube-proxy's own tests hold (Kubernetes 1.36), and the tests here that hold the same. The rows are those of
[parity.ts](../../test/parity.ts); \`make gen\` fails when one names a test that does not exist.`,
    `${covered.length} of ${rows.length} rows have tests; the others, and those with a remark, say why. Beyond them, random histories of
objects are compared with [the real kube-proxy](../testing.md#the-plan-against-kube-proxy).`,
    ...groups.flatMap(({ group, rows }) => [
      `## ${group}`,
      table(['Theirs', 'What it holds', 'Ours'], rows.map(cells)),
    ]),
  )
}

function cells({ theirs, holds, ours = [], why }: ParityRow): string[] {
  const byFile = new Map<string, string[]>()
  for (const { file, title } of ours.map(parse))
    byFile.set(file, [...(byFile.get(file) ?? []), ...(title ? [title] : [])])
  const links = [...byFile].map(([file, titles]) => {
    const name = file
      .split('/')
      .at(-1)
      ?.replace(/\.test\.ts$/, '')
    return `[${name}](../../test/${file})${titles.length > 0 ? `: ${titles.map(title => `“${title}”`).join(', ')}` : ''}`
  })
  return [theirs, holds, [...links, ...(why ? [why] : [])].join('; ')]
}

function problemsOf({ theirs, ours = [], why }: ParityRow, files: TestFiles): string[] {
  if (ours.length === 0 && !why) return [`${theirs}: neither a test nor a reason`]
  return ours.flatMap(entry => {
    const { file, title } = parse(entry)
    const titles = files.get(file)
    if (titles === undefined) return [`${theirs}: there is no file test/${file}`]
    if (title === undefined && file.endsWith('.script')) return []
    if (title !== undefined && titles.some(each => each.startsWith(title))) return []
    return [`${theirs}: test/${file} has no test ${title ?? '(a title is missing)'}`]
  })
}

function parse(entry: string): { file: string; title: string | undefined } {
  const [file = '', ...rest] = entry.split(' > ')
  return { file, title: rest.length > 0 ? rest.join(' > ') : undefined }
}
