import { existsSync } from 'node:fs'
import { cgroupRoot } from './machine.js'
import { inRoot } from './root.js'

/** What this machine lacks for a lab, each with what to do about it; empty = nothing. */
export function missing(): string[] {
  const problems: string[] = []
  if (process.getuid?.() !== 0) problems.push('root: network namespaces and cgroups need it; run with sudo')
  if (!cgroupRoot()) {
    problems.push(
      'cgroup v2: mount it with: mkdir -p /sys/fs/cgroup/unified; mount -t cgroup2 none /sys/fs/cgroup/unified',
    )
  }
  for (const [file, use] of [
    ['build/lab.mjs', 'the lab'],
    ['build/echo.mjs', 'the echo service'],
  ] as const) {
    if (!existsSync(inRoot(file))) problems.push(`${file} (${use}): run: make build`)
  }
  return problems
}
