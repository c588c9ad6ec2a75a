import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { loadKubeAccess } from '../../src/k8s/kube-access.js'
import { KubeEvents } from '../../src/k8s/kube-events.js'
import { until, Watched } from '../unit/kube-source-kit.js'
import { ApiObjects } from './api-objects.js'
import { ApiServer } from './api-server.js'
import { CANNOT_RUN, ROOT, titled } from './parts.js'

const manifests = parseAllDocuments(readFileSync(path.join(ROOT, 'deploy/rbac.yaml'), 'utf8')).map(document =>
  document.toJS(),
)

describe.skipIf(CANNOT_RUN)(titled('the ServiceAccount of deploy/rbac.yaml'), () => {
  let folder: string
  let api: ApiServer
  let token: string

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'waggle-rbac-'))
    api = await ApiServer.up(path.join(folder, 'api'))
    const admin = api.objects()
    // The server makes it itself, a moment after it is ready.
    await until(() => admin.request('GET', '/api/v1/namespaces/kube-system'), 30_000)
    await admin.apply(...manifests, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } })
    const { body } = await admin.request('POST', '/api/v1/namespaces/kube-system/serviceaccounts/waggle/token', {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {},
    })
    token = body.status.token
    admin.close()
  }, 180_000)

  afterAll(async () => {
    await api?.down()
    rmSync(folder, { recursive: true, force: true })
  })

  test('is enough for the agent: all three kinds are listed and watched', async () => {
    const kubeconfig = path.join(folder, 'waggle.kubeconfig')
    writeFileSync(kubeconfig, api.kubeconfig({ token }))
    const access = await loadKubeAccess({ kubeconfig })
    const watched = await new Watched([api.server], { access }).start()
    try {
      await until(() => expect(watched.synced.size).toBe(3), 30_000)
      const admin = api.objects()
      await admin.apply({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'web' },
        spec: { ports: [{ port: 80 }] },
      })
      admin.close()
      await until(() => expect([...watched.state.keys()]).toContain('Service default/web'), 30_000)
      expect(watched.errors).toEqual([])
    } finally {
      await watched.source.stop()
    }
  })

  test('is enough to tell the people of a Service, where kubectl describe finds it', async () => {
    const kubeconfig = path.join(folder, 'waggle.kubeconfig')
    writeFileSync(kubeconfig, api.kubeconfig({ token }))
    const events = () =>
      new KubeEvents({
        ...{ servers: [], nodeName: 'node-a', clock: systemClock, logger: silentLogger },
        access,
      })
    const access = await loadKubeAccess({ kubeconfig })
    const admin = api.objects()
    await admin.apply({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'told' },
      spec: { ports: [{ port: 80 }] },
    })
    const { uid } = (await admin.request('GET', '/api/v1/namespaces/default/services/told')).body.metadata
    const notice = {
      ...{ namespace: 'default', name: 'told', uid, reason: 'FrontendRefused', action: 'Plan', ofThisNode: false },
      note: `frontends: ${'not served; '.repeat(200)}`,
    }
    const [first, second] = [events(), events()]
    first.tell(notice, [])
    await expect.poll(() => first.counts, { timeout: 10_000 }).toEqual({ sent: 1, known: 0, dropped: 0 })
    second.tell(notice, [])
    await expect.poll(() => second.counts, { timeout: 10_000 }).toEqual({ sent: 0, known: 1, dropped: 0 })
    // The selector of kubectl describe.
    const selector = encodeURIComponent(
      `involvedObject.kind=Service,involvedObject.name=told,involvedObject.namespace=default,involvedObject.uid=${uid}`,
    )
    const { body } = await admin.request('GET', `/api/v1/namespaces/default/events?fieldSelector=${selector}`)
    expect(body.items).toMatchObject([{ reason: 'FrontendRefused', type: 'Warning', reportingComponent: 'waggle' }])
    admin.close()
  })

  test.each([
    ['GET', '/api/v1/secrets'],
    ['GET', '/api/v1/namespaces/default/services/kubernetes'],
    ['GET', '/api/v1/nodes/node-a'],
    ['DELETE', '/api/v1/nodes/node-a'],
    ['GET', '/api/v1/pods'],
    ['GET', '/api/v1/endpoints'],
    ['GET', '/apis/events.k8s.io/v1/events'],
  ])('allows nothing else: %s %s', async (method, where) => {
    const objects = new ApiObjects(api.server, api.caFile, token)
    const { status } = await objects.request(method, where, undefined, { accept: [403] })
    objects.close()
    expect(status).toBe(403)
  })
})
