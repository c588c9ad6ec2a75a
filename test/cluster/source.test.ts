import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type KubeAccess, loadKubeAccess } from '../../src/k8s/kube-access.js'
import type { KubeSourceOptions } from '../../src/k8s/kube-source.js'
import { service } from '../netns/manifests.js'
import { until, Watched } from '../unit/kube-source-kit.js'
import type { ApiObjects } from './api-objects.js'
import { ApiServer } from './api-server.js'
import { CANNOT_RUN, titled } from './parts.js'
import { TcpProxy } from './tcp-proxy.js'

/** Back-off as shipped, but quicker to its end; everything else as shipped. */
const timing = { minMs: 100, maxMs: 1000, healthyMs: 60_000, idleMs: 150_000 }

const web = (name: string, ip: number, pods = ['pod-a1', 'pod-b1']) =>
  service({ name, ip, ports: [{ port: 80 }], pods })

const node = (name: string, address: string) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  status: { addresses: [{ type: 'InternalIP', address }] },
})

describe.skipIf(CANNOT_RUN)(titled('the source against a real API server'), () => {
  let folder: string
  let api: ApiServer
  let objects: ApiObjects
  let proxy: TcpProxy
  let access: KubeAccess
  const running: Watched[] = []

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'waggle-cluster-'))
    api = await ApiServer.up(path.join(folder, 'api'))
    objects = api.objects()
    await objects.apply(node('node-a', '192.168.0.11'), node('node-b', '192.168.0.12'))
    access = await loadKubeAccess({ kubeconfig: api.agentKubeconfig })
  }, 180_000)

  afterAll(async () => {
    objects?.close()
    await api?.down()
    rmSync(folder, { recursive: true, force: true })
  })

  beforeEach(async () => {
    proxy = await new TcpProxy(api.port).listen()
    await objects.apply(...web('one', 10), ...web('two', 11))
  })

  afterEach(async () => {
    await Promise.all(running.splice(0).map(watched => watched.source.stop()))
    await proxy.close()
    vi.unstubAllEnvs()
    await api.start()
    const { body } = await objects.request('GET', '/api/v1/namespaces/default/services')
    for (const { metadata } of body.items) {
      if (metadata.name === 'kubernetes') continue
      await objects.delete(...web(metadata.name, 0))
    }
  })

  /** A source that goes through the proxy, and whose first lists are in. */
  async function synced(options: Partial<KubeSourceOptions> = {}): Promise<Watched> {
    const servers = options.servers ?? [`https://127.0.0.1:${proxy.port}`]
    const watched = await new Watched(servers, { access, timing, ...options }).start()
    running.push(watched)
    await until(() => expect(watched.synced.size).toBe(3), 30_000)
    return watched
  }

  const keys = (watched: Watched) => [...watched.state.keys()].filter(key => !key.endsWith('default/kubernetes')).sort()
  const keysOf = (...names: string[]) =>
    ['Node node-a', ...names.flatMap(name => [`Service default/${name}`, ...slices(name)])].sort()
  const slices = (name: string) => ['ipv4', 'ipv6'].map(family => `EndpointSlice default/${name}-${family}`)

  test('the first lists hold what is ours: Services, slices and the own Node', async () => {
    const other = web('elsewhere', 12).map(object => ({
      ...object,
      metadata: {
        ...(object as { metadata: { labels?: object } }).metadata,
        labels: {
          ...(object as { metadata: { labels?: object } }).metadata.labels,
          'service.kubernetes.io/service-proxy-name': 'another',
        },
      },
    }))
    await objects.apply(...other)
    const watched = await synced()
    // Only the Service is somebody else's by that label.
    expect(keys(watched)).toEqual([...keysOf('one', 'two'), ...slices('elsewhere')].sort())
    expect(watched.state.get('Service default/one')?.object).toMatchObject({
      clusterIPs: ['10.96.0.10', '2001:db8:96::10'],
      ports: [{ port: 80, protocol: 'TCP' }],
    })
    expect(watched.state.get('Node node-a')?.object).toMatchObject({ internalIPs: ['192.168.0.11'] })
    expect(watched.errors).toEqual([])
  })

  test('changes arrive, and a Service that is given to another proxy goes', async () => {
    const watched = await synced()
    await objects.apply(...web('three', 13))
    await until(() => expect(keys(watched)).toEqual(keysOf('one', 'three', 'two')))
    const [object, slice] = web('three', 13, ['pod-b2']) as [object, object]
    await objects.apply(slice)
    await until(() => {
      const seen = watched.state.get('EndpointSlice default/three-ipv4')?.object
      expect(seen).toMatchObject({ endpoints: [{ addresses: ['10.244.2.12'], nodeName: 'node-b', ready: true }] })
    })
    await objects.patch(object, { metadata: { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } } })
    await until(() => expect(watched.state.has('Service default/three')).toBe(false))
    await objects.delete(...web('three', 13), ...web('two', 11))
    await until(() => expect(keys(watched)).toEqual(keysOf('one')))
    expect(watched.errors).toEqual([])
  })

  test('620 Services: pages of the real server add up', { timeout: 120_000 }, async () => {
    const names = Array.from({ length: 620 }, (_, i) => `many-${i}`)
    const create = async (worker: number) => {
      for (const [i, name] of names.entries()) {
        if (i % 8 === worker) await objects.apply(plain(name))
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, worker) => create(worker)))
    const watched = await synced()
    const told = watched.told.filter(word => word.startsWith('+default/many-'))
    expect(new Set(told).size).toBe(620)
    expect(told).toHaveLength(620)
    await objects.request('DELETE', '/api/v1/namespaces/default/services')
    await until(() => expect([...watched.state.keys()].filter(key => key.includes('many-'))).toEqual([]), 60_000)
  })

  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'the API server goes (%s) and comes back: not one delete, then changes again',
    async how => {
      const watched = await synced()
      const before = watched.told.length
      await api.stop(how)
      await until(() => expect(watched.kinds()).toContain('unreachable'))
      await sleep(2000)
      expect(keys(watched)).toEqual(keysOf('one', 'two'))
      await api.start()
      await objects.apply(...web('three', 13))
      await until(() => expect(keys(watched)).toEqual(keysOf('one', 'three', 'two')), 20_000)
      await until(() => expect(watched.source.status().map(kind => kind.failures)).toEqual([0, 0, 0]), 10_000)
      const told = watched.told.slice(before).filter(word => !word.endsWith('/kubernetes'))
      expect(told.sort()).toEqual(['+default/three', '+default/three-ipv4', '+default/three-ipv6'])
    },
  )

  test('cut off while objects change and history is forgotten: 410, and the difference is told', async () => {
    const watched = await synced()
    const before = watched.told.length
    proxy.cut()
    await objects.delete(...web('one', 10))
    await objects.apply(...web('three', 13))
    // The server keeps recent history in memory as well; a restart empties that.
    await api.stop()
    await api.compact(5)
    await api.start()
    proxy.mend()
    await until(() => expect(keys(watched)).toEqual(keysOf('three', 'two')), 20_000)
    expect(watched.kinds()).toContain('expired')
    const changed = ['one', 'one-ipv4', 'one-ipv6', 'three', 'three-ipv4', 'three-ipv6']
    const told = watched.told.slice(before).filter(word => !word.endsWith('/kubernetes'))
    expect(told.sort()).toEqual(changed.map(name => `${name.startsWith('one') ? '-' : '+'}default/${name}`).sort())
  })

  test('cut off for a moment: resumes where it was, without a list', async () => {
    const watched = await synced()
    const lists = watched.lists
    for (const name of ['x', 'y', 'z']) {
      proxy.reset()
      await objects.apply(plain(name))
      await until(() => expect(watched.state.has(`Service default/${name}`)).toBe(true))
    }
    expect(watched.lists).toBe(lists)
    expect(watched.told.filter(word => word.startsWith('-'))).toEqual([])
  })

  test('a link that swallows everything: noticed by the deadline', async () => {
    const watched = await synced({ timing: { ...timing, idleMs: 1500 } })
    await until(() => expect(watched.opened).toBe(3))
    proxy.silence()
    await objects.apply(...web('three', 13))
    await until(() => expect(watched.silent).toBeGreaterThan(0))
    proxy.reset()
    proxy.mend()
    await until(() => expect(keys(watched)).toEqual(keysOf('one', 'three', 'two')))
    expect(watched.told.filter(word => word.startsWith('-'))).toEqual([])
  })

  test('time limit and bookmarks of the real server: watches end and go on, no list, no error', {
    timeout: 60_000,
  }, async () => {
    const watched = await synced({ timing: { ...timing, healthyMs: 1000, watchSeconds: [6, 6] } })
    const { lists } = watched
    await until(() => expect(watched.opened).toBe(3))
    await objects.apply(plain('first'))
    await until(() => expect(watched.state.has('Service default/first')).toBe(true))
    // What comes next without a change is the bookmark that the server sends before a watch's time is up.
    const { heard } = watched
    await until(() => expect(watched.heard).toBeGreaterThan(heard), 10_000)
    await until(() => expect(watched.opened).toBeGreaterThanOrEqual(6), 10_000)
    await objects.apply(plain('second'))
    await until(() => expect(watched.told.slice(-2)).toEqual(['+default/first', '+default/second']))
    expect({ lists: watched.lists, errors: watched.errors, silent: watched.silent }).toEqual({
      lists,
      errors: [],
      silent: 0,
    })
  })

  test('in a pod, with a service account token that is replaced', { timeout: 60_000 }, async () => {
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'waggle', namespace: 'default' } }
    await objects.apply(account)
    const secrets = path.join(folder, 'pod/var/run/secrets/kubernetes.io/serviceaccount')
    mkdirSync(secrets, { recursive: true })
    writeFileSync(path.join(secrets, 'ca.crt'), readFileSync(api.caFile))
    writeFileSync(path.join(secrets, 'token'), await token())
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '127.0.0.1')
    vi.stubEnv('KUBERNETES_SERVICE_PORT', String(proxy.port))
    const watched = await synced({ access: await loadKubeAccess({ root: path.join(folder, 'pod') }) })
    expect(keys(watched)).toEqual(keysOf('one', 'two'))

    // The account is made anew, so that the token in use is worth nothing any more.
    await objects.delete(account)
    await objects.apply(account)
    // The server remembers for ten seconds that a token was good.
    for (let tries = 0; tries < 30 && !watched.kinds().includes('denied'); tries++) {
      proxy.reset()
      await sleep(1500)
    }
    expect(watched.kinds()).toContain('denied')
    expect(keys(watched)).toEqual(keysOf('one', 'two'))
    writeFileSync(path.join(secrets, 'token'), await token())
    await objects.apply(...web('three', 13))
    await until(() => expect(keys(watched)).toEqual(keysOf('one', 'three', 'two')), 20_000)
  })

  test('without the right to list it says so, and goes on as soon as it may', async () => {
    const kubeconfig = path.join(folder, 'stranger.kubeconfig')
    const tokenFile = path.join(folder, 'stranger.token')
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'stranger', namespace: 'default' } }
    await objects.apply(account)
    writeFileSync(tokenFile, await token('stranger'))
    writeFileSync(kubeconfig, api.kubeconfig({ tokenFile }))
    const watched = await new Watched([api.server], {
      access: await loadKubeAccess({ kubeconfig }),
      timing,
    }).start()
    running.push(watched)
    await until(() => expect(watched.errors.length).toBeGreaterThanOrEqual(3))
    expect(watched.errors[0]?.error).toMatchObject({ code: 'KUBE_DENIED', status: 403 })
    expect(watched.errors[0]?.error.message).toMatch(/cannot (list|watch) resource .*role must allow list and watch/)
    writeFileSync(tokenFile, `${await token()}\n`)
    await until(() => expect(keys(watched)).toEqual(keysOf('one', 'two')), 10_000)
  })

  async function token(account = 'waggle'): Promise<string> {
    await objects.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account, namespace: 'default' } })
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
    const at = `/api/v1/namespaces/default/serviceaccounts/${account}/token`
    return (await objects.request('POST', at, request)).body.status.token
  }
})

function plain(name: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: { ports: [{ port: 80, protocol: 'TCP' }] },
  }
}
