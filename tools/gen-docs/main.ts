import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKET_TABLE } from '../../test/packet-table.js'
import { PARITY } from '../../test/parity.js'
import { cliPage } from './cli.js'
import { configurationPage } from './configuration.js'
import { metricsPage } from './metrics.js'
import { outcomesPage } from './outcomes.js'
import { packetTablePage } from './packet-table.js'
import { parityPage } from './parity.js'
import { rowTests, titlesOf } from './test-titles.js'

/**
 * Writes the generated pages of docs/reference/. With --check it writes nothing and ends
 * with 1 when a page would change.
 */

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'docs/reference')

/** Every test of the tree that names a row of the packet table. */
function allRowTests() {
  const files = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => `test/${name}`)
    .sort()
  return files.flatMap(file => rowTests(file, readFileSync(join(ROOT, file), 'utf8')))
}

/** Titles of the tests of each file below test/; none for scripts. */
function testFiles(): Map<string, readonly string[]> {
  const names = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' }).sort()
  return new Map(
    names
      .filter(name => name.endsWith('.test.ts') || name.endsWith('.script'))
      .map(name => {
        const isScript = name.endsWith('.script')
        return [name, isScript ? [] : titlesOf(name, readFileSync(join(ROOT, 'test', name), 'utf8'))]
      }),
  )
}

const pages = new Map([
  ['configuration.md', configurationPage()],
  ['cli.md', cliPage()],
  ['metrics.md', metricsPage()],
  ['packet-table.md', packetTablePage(PACKET_TABLE, allRowTests())],
  ['kube-proxy-tests.md', parityPage(PARITY, testFiles())],
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
