import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import { dirname, resolve } from 'node:path'
// Not the package's index: that pulls in every API model.
import { KubeConfig } from '@kubernetes/client-node/dist/config.js'
import { parse } from 'yaml'
import { KubeError } from './kube-errors.js'

/** Where the API server is and who we are. */
export interface KubeAccess {
  /** Base URL, e.g. `https://10.0.0.1:6443`, perhaps with a path. */
  readonly server: string
  /**
   * TLS options and headers for one request. Token, CA and certificate files are read
   * each time, as they are rotated under us. Throws KubeError `credentials`.
   */
  options(): Promise<RequestOptions>
}

export interface KubeAccessSpec {
  /** Path of a kubeconfig; undefined = the service account of the pod we run in. */
  readonly kubeconfig?: string
  /** Context in it; undefined = its current one. */
  readonly context?: string
  /** Put before the path of the service account's files. */
  readonly root?: string
}

/** Loads a kubeconfig or the pod's service account. Throws KubeError `credentials` when it cannot be used. */
export async function loadKubeAccess(spec: KubeAccessSpec = {}): Promise<KubeAccess> {
  const what =
    spec.kubeconfig === undefined ? 'use the service account of this pod' : `use kubeconfig ${spec.kubeconfig}`
  try {
    const config = new KubeConfig()
    const tokenFiles =
      spec.kubeconfig === undefined ? inPod(config, spec.root) : await fromFile(config, spec.kubeconfig)
    if (spec.context !== undefined) config.setCurrentContext(spec.context)
    return access(config, tokenFiles)
  } catch (cause) {
    throw new KubeError('credentials', { what, cause })
  }
}

/** Token files by user. */
type TokenFiles = ReadonlyMap<string, string>

function inPod(config: KubeConfig, root = ''): TokenFiles {
  if (!process.env.KUBERNETES_SERVICE_HOST) throw new Error('KUBERNETES_SERVICE_HOST is not set: this is no pod')
  config.loadFromCluster(root)
  const tokenFiles = new Map<string, string>()
  for (const user of config.users) {
    tokenFiles.set(user.name, user.authProvider.config.tokenFile)
    // The library would keep a token for a minute after it was replaced; we read the file.
    withoutAuthProvider(config, user.name)
  }
  return tokenFiles
}

async function fromFile(config: KubeConfig, path: string): Promise<TokenFiles> {
  const text = await readFile(path, 'utf8')
  const folder = dirname(resolve(path))
  config.loadFromString(text)
  config.makePathsAbsolute(folder)
  // The library does not know the field `tokenFile`.
  const tokenFiles = new Map<string, string>()
  const users: unknown = parse(text)?.users
  for (const user of Array.isArray(users) ? users : []) {
    const file: unknown = user?.user?.tokenFile
    if (typeof file === 'string' && file !== '') tokenFiles.set(String(user.name), resolve(folder, file))
  }
  return tokenFiles
}

function withoutAuthProvider(config: KubeConfig, name: string): void {
  config.users = config.users.map(user => {
    if (user.name !== name) return user
    const { authProvider: _, ...rest } = user
    return rest
  })
}

function access(config: KubeConfig, tokenFiles: TokenFiles): KubeAccess {
  const cluster = config.getCurrentCluster()
  if (!cluster) throw new Error(`context ${JSON.stringify(config.getCurrentContext())} names no cluster`)
  const user = config.getCurrentUser()
  if (!user) throw new Error(`context ${JSON.stringify(config.getCurrentContext())} names no user`)
  const server = new URL(cluster.server)
  if (server.protocol === 'http:') {
    // The library refuses http:// unless told that there is no certificate to check.
    config.clusters = config.clusters.map(c => (c.name === cluster.name ? { ...c, skipTLSVerify: true } : c))
  }
  const tokenFile = tokenFiles.get(user.name)
  const usesProxy = Boolean(cluster.proxyUrl)
  return {
    server: cluster.server.replace(/\/+$/, ''),
    async options() {
      try {
        const options: RequestOptions = {}
        await config.applyToHTTPSOptions(options)
        // The library's agent keeps the certificates it was made with; only proxies need it.
        if (!usesProxy) delete options.agent
        if (tokenFile !== undefined) {
          const token = (await readFile(tokenFile, 'utf8')).trim()
          options.headers = { ...options.headers, Authorization: `Bearer ${token}` } as Record<string, string>
        }
        return options
      } catch (cause) {
        throw new KubeError('credentials', { what: `read the credentials of user ${user.name}`, cause })
      }
    },
  }
}
