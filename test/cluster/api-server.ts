import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive, type ProcessId, signal, startTimeOf, waitGone } from '../../tools/labkit/machine.js'
import { ApiObjects } from './api-objects.js'
import { findParts, type Parts } from './parts.js'

/**
 * A real kube-apiserver over a real etcd, both in the network namespace of the process
 * that starts them. There are no controllers: EndpointSlices are what the tests make.
 */

/** The networks that the lab's address plan gives to Services. */
const SERVICE_CIDRS = '10.96.0.0/16,2001:db8:96::/112'
const START_TIMEOUT_MS = 90_000
/** Asked to end, it waits a minute for its watches, which go on meanwhile; no test has that much time. */
const STOP_TIMEOUT_MS = 5_000

interface State {
  /** Address and port of the API server. */
  readonly listen: string
  readonly port: number
  readonly etcdPort: number
  readonly parts: Parts
  readonly adminToken: string
  readonly processes: { etcd?: ProcessId; apiserver?: ProcessId }
}

export class ApiServer {
  readonly dir: string
  #state: State

  private constructor(dir: string, state: State) {
    this.dir = dir
    this.#state = state
  }

  /**
   * Starts both in `dir`, which must not exist or be empty, and waits until the server is
   * ready. A failure leaves nothing running and throws with the end of the log.
   */
  static async up(dir: string, listen = '127.0.0.1'): Promise<ApiServer> {
    const parts = findParts()
    if ('missing' in parts) throw new Error(parts.missing)
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    if (existsSync(path.join(dir, 'state.json'))) throw new Error(`${dir} holds an API server already`)
    const [port, etcdPort] = [await freePort(listen), await freePort('127.0.0.1')]
    const adminToken = randomBytes(16).toString('hex')
    const api = new ApiServer(dir, { listen, port, etcdPort, parts, adminToken, processes: {} })
    try {
      await api.#prepare()
      await api.#startEtcd()
      await api.start()
      await api.#allowAgents()
      return api
    } catch (error) {
      await api.#end()
      throw error
    }
  }

  /** The API server that `up` made in `dir`, also when a part of it does not run. */
  static open(dir: string): ApiServer {
    try {
      return new ApiServer(dir, JSON.parse(readFileSync(path.join(dir, 'state.json'), 'utf8')))
    } catch (cause) {
      throw new Error(`${dir} holds no API server`, { cause })
    }
  }

  /** `https://ADDRESS:PORT`. */
  get server(): string {
    const { listen, port } = this.#state
    return `https://${listen.includes(':') ? `[${listen}]` : listen}:${port}`
  }

  get port(): number {
    return this.#state.port
  }

  /** Of an administrator. */
  get adminKubeconfig(): string {
    return this.#path('admin.kubeconfig')
  }

  /** Of the agents: may read what they need and write events, and nothing else. */
  get agentKubeconfig(): string {
    return this.#path('agent.kubeconfig')
  }

  get caFile(): string {
    return this.#path('pki/apiserver.crt')
  }

  get running(): { etcd: boolean; apiserver: boolean } {
    const { etcd, apiserver } = this.#state.processes
    return { etcd: isAlive(etcd), apiserver: isAlive(apiserver) }
  }

  /** Objects as the administrator sees them. */
  objects(): ApiObjects {
    return new ApiObjects(this.server, this.caFile, this.#state.adminToken)
  }

  /** Starts the API server alone and waits until it is ready; etcd runs. Does nothing when it runs. */
  async start(): Promise<void> {
    if (this.running.apiserver) return
    const { listen, port, etcdPort, parts } = this.#state
    const loopback = listen.startsWith('127.') || listen === '::1'
    const child = await this.#spawn('apiserver', parts.kubeApiserver, [
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      `--bind-address=${listen}`,
      `--advertise-address=${listen}`,
      `--secure-port=${port}`,
      // It makes its own certificate there, once.
      `--cert-dir=${this.#path('pki')}`,
      `--token-auth-file=${this.#path('tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${this.#path('sa.key')}`,
      `--service-account-signing-key-file=${this.#path('sa.key')}`,
      `--service-cluster-ip-range=${SERVICE_CIDRS}`,
      // A loopback address is no endpoint of default/kubernetes; the server would refuse it again and again.
      `--endpoint-reconciler-type=${loopback ? 'none' : 'lease'}`,
      '--shutdown-delay-duration=0s',
      '--profiling=false',
    ])
    const objects = await this.#untilReady(child)
    objects.close()
  }

  /** Ends the API server; etcd keeps its objects. Clients see what they see when it crashes. */
  async stop(how: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    await this.#stop('apiserver', how)
  }

  /** Forgets history in etcd up to now, after the revision was moved on by `revisions`. */
  async compact(revisions = 1): Promise<void> {
    const ask = async (what: string, body: object) => {
      const url = `http://127.0.0.1:${this.#state.etcdPort}/v3/kv/${what}`
      const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
      const answer = await response.json()
      if (!response.ok) throw new Error(`etcd ${what}: ${JSON.stringify(answer)}`)
      return answer as { header: { revision: string } }
    }
    let revision = '0'
    for (let i = 0; i < revisions; i++) {
      const pair = { key: btoa('/waggle-test'), value: btoa(String(i)) }
      revision = (await ask('put', pair)).header.revision
    }
    await ask('compaction', { revision, physical: true })
  }

  /** Ends both and removes the directory. Repeating it is harmless. */
  async down(): Promise<void> {
    await this.#end()
    rmSync(this.dir, { recursive: true, force: true })
  }

  /** The last lines of a log. */
  logTail(of: 'etcd' | 'apiserver', lines = 15): string {
    try {
      return readFileSync(this.#path(`${of}.log`), 'utf8')
        .trimEnd()
        .split('\n')
        .slice(-lines)
        .join('\n')
    } catch {
      return '(no log)'
    }
  }

  async #prepare(): Promise<void> {
    const agentToken = randomBytes(16).toString('hex')
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const secret = (file: string, text: string) => writeFileSync(this.#path(file), text, { mode: 0o600 })
    secret('sa.key', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
    secret('tokens.csv', `${this.#state.adminToken},admin,admin,system:masters\n${agentToken},waggle,waggle\n`)
    secret('admin.kubeconfig', this.kubeconfig({ token: this.#state.adminToken }))
    secret('agent.kubeconfig', this.kubeconfig({ token: agentToken }))
    this.#save()
  }

  /** A kubeconfig for this server with the given user, as JSON (which is YAML). */
  kubeconfig(user: object): string {
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'test',
      clusters: [{ name: 'test', cluster: { server: this.server, 'certificate-authority': this.caFile } }],
      users: [{ name: 'test', user }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    })
  }

  async #startEtcd(): Promise<void> {
    const { etcdPort, parts } = this.#state
    const peer = 'http://127.0.0.1:0'
    const url = `http://127.0.0.1:${etcdPort}`
    await this.#spawn('etcd', parts.etcd, [
      `--data-dir=${this.#path('etcd')}`,
      // The data need not outlive the machine.
      '--unsafe-no-fsync',
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
      '--log-level=warn',
    ])
  }

  async #untilReady(child: ChildProcess): Promise<ApiObjects> {
    const deadline = performance.now() + START_TIMEOUT_MS
    let last = 'no answer yet'
    while (performance.now() < deadline && child.exitCode === null && child.signalCode === null) {
      await sleep(50)
      if (!existsSync(this.caFile)) continue
      const objects = this.objects()
      try {
        const { status, body } = await objects.request('GET', '/readyz', undefined, { accept: [500] })
        if (status === 200) return objects
        last = String(body)
      } catch (error) {
        last = (error as Error).message
      }
      objects.close()
    }
    const state = child.exitCode === null ? `is not ready after ${START_TIMEOUT_MS / 1000} s (${last})` : 'ended'
    throw new Error(
      `the API server ${state}; its last log lines:\n${this.logTail('apiserver')}\netcd:\n${this.logTail('etcd')}`,
    )
  }

  /** What an agent may do: list and watch three kinds, nothing else. */
  async #allowAgents(): Promise<void> {
    const rbac = 'rbac.authorization.k8s.io'
    const verbs = ['list', 'watch']
    const objects = this.objects()
    await objects.apply(
      {
        apiVersion: `${rbac}/v1`,
        kind: 'ClusterRole',
        metadata: { name: 'waggle' },
        rules: [
          { apiGroups: [''], resources: ['services', 'nodes'], verbs },
          { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs },
          { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] },
        ],
      },
      {
        apiVersion: `${rbac}/v1`,
        kind: 'ClusterRoleBinding',
        metadata: { name: 'waggle' },
        roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'waggle' },
        subjects: [
          { apiGroup: rbac, kind: 'User', name: 'waggle' },
          { kind: 'ServiceAccount', name: 'waggle', namespace: 'default' },
        ],
      },
    )
    objects.close()
  }

  async #spawn(name: 'etcd' | 'apiserver', command: string, args: readonly string[]): Promise<ChildProcess> {
    const log = openSync(this.#path(`${name}.log`), 'a')
    // Detached: it outlives the command that started it, and a Ctrl-C meant for that.
    const child = spawn(command, args, { stdio: ['ignore', log, log], detached: true, cwd: '/' })
    closeSync(log)
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    child.unref()
    const startTime = startTimeOf(child.pid as number)
    if (startTime !== undefined) this.#state.processes[name] = { pid: child.pid as number, startTime }
    this.#save()
    return child
  }

  async #stop(name: 'etcd' | 'apiserver', how: NodeJS.Signals): Promise<void> {
    const id = this.#state.processes[name]
    if (!id || !signal(id, how)) return
    if (await waitGone(id, STOP_TIMEOUT_MS)) return
    signal(id, 'SIGKILL')
    await waitGone(id, STOP_TIMEOUT_MS)
  }

  async #end(): Promise<void> {
    // No objects are worth a polite end.
    await this.#stop('apiserver', 'SIGKILL')
    await this.#stop('etcd', 'SIGKILL')
  }

  #save(): void {
    const file = this.#path('state.json')
    writeFileSync(`${file}.new`, JSON.stringify(this.#state), { mode: 0o600 })
    renameSync(`${file}.new`, file)
  }

  #path(file: string): string {
    return path.join(this.dir, file)
  }
}

/** A TCP port of `address` that nobody uses now. */
async function freePort(address: string): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, address, resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  return port
}
