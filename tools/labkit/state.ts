import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { ProcessId } from './machine.js'
import { type LabNames, RUN_DIR } from './names.js'

/** What `up` decided; the rest follows from the names and the address plan. */
export interface LabState {
  readonly name: string
  readonly nodes: number
  readonly dataplane: string
  /** `dir` reads the lab's manifests, `kube` an API server of the lab's own. */
  readonly source: 'dir' | 'kube'
  /** Root of cgroup v2 on this machine. */
  readonly cgroupRoot: string
}

/** Undefined when there is no such lab, or only what a broken `up` left of it. */
export function readState(names: LabNames): LabState | undefined {
  return readJson<LabState>(names.stateFile)
}

export function writeState(names: LabNames, state: LabState): void {
  writeJson(names.stateFile, state)
}

/** Names of all labs that have a directory. */
export function labNames(): string[] {
  try {
    return readdirSync(RUN_DIR).sort()
  } catch {
    return []
  }
}

const processFile = (names: LabNames, host: string) => path.join(names.runDir, 'processes', `${host}.json`)

/** The daemon of a host: a node's agent, a pod's echo service. One file each, so that commands do not disturb each other. */
export function readProcess(names: LabNames, host: string): ProcessId | undefined {
  return readJson<ProcessId>(processFile(names, host))
}

export function writeProcess(names: LabNames, host: string, id: ProcessId): void {
  writeJson(processFile(names, host), id)
}

export function forgetProcess(names: LabNames, host: string): void {
  rmSync(processFile(names, host), { force: true })
}

/** Every recorded daemon, running or not. */
export function readProcesses(names: LabNames): ProcessId[] {
  try {
    return readdirSync(path.join(names.runDir, 'processes')).flatMap(
      file => readProcess(names, path.basename(file, '.json')) ?? [],
    )
  } catch {
    return []
  }
}

function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

function writeJson(file: string, value: unknown): void {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, `${JSON.stringify(value)}\n`)
  renameSync(`${file}.new`, file)
}
