import { readdirSync, writeFileSync } from 'node:fs'
import { release } from 'node:os'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type File, startTests, type Task, type VitestRunner } from '@vitest/runner'

/**
 * Runs the bundled test files beside this one, in this process, and writes a report in the
 * form of vitest's own (--reporter=json): `node run.mjs REPORT`. ONLY narrows by name.
 */

/** Everything takes ten times as long where a processor is emulated. */
const TIMEOUT_MS = 300_000

interface Assertion {
  readonly fullName: string
  readonly status: 'passed' | 'failed' | 'skipped'
  readonly failureMessages: readonly string[]
}

const only = process.env.ONLY
const runner: VitestRunner = {
  config: {
    root: import.meta.dirname,
    setupFiles: [],
    name: undefined,
    passWithNoTests: true,
    testNamePattern: only ? new RegExp(only.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')) : undefined,
    allowOnly: false,
    sequence: { seed: 0, hooks: 'stack', setupFiles: 'list' },
    chaiConfig: undefined,
    maxConcurrency: 1,
    testTimeout: TIMEOUT_MS,
    hookTimeout: TIMEOUT_MS,
    retry: 0,
    includeTaskLocation: undefined,
    tags: [],
    tagsFilter: undefined,
    strictTags: false,
  },
  importFile: path => import(pathToFileURL(path).href),
}

/** What failed in a task itself, tests and their hooks alike. */
const failures = (task: Task | File): string[] => (task.result?.errors ?? []).map(error => String(error.stack ?? error))

function assertions(task: Task, above: string): Assertion[] {
  const fullName = `${above} ${task.name}`.trim()
  if (task.type === 'test') {
    const state = task.result?.state
    const status = state === 'pass' ? 'passed' : state === 'fail' ? 'failed' : 'skipped'
    return [{ fullName, status, failureMessages: failures(task) }]
  }
  const broken = failures(task).map(message => ({ fullName, status: 'failed' as const, failureMessages: [message] }))
  return [...broken, ...task.tasks.flatMap(each => assertions(each, fullName))]
}

const [report] = process.argv.slice(2)
if (!report) throw new Error('usage: run.mjs REPORT')
const names = readdirSync(import.meta.dirname).filter(name => name.endsWith('.test.mjs'))
const testResults = []
for (const name of names.sort()) {
  const began = performance.now()
  const [file] = await startTests([join(import.meta.dirname, name)], runner)
  if (!file) throw new Error(`${name} was not run`)
  const results = file.tasks.flatMap(task => assertions(task, `Linux ${release()}:`))
  const failed = results.filter(({ status }) => status === 'failed')
  const own = failures(file)
  for (const { fullName, failureMessages } of failed) console.log(` × ${fullName}\n${failureMessages.join('\n')}`)
  for (const message of own) console.log(message)
  const verdict = failed.length + own.length > 0 ? '×' : '✓'
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(` ${verdict} ${basename(name, '.mjs')} (${results.length} tests) ${seconds} s`)
  testResults.push({
    name,
    status: verdict === '✓' ? 'passed' : 'failed',
    message: own.join('\n'),
    assertionResults: results,
  })
}
writeFileSync(report, JSON.stringify({ testResults }))
process.exit(testResults.some(({ status }) => status === 'failed') ? 1 : 0)
