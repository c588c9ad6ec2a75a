import { mkdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import path from 'node:path'
import { addressPlan, type Host } from './address-plan.js'
import { startAgent } from './agent.js'
import { apply } from './apply.js'
import { down } from './down.js'
import { startApiServer } from './kube.js'
import { Lab, LabError } from './lab.js'
import { cgroupRoot, isAlive, type ProcessId, run, waitFor } from './machine.js'
import { LabNames } from './names.js'
import { missing } from './requirements.js'
import { inRoot } from './root.js'
import { writeState } from './state.js'
import { type NamespaceSetup, topology } from './topology.js'

export interface UpOptions {
  readonly name: string
  readonly nodes: number
  readonly dataplane: string
  readonly source: 'dir' | 'kube'
  /** Manifests to begin with; with the API server they are applied to it. */
  readonly manifests: string
  /** False leaves the agents to `agent NODE start`. */
  readonly agents: boolean
  /** Further flags of every agent. */
  readonly agentFlags: readonly string[]
  /** Told what is being done, one line a step. */
  readonly progress: (step: string) => void
}

/** A port that the echo services listen on, TCP and UDP. */
export const ECHO_PORT = 8080

/** Builds a lab and waits until it serves. A failure, or `stop`, takes everything down again. */
export async function up(options: UpOptions, stop?: AbortSignal): Promise<Lab> {
  const names = new LabNames(options.name)
  const problems = missing()
  if (problems.length > 0) throw new LabError(`this machine lacks:\n  ${problems.join('\n  ')}`)
  addressPlan(options.nodes)
  claim(names)
  try {
    return await build(names, options, stop)
  } catch (error) {
    await down(options.name)
    throw error
  }
}

/** The directory is the lock: whoever makes it owns the name. */
function claim(names: LabNames): void {
  try {
    mkdirSync(path.dirname(names.runDir), { recursive: true })
    mkdirSync(names.runDir)
  } catch (cause) {
    // Another lab's `down` removed the parent, empty as it was, between the two calls.
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT')
      throw new LabError(`lab "${names.lab}" exists; remove it with: tools/lab down --name ${names.lab}`, { cause })
    claim(names)
  }
}

async function build(names: LabNames, options: UpOptions, stop: AbortSignal | undefined): Promise<Lab> {
  const lab = new Lab(names, {
    name: options.name,
    nodes: options.nodes,
    dataplane: options.dataplane,
    source: options.source,
    cgroupRoot: cgroupRoot() as string,
  })
  const step = (what: string) => {
    stop?.throwIfAborted()
    options.progress(what)
  }
  step(`network: ${lab.hosts.length} namespaces`)
  for (const host of lab.hosts) mkdirSync(lab.cgroupOf(host), { recursive: true })
  await mountBpffs(lab)
  await buildNetwork(lab)

  const pods = lab.plan.nodes.flatMap(node => node.pods)
  step(`pods: ${pods.map(pod => pod.name).join(' ')}`)
  await startEchoServices(lab, pods)

  if (options.source === 'kube') {
    step('API server: etcd and kube-apiserver')
    await startApiServer(lab)
  }
  mkdirSync(names.manifests)
  await apply(lab, options.manifests)
  writeState(names, lab.state)
  if (options.agents) {
    step(`agents: ${lab.plan.nodes.map(node => node.name).join(' ')}`)
    await inParallel(lab.plan.nodes, node => startAgent(lab, node.name, options.agentFlags))
  }
  stop?.throwIfAborted()
  return lab
}

/** A BPF file system for each node, so that its pins are its own and vanish with the lab. */
async function mountBpffs(lab: Lab): Promise<void> {
  for (const node of lab.plan.nodes) {
    const dir = lab.names.bpffs(node.name)
    mkdirSync(dir, { recursive: true })
    await run('mount', ['-t', 'bpf', '-o', 'mode=0700', `waggle-${lab.names.lab}`, dir])
  }
}

async function buildNetwork(lab: Lab): Promise<void> {
  const wanted = topology(lab.plan, lab.state.source === 'kube', host => lab.names.namespace(host))
  await run('ip', ['-batch', '-'], `${wanted.links.join('\n')}\n`)
  await inParallel(wanted.namespaces, setup => configure(lab, setup))
}

function configure(lab: Lab, setup: NamespaceSetup): Promise<string> {
  const sysctls = setup.sysctls.map(([file, value]) => `echo ${value} > /proc/sys/${file}`)
  const script = [...sysctls, 'exec ip -batch -'].join('\n')
  const namespace = lab.names.namespacePath(setup.host)
  return run('nsenter', [`--net=${namespace}`, 'sh', '-ec', script], `${setup.batch.join('\n')}\n`)
}

async function startEchoServices(lab: Lab, pods: readonly Host[]): Promise<void> {
  await inParallel(pods, async pod => {
    const id = lab.startDaemon(pod, [process.execPath, inRoot('build/echo.mjs'), pod.name, String(ECHO_PORT)])
    await waitFor(() => !isAlive(id) || listens(id), 20_000)
    if (!isAlive(id) || !listens(id))
      throw new LabError(`the echo service of ${pod.name} failed:\n${lab.logTail(pod.name, 10)}`)
  })
}

/** Whether the namespace of a process has the echo service's sockets, TCP and UDP. */
function listens(id: ProcessId): boolean {
  const port = `:${ECHO_PORT.toString(16).toUpperCase().padStart(4, '0')} `
  const has = (table: string) => readFileSync(`/proc/${id.pid}/net/${table}`, 'utf8').includes(port)
  try {
    return has('tcp6') && has('udp6')
  } catch {
    return false // It ended between two looks.
  }
}

/** Runs `work` for all items, as many at a time as there are CPUs, twice over. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const queue = [...items]
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: cpus().length * 2 }, worker))
}
