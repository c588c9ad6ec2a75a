import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { killAgent, startAgent, stopAgent } from '../../tools/labkit/agent.js'
import { service } from './manifests.js'
import { CANNOT_RUN, type RunningLoad, TestLab, titled } from './test-lab.js'

/** The agent dies and comes back under traffic: nobody may notice. */

const BACKENDS = ['pod-a2', 'pod-b1', 'pod-b2']
const objects = (pods: readonly string[]) =>
  service({
    name: 'web',
    ip: 10,
    ports: [
      { name: 'tcp', port: 80, nodePort: 30080 },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30080 },
    ],
    pods,
  })

/** Bytes and rate of a download that outlives a restart. */
const DOWNLOAD = { bytes: 6_000_000, rate: 1_000_000, concurrency: 4, count: 4, timeout: 60_000 }

/** Later starts ask for nothing: open connections keep the table that is there. */
const FLOW_TABLES = ['hash', 'flat']

describe.skipIf(CANNOT_RUN).each(FLOW_TABLES)(titled('an agent that dies, --flow-table %s'), flowTable => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: objects(BACKENDS), agentFlags: ['--flow-table', flowTable] })
  })
  afterAll(() => lab?.down())

  /** Resolves when all of it flows. */
  async function everyKindOfTraffic(): Promise<Record<string, RunningLoad>> {
    const gentle = { concurrency: 2, interval: 2 }
    const loads = {
      'TCP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', gentle),
      'TCP to a ClusterIP over IPv6': lab.startLoad('node-a', '[2001:db8:96::10]:80', gentle),
      'held TCP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', { ...gentle, mode: 'tcp-keep' }),
      'UDP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', { ...gentle, mode: 'udp' }),
      'held UDP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', { ...gentle, mode: 'udp-keep' }),
      'unconnected UDP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', { ...gentle, mode: 'udp-sendto' }),
      'TCP to a node port': lab.startLoad('client', '192.168.0.11:30080', gentle),
      'TCP to a node port over IPv6': lab.startLoad('client', '[2001:db8:192::11]:30080', gentle),
      'held TCP to a node port': lab.startLoad('client', '192.168.0.11:30080', { ...gentle, mode: 'tcp-keep' }),
      'UDP to a node port': lab.startLoad('client', '192.168.0.11:30080', { ...gentle, mode: 'udp' }),
      'held UDP to a node port': lab.startLoad('client', '192.168.0.11:30080', { ...gentle, mode: 'udp-keep' }),
    }
    await Promise.all(Object.values(loads).map(load => load.answered))
    return loads
  }

  async function expectNobodyNoticed(loads: Record<string, RunningLoad>): Promise<void> {
    for (const [name, load] of Object.entries(loads)) {
      const { ok, errors } = await load.stop()
      expect({ name, errors }).toEqual({ name, errors: {} })
      expect(ok, name).toBeGreaterThan(100)
    }
  }

  /** What the newest start of node-a wrote to the kernel, in all its applies so far. */
  function writesSinceStart(): number {
    const log = lab.log('node-a')
    const lines = log.slice(log.findLastIndex(line => line.msg === 'starting'))
    expect(lines.some(line => line.msg === 'applied' && line.first === true)).toBe(true)
    return lines.reduce((sum, line) => sum + (line.msg === 'applied' ? Number(line.writes) : 0), 0)
  }

  test('kill -9 and start: no connect fails, no byte is lost, nothing is written', { timeout: 120_000 }, async () => {
    const downloads = [
      lab.load('pod-a1', '10.96.0.10:80', DOWNLOAD),
      lab.load('client', '192.168.0.11:30080', DOWNLOAD),
      lab.load('client', '[2001:db8:192::11]:30080', DOWNLOAD),
    ]
    const loads = await everyKindOfTraffic()
    await sleep(500)
    await killAgent(lab.lab, 'node-a')
    await sleep(1500)
    await startAgent(lab.lab, 'node-a')
    expect(writesSinceStart()).toBe(0)
    await sleep(1000)
    await expectNobodyNoticed(loads)
    for (const download of downloads) expect(await download).toMatchObject({ ok: 4, errors: {} })
  })

  test('ten times in a row, at a random moment of its start', { timeout: 180_000 }, async () => {
    const loads = await everyKindOfTraffic()
    for (let round = 0; round < 10; round++) {
      await killAgent(lab.lab, 'node-a')
      const started = startAgent(lab.lab, 'node-a').catch(() => {
        // Killed before it was healthy: that is the point.
      })
      await sleep(50 + Math.random() * 500)
      if (round < 9) await killAgent(lab.lab, 'node-a')
      await started
    }
    await expectNobodyNoticed(loads)
    expect(writesSinceStart()).toBe(0)
  })

  test('each start used the same table', () => {
    const adopted = lab.log('node-a').filter(line => line.msg === 'adopted')
    expect(adopted.length).toBeGreaterThan(2)
    expect(new Set(adopted.map(line => line.flowTable))).toEqual(new Set([flowTable]))
  })

  test('a polite restart is no different', { timeout: 60_000 }, async () => {
    const loads = await everyKindOfTraffic()
    await sleep(500)
    await stopAgent(lab.lab, 'node-a')
    await sleep(1500)
    await startAgent(lab.lab, 'node-a')
    await sleep(1000)
    await expectNobodyNoticed(loads)
    expect(writesSinceStart()).toBe(0)
  })

  test('what changed while it was away is applied by its start', { timeout: 60_000 }, async () => {
    await killAgent(lab.lab, 'node-a')
    const stopped = lab.load('pod-a1', '10.96.0.10:80', { count: 300 })
    expect(Object.keys((await stopped).backends)).toEqual(BACKENDS)
    await stopAgent(lab.lab, 'node-b')
    await lab.replaceManifests(objects(['pod-a2', 'pod-b1']))
    await startAgent(lab.lab, 'node-a')
    expect(writesSinceStart()).toBeGreaterThan(0)
    const { backends, errors } = await lab.load('pod-a1', '10.96.0.10:80', { count: 300 })
    expect({ errors, backends: Object.keys(backends) }).toEqual({ errors: {}, backends: ['pod-a2', 'pod-b1'] })
    await startAgent(lab.lab, 'node-b')
  })
})
