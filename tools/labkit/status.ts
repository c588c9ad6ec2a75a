import Table from 'cli-table3'
import { apiServerProcess } from './kube.js'
import type { Lab } from './lab.js'
import { isAlive } from './machine.js'
import { readProcess } from './state.js'

export interface HostStatus {
  readonly name: string
  readonly role: string
  readonly node: string
  readonly ipv4: string
  readonly ipv6: string
  /** Its daemon: the agent of a node, the echo service of a pod; `none` elsewhere. */
  readonly daemon: 'running' | 'stopped' | 'none'
  /** Of the daemon; 0 = none. */
  readonly pid: number
}

export interface LabStatus {
  readonly name: string
  readonly dataplane: string
  readonly source: string
  /** Where the agents read their manifests, or the API server's kubeconfig. */
  readonly input: string
  readonly hosts: readonly HostStatus[]
}

/** Whether every daemon of a lab runs. */
export function allRunning(status: LabStatus): boolean {
  return status.hosts.every(host => host.daemon !== 'stopped')
}

export function labStatus(lab: Lab): LabStatus {
  return {
    name: lab.state.name,
    dataplane: lab.state.dataplane,
    source: lab.state.source,
    input: lab.state.source === 'kube' ? lab.names.adminKubeconfig : lab.names.manifests,
    hosts: lab.hosts.map(host => {
      const { name, role, node, ipv4, ipv6 } = host
      const id = role === 'api' ? apiServerProcess(lab) : readProcess(lab.names, name)
      const has = role in DAEMON
      const running = isAlive(id)
      const daemon = !has ? 'none' : running ? 'running' : 'stopped'
      return { name, role, node, ipv4, ipv6, daemon, pid: running ? id.pid : 0 }
    }),
  }
}

const DAEMON = { node: 'agent', pod: 'echo', api: 'API server' } as Record<string, string>

/** The status as a table for people. */
export function renderStatus(status: LabStatus): string {
  const table = new Table({
    head: ['HOST', 'IPV4', 'IPV6', 'DAEMON', 'PID'],
    style: { head: [], border: [], compact: true },
    chars: PLAIN,
  })
  for (const host of status.hosts) {
    const daemon = host.daemon === 'none' ? '-' : `${DAEMON[host.role]} ${host.daemon}`
    table.push([host.name, host.ipv4, host.ipv6, daemon, host.pid || '-'])
  }
  return `lab ${status.name}: dataplane ${status.dataplane}, source ${status.source} (${status.input})\n${table}\n`
}

/** No lines: columns alone, as kubectl prints them. */
const PLAIN = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
}
