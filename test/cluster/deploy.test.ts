import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { killAgent } from '../../tools/labkit/agent.js'
import type { ProcessId } from '../../tools/labkit/machine.js'
import { service } from '../netns/manifests.js'
import { CANNOT_RUN as NO_LAB } from '../netns/test-lab.js'
import { until } from '../unit/kube-source-kit.js'
import { pathOf } from './api-objects.js'
import { ApiServer } from './api-server.js'
import { capabilityMask, containerCommand, OOM_SCORE } from './deploy-container.js'
import { agentContainer, deployed, deployedOne } from './deploy-files.js'
import { KubeLab } from './kube-lab.js'
import { CANNOT_RUN, ROOT, titled } from './parts.js'

/** What deploy/ says, judged by a real API server and started on a node of the lab. */

describe.skipIf(CANNOT_RUN)(titled('the manifests of deploy/'), () => {
  let folder: string
  let api: ApiServer
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'waggle-deploy-'))
    api = await ApiServer.up(path.join(folder, 'api'))
  }, 180_000)
  afterAll(async () => {
    await api?.down()
    rmSync(folder, { recursive: true, force: true })
  })

  test('are accepted as they are: no unknown field, no wrong value', async () => {
    const admin = api.objects()
    await until(() => admin.request('GET', '/api/v1/namespaces/kube-system'), 30_000)
    for (const object of deployed()) {
      const query = '?dryRun=All&fieldManager=test&fieldValidation=Strict'
      const { body } = await admin.request('PATCH', pathOf(object) + query, object, {
        type: 'application/apply-patch+yaml',
      })
      expect(body.kind).toBe(object.kind)
    }
    const { kind } = deployedOne('DaemonSet')
    const wrong = { ...deployedOne('DaemonSet'), spec: { ...deployedOne('DaemonSet').spec, nodeSelectors: {} } }
    const { status } = await admin.request(
      'PATCH',
      `${pathOf(wrong)}?dryRun=All&fieldManager=test&fieldValidation=Strict`,
      wrong,
      {
        type: 'application/apply-patch+yaml',
        accept: [400, 422, 500],
      },
    )
    expect([kind, status >= 400]).toEqual(['DaemonSet', true])
    admin.close()
  })

  test('probes ask for what a draining node answers, too', () => {
    const { startupProbe, livenessProbe, readinessProbe } = agentContainer()
    const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path)
    expect(paths).toEqual(['/livez', '/livez', '/readyz'])
  })
})

/** What tools/image and the container need beyond the rest of the tier. */
const NO_IMAGE = process.env.CI
  ? ''
  : ['dpkg-query', 'capsh']
      .filter(tool => spawnSync('which', [tool]).status !== 0)
      .map(tool => `no ${tool}`)
      .join('; ')
const missing = [NO_LAB, CANNOT_RUN, NO_IMAGE].filter(Boolean).join('; ')
const title = 'the image on a node, with the capabilities, volumes and role of the manifests'

const web = (pods: readonly string[]) =>
  service({ name: 'web', ip: 10, ports: [{ name: 'tcp', port: 80, nodePort: 30080 }], pods })
const BACKENDS = ['pod-a2', 'pod-b1']

describe.skipIf(missing)(missing ? `${title} (skipped: ${missing})` : title, () => {
  let lab: KubeLab
  let folder: string
  let agent: ProcessId

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'waggle-image-'))
    execFileSync(path.join(ROOT, 'tools/image'), ['--output', path.join(folder, 'image')], { stdio: 'pipe' })
    lab = await KubeLab.withApiServer()
    await lab.replaceManifests(web(BACKENDS))
    await serves('pod-a1', BACKENDS)
    const token = await deployedToken()
    const volumes = {
      config: path.join(folder, 'config'),
      token: path.join(folder, 'token'),
      bpffs: lab.lab.names.bpffs('node-a'),
      cgroup: lab.lab.nodeCgroup('node-a'),
      run: lab.lab.names.agentRunDir('node-a'),
      state: path.join(folder, 'state'),
    }
    for (const dir of [volumes.config, volumes.token, volumes.state]) mkdirSync(dir)
    writeFileSync(path.join(volumes.config, 'config.conf'), deployedOne('ConfigMap').data['config.conf'])
    writeFileSync(path.join(volumes.token, 'token'), token)
    const api = JSON.parse(readFileSync(path.join(lab.lab.names.apiDir, 'state.json'), 'utf8'))
    writeFileSync(
      path.join(volumes.token, 'ca.crt'),
      readFileSync(path.join(lab.lab.names.apiDir, 'pki/apiserver.crt'), 'utf8'),
    )
    const command = containerCommand({
      container: agentContainer(),
      rootfsTar: path.join(folder, 'image/rootfs.tar'),
      dir: folder,
      volumes,
      environment: {
        NODE_NAME: 'node-a',
        KUBERNETES_SERVICE_HOST: api.listen,
        KUBERNETES_SERVICE_PORT: String(api.port),
      },
    })
    const load = lab.startLoad('pod-a1', '10.96.0.10:80', { concurrency: 2, interval: 5 })
    await load.answered
    await killAgent(lab.lab, 'node-a')
    agent = lab.lab.startDaemon(lab.lab.node('node-a'), command)
    try {
      await until(async () => {
        const { out } = await lab.exec('node-a', ['curl', '-s', 'http://127.0.0.1:10256/readyz'])
        expect(JSON.parse(out)).toMatchObject({ ready: true })
      }, 60_000)
    } catch (cause) {
      throw new Error(`the container is not ready:\n${lab.lab.logTail('node-a', 30)}`, { cause })
    }
    const { ok, errors } = await load.stop()
    expect({ errors, some: ok > 50 }).toEqual({ errors: {}, some: true })
  }, 300_000)

  afterAll(async () => {
    await lab?.down()
    rmSync(folder, { recursive: true, force: true })
  })

  /** Applies the role of deploy/ under another name, as the lab's own agents have one, and asks for a token. */
  async function deployedToken(): Promise<string> {
    const renamed = JSON.parse(
      JSON.stringify(
        deployed().filter(({ kind }) => /^(ServiceAccount|ClusterRole|ClusterRoleBinding)$/.test(kind)),
      ).replaceAll('"name":"waggle"', '"name":"waggle-deployed"'),
    )
    const file = path.join(folder, 'role.json')
    writeFileSync(file, JSON.stringify({ kind: 'List', apiVersion: 'v1', items: renamed }))
    const kubeApi = [path.join(ROOT, 'tools/kube-api'), 'apply', '--dir', lab.lab.names.apiDir, file]
    expect(await lab.exec('api', kubeApi)).toMatchObject({ code: 0 })
    const { adminToken, listen, port } = JSON.parse(readFileSync(path.join(lab.lab.names.apiDir, 'state.json'), 'utf8'))
    const { out } = await lab.exec('api', [
      ...['curl', '-sk', '-X', 'POST', '-H', `Authorization: Bearer ${adminToken}`],
      ...[
        '-H',
        'Content-Type: application/json',
        '-d',
        '{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}',
      ],
      `https://${listen}:${port}/api/v1/namespaces/kube-system/serviceaccounts/waggle-deployed/token`,
    ])
    return JSON.parse(out).status.token
  }

  async function serves(host: string, pods: readonly string[], target = '10.96.0.10:80'): Promise<void> {
    await until(async () => {
      const { backends, errors } = await lab.load(host, target, { count: 40 })
      expect({ backends: Object.keys(backends).sort(), errors }).toEqual({ backends: [...pods], errors: {} })
    }, 60_000)
  }

  test('it has exactly those capabilities, and no way to others', () => {
    const status = readFileSync(`/proc/${agent.pid}/status`, 'utf8')
    const line = (name: string) => new RegExp(`^${name}:\\s*(\\w+)`, 'm').exec(status)?.[1]
    const mask = capabilityMask(agentContainer().securityContext.capabilities.add)
    expect([line('CapEff'), line('CapPrm'), line('CapBnd'), line('NoNewPrivs')]).toEqual([mask, mask, mask, '1'])
    expect(readFileSync(`/proc/${agent.pid}/comm`, 'utf8')).toMatch(/node|MainThread|waggle/)
  })

  test('pods and clients outside are served, and changes arrive', async () => {
    await serves('pod-a1', BACKENDS)
    await serves('client', BACKENDS, '192.168.0.11:30080')
    await lab.replaceManifests(web(['pod-b1', 'pod-b2']))
    await serves('pod-a1', ['pod-b1', 'pod-b2'])
    await serves('client', ['pod-b1', 'pod-b2'], '192.168.0.11:30080')
  })

  test('nothing was refused to it, and its settings are those of the ConfigMap', () => {
    const scored = Number(readFileSync(`/proc/${agent.pid}/oom_score_adj`, 'utf8')) === OOM_SCORE
    const whole = readFileSync(lab.lab.names.log('node-a'), 'utf8')
    const log = scored ? whole : whole.replace(/.*cannot set the OOM score.*\n/, '')
    expect(log).toMatch(/starting .*cgroup="\/host\/cgroup \(file\)" oomScoreAdj="-997 \(file\)"/)
    expect(log).not.toMatch(/ (WARN|ERROR) |EPERM|EACCES|EROFS/)
  })
})
