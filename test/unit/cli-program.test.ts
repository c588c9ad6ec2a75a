import { beforeEach, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { VERSION } from '../../src/base/version.js'
import { printTable } from '../../src/cli/print.js'
import { type Actions, buildProgram } from '../../src/cli/program.js'

let calls: unknown[]
const actions: Actions = {
  run: async given => void calls.push(['run', Object.fromEntries(given.flags), given.unknown, given.config]),
  show: async (subject, given, flags) =>
    void calls.push([
      'show',
      subject.name,
      Object.fromEntries(given.flags),
      flags.output,
      flags.namespace,
      flags.service,
    ]),
  render: async (given, flags) => void calls.push(['render', Object.fromEntries(given.flags), flags]),
  diff: async (given, { output }) => void calls.push(['diff', Object.fromEntries(given.flags), output]),
  cleanup: async (given, { dataplane, dryRun = false }) =>
    void calls.push(['cleanup', Object.fromEntries(given.flags), dataplane, dryRun]),
  version: async output => void calls.push(['version', output]),
}
const parse = (...words: string[]) => buildProgram(actions).parseAsync(words, { from: 'user' })

beforeEach(() => {
  calls = []
})

test('run collects every use of a flag as text, and leaves checking to the configuration', async () => {
  await parse('run', '--devices', 'eth0', '--devices=eth1', '--max-flows', 'many', '--config', '/c')
  expect(calls).toEqual([['run', { devices: ['eth0', 'eth1'], 'max-flows': ['many'] }, [], '/c']])
})

test('run collects unknown flags, not the values that follow them', async () => {
  await parse('run', '--foo', 'value', '--bar=1', 'stray', '--scheduler', 'rr')
  expect(calls).toEqual([['run', { scheduler: ['rr'] }, ['--foo', '--bar=1', 'stray'], undefined]])
})

test('show takes its filters and the places', async () => {
  await parse('show', 'services', '-n', 'default', '-s', 'web', '-o', 'json', '--pin-dir', '/p')
  expect(calls).toEqual([['show', 'services', { 'pin-dir': ['/p'] }, 'json', 'default', 'web']])
})

test('cleanup and version', async () => {
  await parse('cleanup', '--dry-run')
  await parse('cleanup', '--bpffs', '/b', '--run-dir', '/r')
  await parse('cleanup', '--dataplane', 'iptables')
  await parse('version')
  expect(calls).toEqual([
    ['cleanup', {}, 'ebpf', true],
    ['cleanup', { bpffs: ['/b'], 'run-dir': ['/r'] }, 'ebpf', false],
    ['cleanup', {}, 'iptables', false],
    ['version', 'text'],
  ])
})

test('render takes what rules depend on', async () => {
  await parse('render', '--dataplane', 'iptables', '--source', 'dir:/m', '--node-name', 'node-b', '--family', 'both')
  expect(calls).toEqual([
    [
      'render',
      { dataplane: ['iptables'], source: ['dir:/m'], 'node-name': ['node-b'] },
      expect.objectContaining({ family: 'both', output: 'text' }),
    ],
  ])
})

test('the version is that of the package', () => {
  expect(VERSION).toBe(packageJson.version)
})

test('tables have kubectl columns, and control characters cannot reach the terminal', () => {
  expect(
    printTable({
      head: ['A', 'LONG'],
      rows: [
        ['x\u001b[2J', '-'],
        ['1', '22'],
      ],
    }),
  ).toBe('A            LONG\nx\\u001b[2J   -\n1            22\n')
  expect(printTable({ head: ['A', 'B'], rows: [] })).toBe('A   B\n')
})
