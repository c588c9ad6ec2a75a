import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Results } from '../bench/result.js'

/** The benchmarks work: every figure is made, nothing is left behind. How large the figures are is not asked. */
const ROOT = join(import.meta.dirname, '../..')
const ROOT_ONLY = process.getuid?.() === 0 ? undefined : 'root (BPF programs, network namespaces)'

function leftovers(pid: number): string[] {
  const names = [...readdirSync('/run/netns'), ...readdirSync('/tmp'), ...readdirSync('/sys/fs/cgroup')]
  return names.filter(name => name.startsWith(`waggle-bench-${pid}-`))
}

describe.skipIf(ROOT_ONLY !== undefined)(`tools/bench${ROOT_ONLY ? ` (needs ${ROOT_ONLY})` : ''}`, () => {
  test('datapath --tiny measures everything that the goals ask for', { timeout: 900_000 }, async () => {
    const child = spawn(join(ROOT, 'tools/bench'), ['datapath', '--tiny', '-o', 'json'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    let err = ''
    child.stdout.on('data', data => (out += data))
    child.stderr.on('data', data => (err += data))
    const [code] = await once(child, 'close')
    expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' })
    const { rows, skips } = JSON.parse(out) as Results
    const has = (what: string) => rows.some(row => row.what === what)
    for (const way of ['direct', 'socket', 'packets, backend elsewhere', 'packets, backend here']) {
      expect(has(`TCP connect and close: ${way}`), way).toBe(true)
      expect(has(`TCP connections a second: ${way}`), way).toBe(true)
    }
    for (const way of ['routed', 'socket', 'packets, backend elsewhere', 'packets, backend here']) {
      expect(has(`UDP datagram, one way: ${way}`), way).toBe(true)
    }
    for (const what of [
      'known flow, backend here',
      'known flow, reply from elsewhere',
      'new flow: UDP, backend here',
    ]) {
      expect(has(what), what).toBe(true)
    }
    for (const way of ['XDP, sends only', 'waggle, native XDP', 'waggle, generic XDP', 'waggle, tc', 'routed']) {
      expect(has(way), way).toBe(true)
    }
    // Where there is no such machine the run says why.
    const isCounted = has('TCP connect and close: to a Service, more than direct')
    expect(skips.some(({ bench }) => bench === 'count')).toBe(!isCounted)
    expect(rows.every(row => Number.isFinite(row.value.median))).toBe(true)
    expect(has('a flow')).toBe(true)
    expect(leftovers(child.pid as number)).toEqual([])
  })

  test('an interrupted run removes what it made', { timeout: 120_000 }, async () => {
    const child = spawn(join(ROOT, 'tools/bench'), ['forward', '--tiny'], { stdio: ['ignore', 'ignore', 'pipe'] })
    const pid = child.pid as number
    const made = () => existsSync('/run/netns') && leftovers(pid).some(name => name.endsWith('-server'))
    for (let tries = 0; !made() && tries < 600; tries++) await new Promise(resolve => setTimeout(resolve, 50))
    expect(made()).toBe(true)
    child.kill('SIGINT')
    await once(child, 'close')
    expect(leftovers(pid)).toEqual([])
  })

  test('wrong usage is told', () => {
    for (const args of [['nothing'], ['connect', '--services', '0'], ['--rounds', 'x'], ['report', 'a', 'b']]) {
      let status: number | null = 0
      try {
        execFileSync(join(ROOT, 'tools/bench'), args, { stdio: 'pipe' })
      } catch (error) {
        status = (error as { status: number | null }).status
      }
      expect(status, args.join(' ')).toBe(2)
    }
  })
})

test('the kept results are those of a whole run', () => {
  const { machine } = JSON.parse(readFileSync(join(ROOT, 'docs/performance.json'), 'utf8'))
  expect(machine.command).toMatch(/^tools\/bench datapath/)
  expect(machine.effort).not.toBe('tiny')
})
