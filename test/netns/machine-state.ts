import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { cgroupRoot, cgroupTree, mounts } from '../../tools/labkit/machine.js'
import { RUN_DIR } from '../../tools/labkit/names.js'

/** Everything on a machine that a lab or an agent makes; each entry names one object. */
export type MachineState = Readonly<Record<string, readonly string[]>>

export function machineState(): MachineState {
  return {
    namespaces: list('/run/netns'),
    cgroups: cgroupTree(cgroupRoot() as string),
    // The mount point itself is made by the first `ip netns add` since boot and stays.
    mounts: mounts()
      .map(mount => mount.target)
      .filter(target => target !== '/run/netns')
      .sort(),
    files: list(RUN_DIR),
    devices: run('ip', ['-o', 'link']).map(line => line.split(':')[1] as string),
    addresses: run('ip', ['-o', 'address']).map(line => line.replace(/ (valid|preferred)_lft.*/, '')),
    routes: [
      ...run('ip', ['route', 'show', 'table', 'all']),
      ...run('ip', ['-6', 'route', 'show', 'table', 'all']),
    ].map(
      // Routes that a router advertisement brought count down.
      line => line.replace(/ expires \S+/, ''),
    ),
    qdiscs: run('tc', ['qdisc', 'show']),
    programs: bpf('prog'),
    maps: bpf('map'),
    links: bpf('link'),
  }
}

/** Ids of the BPF objects that a process has open (an agent: programs and maps, no links), as entries of {@link machineState} begin: `programs: 12 `. */
export function bpfHeldBy(pid: number): string[] {
  const dir = `/proc/${pid}/fdinfo`
  const kinds = { prog_id: 'programs', map_id: 'maps', link_id: 'links' }
  return readdirSync(dir).flatMap(fd => {
    const info = readIfThere(path.join(dir, fd))
    return Object.entries(kinds).flatMap(([field, kind]) => {
      const id = new RegExp(`^${field}:\\s*(\\d+)$`, 'm').exec(info)?.[1]
      return id === undefined ? [] : [`${kind}: ${id} `]
    })
  })
}

/** What is known to come from a test, when others use the machine, too. */
export interface Mine {
  /** Names of labs: namespaces, cgroups, mounts and files carry them. */
  readonly labs: readonly string[]
  /** From {@link bpfHeldBy}. */
  readonly bpf?: readonly string[]
}

/**
 * What `after` has and `before` had not, and the other way round; empty = nothing
 * changed. Where CI is set the machine is ours alone and everything counts; elsewhere
 * what others made meanwhile is left out.
 */
export function difference(before: MachineState, after: MachineState, mine: Mine): string[] {
  const counts = (entry: string) =>
    process.env.CI !== undefined ||
    /^(devices|addresses|routes|qdiscs):/.test(entry) ||
    mine.labs.some(lab => entry.includes(`waggle-${lab}`) || entry.includes(`${RUN_DIR}/${lab}`)) ||
    (mine.bpf ?? []).some(object => entry.startsWith(object))
  return Object.keys(before)
    .flatMap(kind => {
      const [had, has] = [new Set(before[kind]), new Set(after[kind])]
      return [
        ...[...has].filter(object => !had.has(object)).map(object => `${kind}: ${object} is new`),
        ...[...had].filter(object => !has.has(object)).map(object => `${kind}: ${object} is gone`),
      ]
    })
    .filter(counts)
}

/**
 * The difference that is left once the kernel has freed what it frees later (programs
 * and maps wait for RCU, cgroup links for the cgroup), 10 s at most.
 */
export async function settledDifference(before: MachineState, mine: Mine): Promise<string[]> {
  const deadline = Date.now() + 10_000
  for (;;) {
    const left = difference(before, machineState(), mine)
    if (left.length === 0 || Date.now() > deadline) return left
    await sleep(100)
  }
}

/** A descriptor may be closed between two looks. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function list(dir: string): string[] {
  try {
    return readdirSync(dir).map(name => path.join(dir, name))
  } catch {
    return []
  }
}

function run(command: string, args: string[]): string[] {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    .split('\n')
    .filter(Boolean)
}

function bpf(kind: 'prog' | 'map' | 'link'): string[] {
  const objects = JSON.parse(run('bpftool', ['-j', kind, 'list']).join('')) as {
    id: number
    name?: string
    type?: string
  }[]
  return objects.map(({ id, name = '', type = '' }) => `${id} ${type} ${name}`)
}
