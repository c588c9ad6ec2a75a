import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { killAgent, startAgent } from '../../tools/labkit/agent.js'
import { service } from '../netns/manifests.js'
import { CANNOT_RUN as NO_LAB, type RunningLoad } from '../netns/test-lab.js'
import { until } from '../unit/kube-source-kit.js'
import { KubeLab } from './kube-lab.js'
import { CANNOT_RUN as NO_API, ROOT } from './parts.js'

/** From objects in a real API server to bytes that arrive, with parts of the way taken out. */

const missing = [NO_LAB, NO_API].filter(Boolean).join('; ')
const title = 'traffic by the objects of a real API server'

const BACKENDS = ['pod-a2', 'pod-b1', 'pod-b2']
const web = (pods: readonly string[]) =>
  service({
    name: 'web',
    ip: 10,
    ports: [
      { name: 'tcp', port: 80, nodePort: 30080 },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30080 },
    ],
    pods,
  })

/** Four downloads of six seconds each; every byte is compared. */
const DOWNLOAD = { bytes: 6_000_000, rate: 1_000_000, concurrency: 4, count: 4, timeout: 60_000 }

describe.skipIf(missing)(missing ? `${title} (skipped: ${missing})` : title, () => {
  let lab: KubeLab
  beforeAll(async () => {
    lab = await KubeLab.withApiServer()
    await lab.replaceManifests(web(BACKENDS))
    await serves('pod-a1', BACKENDS)
    await serves('pod-b1', BACKENDS)
  }, 240_000)
  afterAll(() => lab?.down())

  /** Resolves when new connections of a pod reach exactly these backends, none failing. */
  async function serves(host: string, pods: readonly string[]): Promise<void> {
    await until(async () => {
      const { backends, errors } = await lab.load(host, '10.96.0.10:80', { count: 60 })
      expect({ backends: Object.keys(backends), errors }).toEqual({ backends: pods, errors: {} })
    }, 60_000)
  }

  function everyKindOfTraffic(): Record<string, RunningLoad> {
    const gentle = { concurrency: 2, interval: 5 }
    return {
      'TCP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', gentle),
      'TCP to a ClusterIP over IPv6': lab.startLoad('pod-a1', '[2001:db8:96::10]:80', gentle),
      'held TCP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', { ...gentle, mode: 'tcp-keep' }),
      'UDP to a ClusterIP': lab.startLoad('pod-a1', '10.96.0.10:80', { ...gentle, mode: 'udp' }),
      'TCP to a node port': lab.startLoad('client', '192.168.0.11:30080', gentle),
      'held UDP to a node port': lab.startLoad('client', '192.168.0.11:30080', { ...gentle, mode: 'udp-keep' }),
    }
  }

  async function expectNobodyNoticed(loads: Record<string, RunningLoad>): Promise<void> {
    for (const [name, load] of Object.entries(loads)) {
      const { ok, errors } = await load.stop()
      expect({ name, errors }).toEqual({ name, errors: {} })
      expect(ok, name).toBeGreaterThan(100)
    }
  }

  test('a pod reaches the API server by its Service, whose endpoint is real', async () => {
    await until(async () => {
      const { out } = await lab.exec('pod-a1', ['curl', '-sk', '--max-time', '5', 'https://10.96.0.1/livez'])
      expect(out).toBe('ok')
    }, 20_000)
  })

  test('changes arrive: backends that go and come, a Service that ends', { timeout: 60_000 }, async () => {
    await lab.replaceManifests(web(['pod-b1']))
    await serves('pod-a1', ['pod-b1'])
    await lab.replaceManifests(web(BACKENDS))
    await serves('pod-a1', BACKENDS)
    await lab.replaceManifests([
      ...web(BACKENDS),
      ...service({ name: 'brief', ip: 20, ports: [{ port: 80 }], pods: ['pod-b2'] }),
    ])
    await until(async () => {
      expect(await lab.load('pod-a1', '10.96.0.20:80', { count: 5 })).toMatchObject({ ok: 5 })
    }, 20_000)
    await lab.replaceManifests(web(BACKENDS))
    await until(async () => {
      expect(await lab.load('pod-a1', '10.96.0.20:80', { count: 5, timeout: 300 })).toMatchObject({ ok: 0 })
    }, 20_000)
  })

  test('the API server is away for a while: traffic goes on, and changes arrive again', {
    timeout: 120_000,
  }, async () => {
    const download = lab.load('pod-a1', '10.96.0.10:80', DOWNLOAD)
    const loads = everyKindOfTraffic()
    await sleep(500)
    await lab.apiServer('stop')
    await sleep(5000)
    await serves('pod-b1', BACKENDS)
    await lab.apiServer('start')
    await expectNobodyNoticed(loads)
    expect(await download).toMatchObject({ ok: 4, errors: {} })
    await lab.replaceManifests(web(['pod-a2', 'pod-b2']))
    await serves('pod-a1', ['pod-a2', 'pod-b2'])
    await lab.replaceManifests(web(BACKENDS))
    await serves('pod-a1', BACKENDS)
  })

  test('a link that swallows packets: noticed well within a minute, and changes arrive again', {
    timeout: 150_000,
  }, async () => {
    const rule = ['INPUT', '-i', 'eth0', '-j', 'DROP']
    const complaints = () => lab.log('node-a').filter(({ msg }) => msg === 'the API server cannot be read').length
    const before = complaints()
    const began = performance.now()
    expect(await lab.exec('api', ['iptables', '-I', ...rule])).toMatchObject({ code: 0 })
    try {
      await until(() => expect(complaints()).toBeGreaterThan(before), 90_000)
      // Ten seconds of silence and ten probes; the rest is for a loaded machine.
      expect(performance.now() - began).toBeLessThan(35_000)
    } finally {
      await lab.exec('api', ['iptables', '-D', ...rule])
    }
    await lab.replaceManifests(web(['pod-b1']))
    await serves('pod-a1', ['pod-b1'])
    await lab.replaceManifests(web(BACKENDS))
    await serves('pod-a1', BACKENDS)
  })

  test('the agent is killed and started again in the middle of transfers: not one byte is lost', {
    timeout: 120_000,
  }, async () => {
    const downloads = [
      lab.load('pod-a1', '10.96.0.10:80', DOWNLOAD),
      lab.load('client', '192.168.0.11:30080', DOWNLOAD),
      lab.load('client', '[2001:db8:192::11]:30080', DOWNLOAD),
    ]
    const loads = everyKindOfTraffic()
    await sleep(1000)
    await killAgent(lab.lab, 'node-a')
    await sleep(1500)
    await startAgent(lab.lab, 'node-a')
    expect(lab.applied('node-a').findLast(line => line.first === true)).toMatchObject({ writes: 0 })
    await sleep(500)
    await expectNobodyNoticed(loads)
    for (const download of downloads) expect(await download).toMatchObject({ ok: 4, errors: {} })
  })

  test('a node is booted while the API server is away: it serves what it knew; what left meanwhile leaves with the lists', {
    timeout: 180_000,
  }, async () => {
    const brief = service({ name: 'brief', ip: 20, ports: [{ port: 80 }], pods: ['pod-b2'] })
    await lab.replaceManifests([...web(BACKENDS), ...brief])
    const load = (address: string) => lab.load('pod-a1', address, { count: 5, timeout: 500 })
    await until(async () => expect(await load('10.96.0.20:80')).toMatchObject({ ok: 5 }), 20_000)
    const folder = path.join(lab.lab.names.agentRunDir('node-a'), 'checkpoint')
    const written = () => gunzipSync(readFileSync(path.join(folder, 'node-a.checkpoint.gz'))).toString()
    await until(() => expect(written()).toContain('"name":"brief"'), 90_000)

    await killAgent(lab.lab, 'node-a')
    await lab.replaceManifests(web(BACKENDS))
    await lab.apiServer('stop')
    const cleanup = ['cleanup', '--bpffs', lab.lab.names.bpffs('node-a')]
    const runDir = ['--run-dir', lab.lab.names.agentRunDir('node-a')]
    const { code, err } = await lab.exec('node-a', [path.join(ROOT, 'bin/waggle'), ...cleanup, ...runDir])
    expect({ code, err }).toMatchObject({ code: 0 })
    expect(await load('10.96.0.10:80')).toMatchObject({ ok: 0 })

    const started = startAgent(lab.lab, 'node-a')
    await until(async () => expect(await load('10.96.0.10:80')).toMatchObject({ ok: 5 }), 30_000)
    expect(await load('10.96.0.20:80')).toMatchObject({ ok: 5 })
    const fromOutside = await lab.load('client', '192.168.0.11:30080', { count: 5, timeout: 500 })
    expect(fromOutside).toMatchObject({ ok: 5 })
    const loads = everyKindOfTraffic()
    await sleep(2000)
    await lab.apiServer('start')
    await started
    await until(async () => expect(await load('10.96.0.20:80')).toMatchObject({ ok: 0 }), 60_000)
    await expectNobodyNoticed(loads)
  })

  test('agent and API server are both away: traffic goes on, and both come back', { timeout: 180_000 }, async () => {
    const loads = everyKindOfTraffic()
    await lab.apiServer('stop')
    await killAgent(lab.lab, 'node-a')
    await sleep(1000)
    // It finds no API server: nothing may be removed for that.
    const started = startAgent(lab.lab, 'node-a')
    await sleep(3000)
    await lab.apiServer('start')
    await started
    await expectNobodyNoticed(loads)
    await lab.replaceManifests(web(['pod-b1']))
    await serves('pod-a1', ['pod-b1'])
  })
})
