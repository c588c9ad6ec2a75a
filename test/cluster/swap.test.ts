import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { killAgent } from '../../tools/labkit/agent.js'
import { type ProcessId, signal, waitGone } from '../../tools/labkit/machine.js'
import { service } from '../netns/manifests.js'
import { CANNOT_RUN as NO_LAB } from '../netns/test-lab.js'
import { until } from '../unit/kube-source-kit.js'
import { KubeLab } from './kube-lab.js'
import { findParts, CANNOT_RUN as NO_API, ROOT } from './parts.js'

/** A node changes from the real kube-proxy to waggle and back, by one configuration file that both read. */

const missing = [NO_LAB, NO_API].filter(Boolean).join('; ')
const title = 'kube-proxy and waggle on one node, one after the other'

const BACKENDS = ['pod-a2', 'pod-b1']
const CLUSTER = '10.96.0.10:80'
const NODE_PORT = '192.168.0.11:30080'
const WAGGLE = path.join(ROOT, 'bin/waggle')

describe.skipIf(missing)(missing ? `${title} (skipped: ${missing})` : title, () => {
  let lab: KubeLab
  let folder: string
  let config: string
  let kubeProxy: string
  let running: ProcessId

  beforeAll(async () => {
    const parts = findParts()
    if ('missing' in parts) throw new Error(parts.missing)
    kubeProxy = parts.kubeProxy
    folder = mkdtempSync(path.join(tmpdir(), 'waggle-swap-'))
    config = path.join(folder, 'config.conf')
    lab = await KubeLab.withApiServer()
    const { names } = lab.lab
    const ours = {
      ...{ devices: ['eth0'], cgroup: lab.lab.nodeCgroup('node-a'), bpffs: names.bpffs('node-a') },
      ...{ runDir: names.agentRunDir('node-a'), logFormat: 'json' },
    }
    const theirs = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: 'iptables',
      hostnameOverride: 'node-a',
      clientConnection: { kubeconfig: path.join(names.apiDir, 'admin.kubeconfig') },
      clusterCIDR: '10.244.0.0/16,2001:db8:244::/48',
      // These limits are the machine's, not the namespace's.
      conntrack: { maxPerCore: 0, min: 0 },
      iptables: { syncPeriod: '10s' },
    }
    // Not JSON: kube-proxy would not stop after the first document.
    writeFileSync(config, `${stringify(theirs)}---\n${stringify(ours)}`)
    await lab.replaceManifests(
      service({ name: 'web', ip: 10, ports: [{ name: 'tcp', port: 80, nodePort: 30080 }], pods: BACKENDS }),
    )
    await killAgent(lab.lab, 'node-a')
    expect(await lab.exec('node-a', ['env', `WAGGLE_CONFIG=${config}`, WAGGLE, 'cleanup'])).toMatchObject({ code: 0 })
  }, 240_000)

  afterAll(async () => {
    await lab?.down()
    rmSync(folder, { recursive: true, force: true })
  })

  async function serves(host: string, target: string): Promise<void> {
    await until(async () => {
      const { backends, errors } = await lab.load(host, target, { count: 40, timeout: 1000 })
      expect({ backends: Object.keys(backends).sort(), errors }).toEqual({ backends: BACKENDS, errors: {} })
    }, 60_000)
  }

  async function start(command: readonly string[]): Promise<void> {
    running = lab.lab.startDaemon(lab.lab.node('node-a'), command)
  }

  async function end(): Promise<void> {
    signal(running, 'SIGTERM')
    expect(await waitGone(running, 10_000)).toBe(true)
  }

  const startWaggle = () => start([WAGGLE, 'run', '--config', config])
  const startKubeProxy = () => start([kubeProxy, `--config=${config}`])
  const answer = async (url: string) => (await lab.exec('node-a', ['curl', '-s', '-m', '2', url])).out
  const proxyMode = () => answer('http://127.0.0.1:10249/proxyMode')

  test('kube-proxy reads the file and serves', async () => {
    await startKubeProxy()
    await serves('pod-a1', CLUSTER)
    await serves('client', NODE_PORT)
    expect(await proxyMode()).toBe('iptables')
  })

  test('waggle takes over with the same file: no new connection fails, and old ones go on', async () => {
    const gentle = { concurrency: 2, interval: 5 }
    const loads = {
      'pod, new connections': lab.startLoad('pod-a1', CLUSTER, gentle),
      'pod, a held one': lab.startLoad('pod-a1', CLUSTER, { ...gentle, mode: 'tcp-keep' }),
      'client, new connections': lab.startLoad('client', NODE_PORT, gentle),
      'client, a held one': lab.startLoad('client', NODE_PORT, { ...gentle, mode: 'tcp-keep' }),
    }
    for (const load of Object.values(loads)) await load.answered
    await end()
    await startWaggle()
    await until(
      async () => expect(JSON.parse(await answer('http://127.0.0.1:10256/readyz'))).toMatchObject({ ready: true }),
      60_000,
    )
    await serves('pod-a1', CLUSTER)
    for (const [name, load] of Object.entries(loads)) {
      const { ok, errors } = await load.stop()
      expect({ name, errors }).toEqual({ name, errors: {} })
      expect(ok, name).toBeGreaterThan(50)
    }
    expect(await proxyMode()).toBe('ebpf')
    expect(await lab.exec('node-a', [kubeProxy, '--cleanup', `--config=${config}`])).toMatchObject({ code: 0 })
    expect((await lab.exec('node-a', ['iptables-save'])).out).not.toContain('KUBE-SVC')
    await serves('pod-a1', CLUSTER)
    await serves('client', NODE_PORT)
  })

  test('and back: no new connection of the node or its pods fails', async () => {
    const load = lab.startLoad('pod-a1', CLUSTER, { concurrency: 2, interval: 5 })
    await load.answered
    await end()
    await startKubeProxy()
    await until(async () => expect((await lab.exec('node-a', ['iptables-save'])).out).toContain('KUBE-SVC'), 60_000)
    expect(await lab.exec('node-a', ['env', `WAGGLE_CONFIG=${config}`, WAGGLE, 'cleanup'])).toMatchObject({ code: 0 })
    await serves('pod-a1', CLUSTER)
    await serves('client', NODE_PORT)
    expect((await load.stop()).errors).toEqual({})
    expect(await proxyMode()).toBe('iptables')
    await end()
  })
})
