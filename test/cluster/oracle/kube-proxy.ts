import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { NftRules } from './nft-rules.js'

const run = promisify(execFile)
/** The listing of thousands of Services. */
const MOST_OUTPUT = 1 << 28
const LOG_LINES = 15

/** Which kube-proxy to run, and where it is told to be. */
export interface KubeProxyOptions {
  readonly binary: string
  /** For its configuration and log. */
  readonly dir: string
  readonly kubeconfig: string
  readonly nodeName: string
  /** Networks of all pods, one of each family: who is a pod. */
  readonly clusterCIDR: string
  /** Default nftables. */
  readonly mode?: 'nftables' | 'iptables'
  /** Further settings of the mode's section. */
  readonly modeSettings?: object
}

/** The real kube-proxy, in the network namespace of the process that starts it. */
export class KubeProxy {
  readonly #process: ChildProcess
  readonly #log: string

  private constructor(process: ChildProcess, log: string) {
    this.#process = process
    this.#log = log
  }

  static start({
    binary,
    dir,
    kubeconfig,
    nodeName,
    clusterCIDR,
    mode = 'nftables',
    modeSettings,
  }: KubeProxyOptions): KubeProxy {
    const config = path.join(dir, 'kube-proxy.json')
    const settings = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode,
      hostnameOverride: nodeName,
      clientConnection: { kubeconfig },
      clusterCIDR,
      healthzBindAddress: '127.0.0.1:10256',
      metricsBindAddress: '127.0.0.1:10249',
      // These limits are the machine's, not the namespace's.
      conntrack: { maxPerCore: 0, min: 0 },
      [mode]: { minSyncPeriod: '500ms', syncPeriod: '10s', ...modeSettings },
    }
    writeFileSync(config, JSON.stringify(settings))
    const log = path.join(dir, 'kube-proxy.log')
    const out = openSync(log, 'w')
    const process = spawn(binary, [`--config=${config}`, '-v=2'], { stdio: ['ignore', out, out] })
    closeSync(out)
    return new KubeProxy(process, log)
  }

  /** Throws with the end of its log when it has ended by itself. */
  check(): void {
    if (this.#process.exitCode === null && this.#process.signalCode === null) return
    throw new Error(`kube-proxy ended; its last log lines:\n${this.logTail()}`)
  }

  logTail(): string {
    return readFileSync(this.#log, 'utf8').trimEnd().split('\n').slice(-LOG_LINES).join('\n')
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const gone = new Promise(resolve => this.#process.once('exit', resolve))
    this.#process.kill('SIGKILL')
    await gone
  }

  /** All its rules of a family. */
  async rules(family: 'IPv4' | 'IPv6'): Promise<NftRules> {
    return new NftRules(await list(['table', nftFamily(family), 'kube-proxy']))
  }

  /** The backends of the cluster list of one Service port, as text; undefined while it has no chain for it. */
  async backendsOf(
    family: 'IPv4' | 'IPv6',
    port: { readonly namespace: string; readonly name: string; readonly portName: string },
  ): Promise<string | undefined> {
    const text = `${port.namespace}/${port.name}/tcp/${port.portName}`
    const chain = `service-${nameHash(text)}-${text}`
    try {
      const listing = await list(['chain', nftFamily(family), 'kube-proxy', chain])
      return JSON.stringify(listing.nftables.find(({ rule }) => rule !== undefined)?.rule.expr)
    } catch {
      // nft says that there is no such chain, or no table yet.
      return undefined
    }
  }
}

function nftFamily(family: 'IPv4' | 'IPv6'): string {
  return family === 'IPv4' ? 'ip' : 'ip6'
}

// biome-ignore lint/suspicious/noExplicitAny: nft's JSON; NftRules looks at its shape.
async function list(what: readonly string[]): Promise<{ nftables: any[] }> {
  const { stdout } = await run('nft', ['-j', 'list', ...what], { maxBuffer: MOST_OUTPUT })
  return JSON.parse(stdout)
}

/** What kube-proxy puts before the readable part of a chain's name: 40 bits of SHA-256 in base32 (RFC 4648). */
export function nameHash(text: string): string {
  const bits = [...createHash('sha256').update(text).digest().subarray(0, 5)]
    .map(byte => byte.toString(2).padStart(8, '0'))
    .join('')
  return (bits.match(/.{5}/g) ?? []).map(five => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(five, 2)]).join('')
}
