import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { type AddressPlan, addressPlan, type Host, hostsOf, type NodeHost } from './address-plan.js'
import { enter, type ProcessId, startTimeOf } from './machine.js'
import { cgroupOf, LabNames } from './names.js'
import { type LabState, readState, writeProcess } from './state.js'

/** A mistake of the caller: a name that does not exist, a lab that is not up. */
export class LabError extends Error {
  override readonly name = 'LabError'
}

/** A lab that is up: its names, its hosts, and the way into them. */
export class Lab {
  readonly names: LabNames
  readonly state: LabState
  readonly plan: AddressPlan

  constructor(names: LabNames, state: LabState) {
    this.names = names
    this.state = state
    this.plan = addressPlan(state.nodes)
  }

  /** Throws a LabError when there is no such lab. */
  static open(name: string): Lab {
    const names = new LabNames(name)
    const state = readState(names)
    if (!state) {
      const remedy = existsSync(names.runDir)
        ? `only the remains of one; remove them with: tools/lab down --name ${name}`
        : `start one with: tools/lab up --name ${name}`
      throw new LabError(`no lab "${name}"; ${remedy}`)
    }
    return new Lab(names, state)
  }

  get hosts(): readonly Host[] {
    return hostsOf(this.plan, this.state.source === 'kube')
  }

  host(name: string): Host {
    const host = this.hosts.find(candidate => candidate.name === name)
    if (!host) throw new LabError(`no host "${name}"; there are ${this.hosts.map(each => each.name).join(', ')}`)
    return host
  }

  node(name: string): NodeHost {
    const node = this.plan.nodes.find(candidate => candidate.name === name)
    if (!node) throw new LabError(`no node "${name}"; there are ${this.plan.nodes.map(each => each.name).join(', ')}`)
    return node
  }

  /** The lab's cgroup directory. */
  get cgroup(): string {
    return path.join(this.state.cgroupRoot, this.names.cgroup)
  }

  /** The cgroup to which a node's agent attaches: the node's processes and its pods are in it. */
  nodeCgroup(node: string): string {
    return path.join(this.cgroup, node)
  }

  cgroupOf(host: Host): string {
    return path.join(this.cgroup, cgroupOf(host))
  }

  /** What stands before a command to make it a process of `host`: program and arguments. */
  enter(host: Host, command: readonly string[]): [string, string[]] {
    return ['nsenter', enter(this.names.namespacePath(host.name), this.cgroupOf(host), command)]
  }

  /** Starts `command` as a process of a host. */
  spawn(hostName: string, command: readonly string[], options: SpawnOptions = {}): ChildProcess {
    const [program, args] = this.enter(this.host(hostName), command)
    return spawn(program, args, options)
  }

  /** Starts a daemon of a host, which outlives this process, and records it. Its output goes to the host's log. */
  startDaemon(host: Host, command: readonly string[]): ProcessId {
    const file = this.names.log(host.name)
    mkdirSync(path.dirname(file), { recursive: true })
    const log = openSync(file, 'a')
    try {
      const [program, args] = this.enter(host, command)
      const child = spawn(program, args, { stdio: ['ignore', log, log], detached: true, cwd: '/' })
      const startTime = child.pid === undefined ? undefined : startTimeOf(child.pid)
      if (child.pid === undefined || startTime === undefined) throw new LabError(`${host.name}: nsenter did not start`)
      child.unref()
      const id = { pid: child.pid, startTime }
      writeProcess(this.names, host.name, id)
      return id
    } finally {
      closeSync(log)
    }
  }

  /** The last lines of a host's log; empty when there is none. */
  logTail(hostName: string, lines: number): string {
    try {
      return readFileSync(this.names.log(hostName), 'utf8').trimEnd().split('\n').slice(-lines).join('\n')
    } catch {
      return ''
    }
  }
}
