import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { inRoot } from '../../tools/labkit/root.js'
import { bpfHeldBy, difference, machineState, settledDifference } from './machine-state.js'
import { CANNOT_RUN, labName, titled } from './test-lab.js'

/** The lab as people use it: through its command line. */

const NAME = labName()
const OTHER = labName('x')

function lab(args: string[], options: { name?: string; input?: string } = {}) {
  const { status, stdout, stderr } = spawnSync(inRoot('tools/lab'), ['--name', options.name ?? NAME, ...args], {
    encoding: 'utf8',
    input: options.input ?? '',
    timeout: 60_000,
  })
  return { status, out: stdout, err: stderr }
}

function agentPids(): number[] {
  const { hosts } = JSON.parse(lab(['status', '-o', 'json']).out) as { hosts: { role: string; pid: number }[] }
  return hosts.filter(host => host.role === 'node').map(host => host.pid)
}

describe.skipIf(CANNOT_RUN)(titled('the lab'), () => {
  let empty: string
  beforeAll(() => {
    empty = mkdtempSync(path.join(tmpdir(), 'waggle-lab-'))
  })
  beforeEach(({ task }) => {
    // A test that failed half-way must not fail the next one; those side by side share their labs.
    if (task.suite?.name !== 'side by side') lab(['down'])
  })
  afterAll(() => {
    lab(['down'])
    lab(['down'], { name: OTHER })
    rmSync(empty, { recursive: true })
  })

  test('up, traffic and down leave the machine as it was', async () => {
    const before = machineState()
    const up = lab(['up', '--nodes', '2'])
    expect(up).toMatchObject({ status: 0 })
    expect(lab(['exec', 'pod-a1', '--', 'curl', '-sS', '--max-time', '5', 'http://10.96.0.10/']).out).toContain(
      '"name":"pod-',
    )
    expect(lab(['load', 'client', '192.168.0.11:30080', '--count', '100']).status).toBe(0)
    const bpf = agentPids().flatMap(bpfHeldBy)
    const mine = { labs: [NAME], bpf }
    // The comparison sees what is there.
    const kinds = new Set(difference(before, machineState(), mine).map(entry => entry.split(':')[0]))
    const made = ['namespaces', 'cgroups', 'mounts', 'files', 'programs', 'maps']
    expect([...kinds]).toEqual(expect.arrayContaining(made))

    expect(lab(['down']).status).toBe(0)
    expect(await settledDifference(before, mine)).toEqual([])
  })

  test('down is complete after a kill -9 at any moment of up', { timeout: 120_000 }, async () => {
    const before = machineState()
    for (const ms of [60, 150, 250, 350, 450, 600, 900, 1300]) {
      const up = spawn(inRoot('tools/lab'), ['--name', NAME, 'up'], { stdio: 'ignore' })
      await sleep(ms)
      up.kill('SIGKILL')
      await (up.exitCode ?? up.signalCode ?? once(up, 'exit'))
      expect(lab(['down'])).toMatchObject({ status: 0, err: '' })
      expect(await settledDifference(before, { labs: [NAME] })).toEqual([])
    }
  })

  test('an up that is interrupted takes itself down', async () => {
    const before = machineState()
    const up = spawn(inRoot('tools/lab'), ['--name', NAME, 'up'], { stdio: ['ignore', 'ignore', 'pipe'] })
    await once(up.stderr, 'data') // It says what it begins with.
    up.kill('SIGINT')
    const [code] = await once(up, 'exit')
    expect(code).toBe(1)
    expect(await settledDifference(before, { labs: [NAME] })).toEqual([])
  })

  test('an up that fails takes itself down', async () => {
    const before = machineState()
    expect(lab(['up', '--agent-flag=--no-such-flag'])).toMatchObject({
      status: 1,
      err: expect.stringContaining('no-such-flag'),
    })
    expect(await settledDifference(before, { labs: [NAME] })).toEqual([])
  })

  test('down is repeatable and needs no lab', () => {
    expect(lab(['down'])).toMatchObject({ status: 0, err: '' })
    expect(lab(['down'])).toMatchObject({ status: 0, err: '' })
  })

  describe('side by side', () => {
    beforeAll(() => {
      for (const name of [NAME, OTHER])
        expect(lab(['up', '--nodes', '1', '--no-agents', '--source', `dir:${empty}`], { name }).status).toBe(0)
    })
    afterAll(() => {
      for (const name of [NAME, OTHER]) lab(['down'], { name })
    })

    test('two labs with the same addresses do not meet', () => {
      for (const name of [NAME, OTHER]) {
        const { out } = lab(['load', 'client', '10.244.1.11:8080', '--count', '20'], { name })
        expect(JSON.parse(out)).toMatchObject({ ok: 20, backends: { 'pod-a1': 20 } })
        // The echo service counts its connections: another lab's would show.
        const line = lab(['exec', 'client', '--', 'curl', '-sS', 'http://10.244.1.11:8080/'], { name }).out
        expect(JSON.parse(line)).toMatchObject({ connection: 21, peer: '203.0.113.10' })
      }
    })

    test('a name is taken once', () => {
      expect(lab(['up'])).toMatchObject({ status: 1, err: expect.stringContaining(`tools/lab down --name ${NAME}`) })
      expect(lab(['status']).status).toBe(1) // The lab that was there is still there; its agent was never started.
    })

    test('exec gives input, output and exit status, in the cgroup and the namespace of the host', () => {
      expect(lab(['exec', 'pod-a1', '--', 'cat'], { input: 'through' })).toMatchObject({ status: 0, out: 'through' })
      expect(lab(['exec', 'pod-a1', '--', 'sh', '-c', 'echo wrong >&2; exit 7'])).toMatchObject({
        status: 7,
        err: 'wrong\n',
      })
      expect(lab(['exec', 'pod-a1', '--', 'sh', '-c', 'kill -TERM $$']).status).toBe(128 + 15)
      expect(lab(['exec', 'pod-a1', '--', 'no-such-command']).status).toBe(127)
      expect(lab(['exec', 'node-a', '--', 'cat', '/proc/self/cgroup']).out).toContain(`waggle-${NAME}/node-a/host`)
      expect(lab(['exec', 'pod-a1', '--', 'cat', '/proc/self/cgroup']).out).toContain(
        `waggle-${NAME}/node-a/pods/pod-a1`,
      )
      expect(lab(['exec', 'pod-a1', '--', 'ip', '-br', 'address']).out).toContain('10.244.1.11/32')
    })

    test('status is a table for people and JSON for programs', () => {
      const { status, out } = lab(['status', '-o', 'json'])
      expect(status).toBe(1)
      expect(JSON.parse(out)).toMatchObject({
        name: NAME,
        hosts: [
          { name: 'router' },
          { name: 'client', ipv4: '203.0.113.10', ipv6: '2001:db8:203::10', daemon: 'none' },
          { name: 'node-a', daemon: 'stopped', pid: 0 },
          { name: 'pod-a1', node: 'node-a', daemon: 'running', pid: expect.any(Number) },
          { name: 'pod-a2' },
        ],
      })
      expect(lab(['status']).out).toMatch(/pod-a1 +10\.244\.1\.11 +2001:db8:244:1::11 +echo running +\d+/)
    })

    test('a mistake is status 2 with a hint, a missing thing status 1', () => {
      expect(lab(['up', '--nodes', 'many']).status).toBe(2)
      expect(lab(['no-such-command']).status).toBe(2)
      expect(lab(['status'], { name: 'a-b' })).toMatchObject({ status: 2, err: expect.stringContaining('a-b') })
      expect(lab(['exec', 'pod-z9', '--', 'true'])).toMatchObject({ status: 1, err: expect.stringContaining('pod-a1') })
      expect(lab(['load', 'client', 'localhost:80'])).toMatchObject({
        status: 2,
        err: expect.stringContaining('ADDRESS:PORT'),
      })
      expect(lab(['apply', '/no/such/dir'])).toMatchObject({ status: 1, err: expect.stringContaining('/no/such/dir') })
    })

    test('down of one leaves the other alone', () => {
      expect(lab(['down'], { name: OTHER }).status).toBe(0)
      expect(existsSync(`/run/netns/waggle-${OTHER}-client`)).toBe(false)
      expect(lab(['load', 'client', '10.244.1.12:8080', '--count', '5']).status).toBe(0)
    })
  })

  test('downloads and uploads are whole', () => {
    expect(lab(['up', '--nodes', '1', '--no-agents', '--source', `dir:${empty}`]).status).toBe(0)
    const { out } = lab(['load', 'client', '10.244.1.11:8080', '--bytes', '3000000', '--count', '3'])
    expect(JSON.parse(out)).toMatchObject({ ok: 3, errors: {} })
    const send = 'head -c 1000000 /dev/zero | curl -sS --data-binary @- http://10.244.1.11:8080/upload'
    expect(JSON.parse(lab(['exec', 'client', '--', 'sh', '-c', send]).out)).toMatchObject({
      bytes: 1_000_000,
      sha256: 'd29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025',
    })
    lab(['down'])
  })
})
