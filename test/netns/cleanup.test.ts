import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfLink, BpfMap, BpfObject, Native } from '../../src/ebpf/native.js'
import { killAgent, startAgent, stopAgent } from '../../tools/labkit/agent.js'
import { inRoot } from '../../tools/labkit/root.js'
import { readProcess } from '../../tools/labkit/state.js'
import { bpfHeldBy, difference, machineState, settledDifference } from './machine-state.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** Clean-up removes all that is ours and nothing else; programs of others run before, beside and after ours. */

/** enum bpf_attach_type: BPF_CGROUP_INET4_CONNECT */
const CONNECT4 = 10
/** Files that a kernel with CONFIG_BPF_PRELOAD puts into every BPF file system. */
const PRELOADED = ['maps.debug', 'progs.debug']
/** Where the foreign clsact filter hangs. */
const PRIORITY = 77
const HANDLE = 77
const OBJECTS = service({
  name: 'web',
  ip: 10,
  ports: [
    { name: 'tcp', port: 80, nodePort: 30080 },
    { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30080 },
  ],
  pods: ['pod-a1', 'pod-b1'],
})

/** Programs of somebody else: one on the cgroup of node-a, one on its uplink, by tcx or clsact. */
class Foreign {
  readonly #native: Native
  readonly #namespace: string
  readonly #object: BpfObject
  readonly #links: BpfLink[] = []
  readonly #runs: BpfMap
  #filterOn = 0

  constructor(native: Native, file: string, lab: TestLab, by: 'tcx' | 'clsact') {
    this.#native = native
    this.#namespace = lab.lab.names.namespacePath('node-a')
    this.#object = native.openObject(file)
    this.#object.load()
    this.#runs = this.#object.map('foreign_runs')
    this.#links.push(
      native.attachCgroup(this.#object.program('foreign_connect'), lab.lab.nodeCgroup('node-a'), CONNECT4),
    )
    native.inNetns(this.#namespace, () => {
      const eth0 = native.ifNameToIndex('eth0')
      const program = this.#object.program('foreign_tc')
      if (by === 'tcx') this.#links.push(native.attachTcx(program, eth0, 'ingress', 'after'))
      else native.attachClsact(program, eth0, 'ingress', PRIORITY, HANDLE)
      if (by === 'clsact') this.#filterOn = eth0
    })
  }

  /** Calls of its programs so far. */
  get runs(): number {
    return Number(Buffer.from(this.#runs.lookup(new Uint8Array(4)) as Uint8Array).readBigUInt64LE())
  }

  remove(): void {
    this.#native.inNetns(this.#namespace, () => {
      if (this.#filterOn) this.#native.detachClsact(this.#filterOn, 'ingress', PRIORITY, HANDLE, 'foreign_tc')
    })
    for (const link of this.#links) link.close()
    this.#object.close()
  }
}

describe.skipIf(CANNOT_RUN)(titled('clean-up and programs of others'), () => {
  let dir: string
  let native: Native
  let lab: TestLab
  beforeAll(async () => {
    dir = mkdtempSync(path.join(tmpdir(), 'waggle-foreign-'))
    const multiarch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
    const flags = ['-O2', '-g', '-Wall', '-Werror', '-target', 'bpf', `-I/usr/include/${multiarch}`]
    execFileSync('clang', [...flags, '-c', inRoot('test/netns/foreign.bpf.c'), '-o', path.join(dir, 'foreign.bpf.o')])
    native = loadNative()
    lab = await TestLab.up({ objects: OBJECTS, agents: false })
  })
  afterAll(async () => {
    await lab?.down()
    rmSync(dir, { recursive: true, force: true })
  })

  const traffic = async () => {
    const fromPod = await lab.load('pod-a2', '10.96.0.10:80', { count: 100 })
    const fromOutside = await lab.load('client', '192.168.0.11:30080', { count: 100 })
    return { failed: fromPod.failed + fromOutside.failed, ok: fromPod.ok + fromOutside.ok }
  }
  const cleanup = (...flags: string[]) =>
    lab.exec('node-a', [inRoot('bin/waggle'), 'cleanup', '--bpffs', lab.lab.names.bpffs('node-a'), ...flags])

  test('cleanup after the agent was killed leaves nothing of ours', async () => {
    const before = machineState()
    await startAgent(lab.lab, 'node-a')
    await startAgent(lab.lab, 'node-b')
    expect(await traffic()).toEqual({ failed: 0, ok: 200 })
    const agents = ['node-a', 'node-b'].map(node => readProcess(lab.lab.names, node)?.pid as number)
    const mine = { labs: [], bpf: agents.flatMap(bpfHeldBy) }
    await killAgent(lab.lab, 'node-a')
    await killAgent(lab.lab, 'node-b')
    // All of it outlives the agents.
    const kinds = new Set(difference(before, machineState(), mine).map(entry => entry.split(':')[0]))
    expect([...kinds]).toEqual(expect.arrayContaining(['programs', 'maps']))

    for (const node of ['node-a', 'node-b']) {
      const command = [inRoot('bin/waggle'), 'cleanup', '--bpffs', lab.lab.names.bpffs(node)]
      expect(await lab.exec(node, command)).toMatchObject({ code: 0 })
      expect(readdirSync(lab.lab.names.bpffs(node)).filter(name => !PRELOADED.includes(name))).toEqual([])
    }
    expect(await settledDifference(before, mine)).toEqual([])
    // And the addresses are nobody's again.
    expect(await lab.load('pod-a2', '10.96.0.10:80', { count: 2, timeout: 500 })).toMatchObject({ ok: 0 })
    expect(await cleanup()).toMatchObject({ code: 0 })
  })

  test.each(['tcx', 'clsact'] as const)(
    'programs of others, uplink by %s, run before, beside and after ours',
    async by => {
      const earlier = new Foreign(native, path.join(dir, 'foreign.bpf.o'), lab, by)
      await startAgent(lab.lab, 'node-a')
      await startAgent(lab.lab, 'node-b')
      const later = new Foreign(native, path.join(dir, 'foreign.bpf.o'), lab, 'tcx')
      const expectRunning = async (what: string) => {
        const before = [earlier.runs, later.runs]
        await lab.load('pod-a2', '10.244.2.11:8080', { count: 50 })
        const gained = [earlier.runs - (before[0] as number), later.runs - (before[1] as number)]
        // 50 connects, and at least one packet in for each of them.
        expect(
          gained.every(runs => runs >= 100),
          `${what}: ${gained}`,
        ).toBe(true)
      }
      try {
        expect(await traffic()).toEqual({ failed: 0, ok: 200 })
        await expectRunning('beside ours')
        await stopAgent(lab.lab, 'node-a')
        await startAgent(lab.lab, 'node-a')
        await expectRunning('after a restart')
        await killAgent(lab.lab, 'node-a')
        await killAgent(lab.lab, 'node-b')
        expect(await cleanup()).toMatchObject({ code: 0 })
        await expectRunning('after clean-up')
      } finally {
        earlier.remove()
        later.remove()
      }
    },
  )

  test('cleanup refuses while an agent runs', async () => {
    await startAgent(lab.lab, 'node-a')
    const { code, err } = await cleanup('--run-dir', lab.lab.names.agentRunDir('node-a'))
    expect(code).not.toBe(0)
    expect(err).not.toBe('')
    expect(existsSync(path.join(lab.lab.names.bpffs('node-a'), 'waggle'))).toBe(true)
  })
})
