import path from 'node:path'

/**
 * Every name that a lab gives to something on the machine. All of them carry the lab's
 * name, so `down` finds what is left even when the state file is gone.
 */

/** Where labs keep their files; one directory each. */
export const RUN_DIR = '/run/waggle-lab'

/** Without a dash, so that no lab's prefix is the beginning of another's. */
const LAB_NAME = /^[a-z][a-z0-9]{0,19}$/

export class LabNames {
  readonly lab: string

  /** Throws a RangeError for a name that could collide or would not fit. */
  constructor(lab: string) {
    if (!LAB_NAME.test(lab)) {
      throw new RangeError(`a lab's name has 1 to 20 characters a-z and 0-9 and begins with a letter, not "${lab}"`)
    }
    this.lab = lab
  }

  get runDir(): string {
    return path.join(RUN_DIR, this.lab)
  }

  get stateFile(): string {
    return path.join(this.runDir, 'state.json')
  }

  /** What the agents read with `--source dir:`. */
  get manifests(): string {
    return path.join(this.runDir, 'manifests')
  }

  get namespacePrefix(): string {
    return `waggle-${this.lab}-`
  }

  namespace(host: string): string {
    return this.namespacePrefix + host
  }

  namespacePath(host: string): string {
    return path.join('/run/netns', this.namespace(host))
  }

  /** Directory name below the cgroup v2 root. */
  get cgroup(): string {
    return `waggle-${this.lab}`
  }

  bpffs(node: string): string {
    return path.join(this.runDir, node, 'bpffs')
  }

  /** Where a node's agent keeps its lock. */
  agentRunDir(node: string): string {
    return path.join(this.runDir, node, 'agent')
  }

  /** Where the lab's API server keeps its files. */
  get apiDir(): string {
    return path.join(this.runDir, 'api')
  }

  /** An agent's credentials for it. */
  get kubeconfig(): string {
    return path.join(this.apiDir, 'agent.kubeconfig')
  }

  /** An administrator's. */
  get adminKubeconfig(): string {
    return path.join(this.apiDir, 'admin.kubeconfig')
  }

  log(host: string): string {
    return path.join(this.runDir, 'logs', `${host}.log`)
  }
}

/**
 * Where a host's processes live, below the lab's cgroup. A node's pods and its own
 * processes share the directory to which the node's agent attaches its programs.
 */
export function cgroupOf(host: { name: string; role: string; node: string }): string {
  if (host.role === 'pod') return path.join(host.node, 'pods', host.name)
  if (host.role === 'node') return path.join(host.name, 'host')
  return host.name
}
