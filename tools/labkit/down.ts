import { readdirSync, rmdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { cgroupRoot, mounts, removeCgroup, run, signal, waitGone } from './machine.js'
import { LabNames, RUN_DIR } from './names.js'
import { readProcesses } from './state.js'

/**
 * Removes everything that carries the lab's name: processes, BPF file systems,
 * namespaces with their devices, cgroups, files. Looks at the machine rather than at the
 * state file, so it works after a crash and after half an `up`; repeating it is harmless.
 */
export async function down(name: string): Promise<void> {
  const names = new LabNames(name)
  await killDaemons(names)
  const root = cgroupRoot()
  if (root) await removeCgroup(path.join(root, names.cgroup))

  const below = `${names.runDir}/`
  const ours = mounts().filter(mount => mount.target.startsWith(below))
  for (const { target } of ours.reverse()) await run('umount', [target])

  const namespaces = listDir('/run/netns').filter(file => file.startsWith(names.namespacePrefix))
  if (namespaces.length > 0) await run('ip', ['-batch', '-'], namespaces.map(ns => `netns delete ${ns}\n`).join(''))

  rmSync(names.runDir, { recursive: true, force: true })
  try {
    rmdirSync(RUN_DIR)
  } catch {
    // Another lab lives in it, or it is gone.
  }
}

/** Recorded daemons that may not have reached their cgroup yet; all others die with it. */
async function killDaemons(names: LabNames): Promise<void> {
  const running = readProcesses(names).filter(id => signal(id, 'SIGKILL'))
  await Promise.all(running.map(id => waitGone(id, 5000)))
}

function listDir(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch {
    return []
  }
}
