import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
let dir: string

beforeAll(() => {
  if (!existsSync(join(ROOT, 'build/waggle.mjs'))) throw new Error('build/waggle.mjs is missing: run `make build`')
  dir = mkdtempSync(join(tmpdir(), 'waggle-cli-'))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** Runs bin/waggle to its end, with none of the settings of this shell. */
function waggle(words: readonly string[], environment: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(join(ROOT, 'bin/waggle'), words, {
    env: { PATH: process.env.PATH ?? '', WAGGLE_NODE: process.execPath, ...environment },
    encoding: 'utf8',
    timeout: 30_000,
  })
  return { status, stdout, stderr }
}

test.each([
  [[]],
  [['run']],
  [['show']],
  [['show', 'services']],
  [['show', 'backends']],
  [['show', 'flows']],
  [['show', 'programs']],
  [['cleanup']],
  [['version']],
])('%j --help goes to standard output and ends with 0', words => {
  const { status, stdout, stderr } = waggle([...words, '--help'])
  expect([status, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(new RegExp(`^Usage: ${['waggle', ...words].join(' ')} `))
  const leaf = words.length > 0 && words.join() !== 'show' && words.join() !== 'version'
  if (leaf) expect(stdout).toContain('Examples:')
})

test('the exit statuses are listed in the help', () => {
  expect(waggle(['--help']).stdout).toMatch(
    /Exit status:\n {2}0 .*\n {2}1 .*\n {2}2 .*\n {2}3 .*\n {2}4 .*\n {2}69 .*\n {2}75 /,
  )
})

test.each([
  ['no command', []],
  ['an unknown command', ['frobnicate']],
  ['an unknown subject', ['show', 'everything']],
  ['an unknown flag of show', ['show', 'flows', '--frob']],
  ['a wrong output format', ['show', 'flows', '-o', 'xml']],
  ['a filter where there is nothing to filter', ['show', 'programs', '--service', 'web']],
  ['a dataplane that cleanup does not know', ['cleanup', '--dataplane', 'ipvs']],
])('%s is a usage error', (_, words) => {
  const { status, stdout, stderr } = waggle(words)
  expect([status, stdout]).toEqual([2, ''])
  expect(stderr).not.toBe('')
})

test('run tells all mistakes of flags, environment and file at once, and starts nothing', () => {
  const file = join(dir, 'waggle.yaml')
  writeFileSync(file, 'scheduler: best\n')
  const { status, stderr } = waggle(['run', '--config', file, '--max-flow', '1', '--max-flows', '-1'], {
    WAGGLE_LOG_FORMAT: 'xml',
    WAGGLE_FROB: '1',
  })
  expect(status).toBe(2)
  expect(stderr).toContain('CONFIG: 5 mistakes in the configuration')
  expect(stderr).toContain(`${file}:1 scheduler: "best" must be one of random, rr, source-hash, maglev, least-conn`)
  expect(stderr).toContain('--max-flow: unknown flag; did you mean --max-flows?')
  expect(stderr).toContain('--max-flows: "-1" must be a whole number')
  expect(stderr).toContain('WAGGLE_LOG_FORMAT: "xml" must be one of text, json')
  expect(stderr).toContain('WAGGLE_FROB: unknown environment variable')
})

test('a configuration file that is not there is a usage error', () => {
  const { status, stderr } = waggle(['run', '--config', join(dir, 'absent.yaml')])
  expect(status).toBe(2)
  expect(stderr).toContain('cannot be read: ENOENT')
})

test('a dataplane that is not available yet is refused, in the chosen log format', () => {
  const { status, stderr } = waggle(['run', '--dataplane', 'ipvs', '--log-format', 'json', '--cgroup', '/'])
  expect(status).toBe(1)
  const last = JSON.parse(stderr.trim().split('\n').at(-1) ?? '')
  expect(last).toMatchObject({ level: 'error', error: { code: 'NOT_AVAILABLE' } })
  expect(last.error.message).toContain('ipvs: it is not available yet; use --dataplane ebpf')
})

test('show names the place and the remedy when nothing is pinned', () => {
  const { status, stdout, stderr } = waggle(['show', 'services', '--bpffs', dir])
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toContain(`nothing of waggle is in ${dir}/waggle`)
  expect(stderr).toContain('waggle run')
  expect(stderr).toContain('--bpffs or --pin-dir')
})

test('cleanup where nothing is has nothing to do', () => {
  const { status, stdout } = waggle(['cleanup', '--bpffs', dir, '--run-dir', join(dir, 'run')])
  expect([status, stdout]).toEqual([0, `nothing of waggle in ${dir}/waggle\n`])
})

test('a missing addon has its own exit status and remedy', () => {
  const { status, stderr } = waggle(['show', 'services'], { WAGGLE_NATIVE: join(dir, 'absent.node') })
  expect(status).toBe(69)
  expect(stderr).toContain('absent.node')
})

test('version, for people and for machines', () => {
  expect(waggle(['version']).stdout).toMatch(/^waggle \d+\.\d+\.\d+ \(Node\.js \d+\.\d+\.\d+\)\n$/)
  expect(JSON.parse(waggle(['version', '-o', 'json']).stdout)).toHaveProperty('version')
})

test('a reader that goes away is no failure', () => {
  const { status, stderr } = spawnSync(
    'bash',
    ['-c', `'${join(ROOT, 'bin/waggle')}' run --help | true; exit \${PIPESTATUS[0]}`],
    {
      encoding: 'utf8',
    },
  )
  expect([status, stderr]).toEqual([0, ''])
})
