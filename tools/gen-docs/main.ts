import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cliPage } from './cli.js'
import { configurationPage } from './configuration.js'
import { metricsPage } from './metrics.js'
import { outcomesPage } from './outcomes.js'

/**
 * Writes the generated pages of docs/reference/. With --check it writes nothing and ends
 * with 1 when a page would change.
 */

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'docs/reference')

const pages = new Map([
  ['configuration.md', configurationPage()],
  ['cli.md', cliPage()],
  ['metrics.md', metricsPage()],
  ['outcomes.md', outcomesPage(readFileSync(join(ROOT, 'bpf/layout/outcome.h'), 'utf8'))],
])

function current(name: string): string {
  try {
    return readFileSync(join(FOLDER, name), 'utf8')
  } catch {
    return ''
  }
}

const check = process.argv.includes('--check')
const changed = [...pages].filter(([name, text]) => current(name) !== text)
if (!check) mkdirSync(FOLDER, { recursive: true })
for (const [name, text] of changed) {
  if (check) console.error(`docs/reference/${name} is not what the sources say; run make gen and commit it`)
  else writeFileSync(join(FOLDER, name), text)
}
if (!check) console.log(changed.length > 0 ? `wrote ${changed.map(([name]) => name).join(', ')}` : 'nothing changed')
process.exitCode = check && changed.length > 0 ? 1 : 0
