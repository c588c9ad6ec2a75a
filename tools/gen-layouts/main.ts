import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadNative } from '../../src/ebpf/load-native.js'
import { emit } from './emit.js'
import { extendLock, formatLock, lockOf, parseLock } from './lock.js'
import { LayoutError, readLayouts } from './model.js'

/**
 * Writes src/ebpf/generated/layouts.ts and bpf/layouts.lock from the BTF of
 * build/bpf/layout.bpf.o. With --check it writes nothing and ends with 1 when a file
 * would change. A pinned layout that changed under its name ends both with 1.
 */

const ROOT = join(import.meta.dirname, '../..')
const OBJECT = 'build/bpf/layout.bpf.o'
const CODECS = 'src/ebpf/generated/layouts.ts'
const LOCK = 'bpf/layouts.lock'

function read(path: string): string {
  try {
    return readFileSync(join(ROOT, path), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** The generated files by path. Throws {@link LayoutError}. */
function generate(): Map<string, string> {
  const layouts = readLayouts(loadNative().readBtf(join(ROOT, OBJECT)))
  const lock = extendLock(parseLock(read(LOCK)), lockOf(layouts))
  return new Map([
    [CODECS, emit(layouts)],
    [LOCK, formatLock(lock)],
  ])
}

function main(check: boolean): number {
  const changed = [...generate()].filter(([path, text]) => read(path) !== text)
  for (const [path, text] of changed) {
    if (check) console.error(`${path} is not what bpf/ says; run make gen and commit it`)
    else writeFileSync(join(ROOT, path), text)
  }
  if (!check) console.log(changed.length > 0 ? `wrote ${changed.map(([path]) => path).join(', ')}` : 'nothing changed')
  return check && changed.length > 0 ? 1 : 0
}

try {
  process.exitCode = main(process.argv.includes('--check'))
} catch (error) {
  if (!(error instanceof LayoutError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
