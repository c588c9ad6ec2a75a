import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Where the BPF objects are: beside the bundle that runs, or in build/ of the source tree. */
export function objectsDir(runningFile: string): string {
  const here = dirname(runningFile)
  const beside = join(here, 'bpf')
  return existsSync(beside) ? beside : join(here, '../../build/bpf')
}
