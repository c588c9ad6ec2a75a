import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { RequestOptions } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import { loadKubeAccess } from '../../src/k8s/kube-access.js'
import { KubeClient } from '../../src/k8s/kube-client.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'waggle-kube-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true })
  vi.unstubAllEnvs()
})

const base64 = (text: string) => Buffer.from(text).toString('base64')

function kubeconfig(fields: { server?: string; user?: object; cluster?: object } = {}): string {
  const path = join(folder, 'config')
  const { server = 'https://192.0.2.1:6443/', user = { token: 'secret' }, cluster = {} } = fields
  const config = {
    'current-context': 'here',
    clusters: [
      { name: 'c', cluster: { server, ...cluster } },
      { name: 'd', cluster: { server: 'https://192.0.2.2' } },
    ],
    users: [
      { name: 'u', user },
      { name: 'v', user: { token: 'other' } },
    ],
    contexts: [
      { name: 'here', context: { cluster: 'c', user: 'u' } },
      { name: 'there', context: { cluster: 'd', user: 'v' } },
      { name: 'nowhere', context: { cluster: 'missing', user: 'u' } },
    ],
  }
  writeFileSync(path, JSON.stringify(config))
  return path
}

describe('a kubeconfig', () => {
  test('current context, token and CA', async () => {
    const access = await loadKubeAccess({
      kubeconfig: kubeconfig({ cluster: { 'certificate-authority-data': base64('a CA') } }),
    })
    expect(access.server).toBe('https://192.0.2.1:6443')
    const options = await access.options()
    expect(options.headers).toEqual({ Authorization: 'Bearer secret' })
    expect(String(options.ca)).toBe('a CA')
    expect(options.agent).toBeUndefined()
  })

  test('another context', async () => {
    const access = await loadKubeAccess({ kubeconfig: kubeconfig(), context: 'there' })
    expect(access.server).toBe('https://192.0.2.2')
    expect((await access.options()).headers).toEqual({ Authorization: 'Bearer other' })
  })

  test('tokenFile: relative to the kubeconfig, read for each request, trailing newline or not', async () => {
    const access = await loadKubeAccess({ kubeconfig: kubeconfig({ user: { tokenFile: 'token' } }) })
    writeFileSync(join(folder, 'token'), 'one\n')
    expect((await access.options()).headers).toEqual({ Authorization: 'Bearer one' })
    writeFileSync(join(folder, 'token'), 'two')
    expect((await access.options()).headers).toEqual({ Authorization: 'Bearer two' })
    rmSync(join(folder, 'token'))
    await expect(access.options()).rejects.toMatchObject({ code: 'KUBE_CREDENTIALS' })
  })

  test('a client certificate and a CA in files are read for each request', async () => {
    const user = { 'client-certificate': 'cert', 'client-key': 'key' }
    const access = await loadKubeAccess({
      kubeconfig: kubeconfig({ user, cluster: { 'certificate-authority': 'ca' } }),
    })
    for (const round of ['1', '2']) {
      for (const file of ['cert', 'key', 'ca']) writeFileSync(join(folder, file), file + round)
      const { cert, key, ca } = await access.options()
      expect([cert, key, ca].map(String)).toEqual([`cert${round}`, `key${round}`, `ca${round}`])
    }
  })

  test('http:// needs no certificate switch', async () => {
    const access = await loadKubeAccess({ kubeconfig: kubeconfig({ server: 'http://127.0.0.1:8080' }) })
    expect(access.server).toBe('http://127.0.0.1:8080')
    expect((await access.options()).headers).toEqual({ Authorization: 'Bearer secret' })
  })

  test.each([
    { name: 'no file', spec: () => ({ kubeconfig: join(folder, 'none') }), says: /ENOENT/ },
    { name: 'no such context', spec: () => ({ kubeconfig: kubeconfig(), context: 'x' }), says: /names no cluster/ },
    { name: 'no cluster', spec: () => ({ kubeconfig: kubeconfig(), context: 'nowhere' }), says: /names no cluster/ },
    { name: 'no address', spec: () => ({ kubeconfig: kubeconfig({ server: 'api' }) }), says: /Invalid URL/ },
  ])('$name: an error that names the file', async ({ spec, says }) => {
    await expect(loadKubeAccess(spec())).rejects.toThrow(says)
    await expect(loadKubeAccess(spec())).rejects.toThrow(folder)
  })
})

describe('in a pod', () => {
  test('server from the environment, token and CA from files as they are now', async () => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '2001:db8::1')
    vi.stubEnv('KUBERNETES_SERVICE_PORT', '443')
    const secrets = join(folder, 'var/run/secrets/kubernetes.io/serviceaccount')
    mkdirSync(secrets, { recursive: true })
    writeFileSync(join(secrets, 'ca.crt'), 'pod CA')
    writeFileSync(join(secrets, 'token'), 'first')
    const access = await loadKubeAccess({ root: folder })
    expect(access.server).toBe('https://[2001:db8::1]:443')
    writeFileSync(join(secrets, 'token'), 'rotated')
    const options = await access.options()
    expect(options.headers).toEqual({ Authorization: 'Bearer rotated' })
    expect(String(options.ca)).toBe('pod CA')
  })

  test('elsewhere: an error that says so', async () => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '')
    await expect(loadKubeAccess()).rejects.toThrow(/this is no pod/)
  })
})

test('connections are used again until a certificate changes', async () => {
  let connections = 0
  const server = createServer((_, response) => response.end('{}')).on('connection', () => connections++)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  let cert = 'one'
  const access = {
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    options: async () => ({ cert }),
  }
  const client = new KubeClient(access, systemClock)
  const ask = async () => {
    const response = await client.get('ask', '/', '*/*', new AbortController().signal)
    for await (const _ of response);
    await new Promise(resolve => setImmediate(resolve))
  }
  await ask()
  await ask()
  expect(connections).toBe(1)
  cert = 'two'
  await ask()
  await ask()
  expect(connections).toBe(2)
  client.close()
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

test.each(['ftp://192.0.2.1', 'unix:/run/x'])('a server %s is refused', server => {
  const access = { server, options: async () => ({}) }
  expect(() => new KubeClient(access, systemClock)).toThrow(TypeError)
})

describe('endpoints that the cluster names', () => {
  /** Listens and counts who connects; nobody gets an answer. */
  async function counted() {
    let connections = 0
    const server = createTcpServer(socket => {
      connections++
      socket.destroy()
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    return { port, connections: () => connections, close: () => server.close() }
  }

  /** Connections that a learned endpoint gets when the configured server is away. */
  async function asked(scheme: string, options: RequestOptions): Promise<number> {
    const configured = await counted()
    const learned = await counted()
    configured.close()
    const access = { server: `${scheme}://127.0.0.1:${configured.port}`, options: async () => options }
    const client = new KubeClient(access, systemClock)
    client.learn([`127.0.0.1:${learned.port}`])
    await expect(client.get('ask', '/', '*/*', new AbortController().signal)).rejects.toThrow(/KUBE_UNREACHABLE/)
    learned.close()
    client.close()
    return learned.connections()
  }

  test('are asked when no configured server can be reached', async () => {
    expect(await asked('https', {})).toBe(1)
  })

  test('are not asked where nobody checks who they are', async () => {
    expect(await asked('http', {})).toBe(0)
    expect(await asked('https', { rejectUnauthorized: false })).toBe(0)
  })

  test('do not move the one in use, and leave when they are no longer named', () => {
    const access = { server: 'https://10.0.0.1', options: async () => ({}) }
    const client = new KubeClient(access, systemClock, { servers: ['https://10.0.0.1', 'https://10.0.0.2'] })
    client.rotate()
    client.learn(['10.0.0.3:6443', '10.0.0.4:6443'])
    const next = () => {
      client.rotate()
      return client.server
    }
    expect(client.server).toBe('https://10.0.0.2')
    expect([next(), next(), next()]).toEqual(['https://10.0.0.3:6443', 'https://10.0.0.4:6443', 'https://10.0.0.1'])
    client.learn(['10.0.0.4:6443'])
    expect([next(), next(), next()]).toEqual(['https://10.0.0.2', 'https://10.0.0.4:6443', 'https://10.0.0.1'])
  })
})
