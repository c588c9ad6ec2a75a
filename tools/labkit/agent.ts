import { type Lab, LabError } from './lab.js'
import { isAlive, run, signal, waitGone } from './machine.js'
import { inRoot } from './root.js'
import { forgetProcess, readProcess } from './state.js'

/** Where an agent answers, inside its node's network namespace. */
export const METRICS_BIND = '127.0.0.1:10249'
export const HEALTHZ_BIND = '0.0.0.0:10256'
const HEALTHZ_URL = 'http://127.0.0.1:10256/healthz'

/** A first start loads and verifies all programs, on a loaded machine too. */
const START_TIMEOUT_MS = 30_000
/** An agent that is asked to stop leaves the kernel as it is, so it needs little time. */
const STOP_TIMEOUT_MS = 10_000

export function agentIsRunning(lab: Lab, node: string): boolean {
  return isAlive(readProcess(lab.names, node))
}

/** The command line of a node's agent; `extra` flags come last. */
export function agentCommand(lab: Lab, node: string, extra: readonly string[]): string[] {
  const source =
    lab.state.source === 'kube'
      ? ['--source', 'kube', '--kubeconfig', lab.names.kubeconfig]
      : ['--source', `dir:${lab.names.manifests}`]
  return [
    inRoot('bin/waggle'),
    'run',
    ...['--node-name', node, ...source, '--dataplane', lab.state.dataplane, '--devices', 'eth0'],
    ...['--cgroup', lab.nodeCgroup(node), '--bpffs', lab.names.bpffs(node), '--run-dir', lab.names.agentRunDir(node)],
    ...['--checkpoint-dir', `${lab.names.agentRunDir(node)}/checkpoint`],
    ...['--metrics-bind-address', METRICS_BIND, '--healthz-bind-address', HEALTHZ_BIND, '--log-format', 'json'],
    ...extra,
  ]
}

/** Starts a node's agent and waits until it reports healthy. Does nothing when it runs already. */
export async function startAgent(lab: Lab, node: string, extra: readonly string[] = []): Promise<void> {
  const host = lab.node(node)
  if (agentIsRunning(lab, node)) return
  const id = lab.startDaemon(host, agentCommand(lab, node, extra))
  try {
    const [program, args] = lab.enter(host, [
      process.execPath,
      inRoot('build/lab.mjs'),
      ...['wait-healthy', HEALTHZ_URL, String(id.pid), String(START_TIMEOUT_MS)],
    ])
    await run(program, args)
  } catch (cause) {
    const what = isAlive(id) ? `did not become healthy in ${START_TIMEOUT_MS / 1000} s` : 'ended'
    throw new LabError(`the agent of ${node} ${what}; its last log lines:\n${lab.logTail(node, 10)}`, { cause })
  }
}

/** SIGTERM, and wait until it has ended. Does nothing when it does not run. */
export async function stopAgent(lab: Lab, node: string): Promise<void> {
  await endAgent(lab, node, 'SIGTERM')
}

/** SIGKILL: what a crash or the OOM killer does. */
export async function killAgent(lab: Lab, node: string): Promise<void> {
  await endAgent(lab, node, 'SIGKILL')
}

async function endAgent(lab: Lab, node: string, name: NodeJS.Signals): Promise<void> {
  lab.node(node)
  const id = readProcess(lab.names, node)
  if (id && signal(id, name) && !(await waitGone(id, STOP_TIMEOUT_MS))) {
    throw new LabError(`the agent of ${node} (pid ${id.pid}) did not end ${STOP_TIMEOUT_MS / 1000} s after ${name}`)
  }
  forgetProcess(lab.names, node)
}

/** What `wait-healthy` does inside the namespace: polls until 200, the end of the process or the deadline. */
export async function waitHealthy(url: string, pid: number, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs
  while (Date.now() < deadline) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(1000) })
      if (response.status === 200) return true
    } catch {
      // Not listening yet.
    }
    try {
      process.kill(pid, 0)
    } catch {
      return false
    }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  return false
}
