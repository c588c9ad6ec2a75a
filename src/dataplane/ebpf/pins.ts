import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../base/errors.js'

/** The folders below the pin directory, by what is pinned in them. */
export type PinKind = 'maps' | 'programs' | 'links'
const KINDS: readonly PinKind[] = ['links', 'programs', 'maps']

/**
 * Our names in the bpffs. What is pinned here outlives the process, and is ours; what is
 * not pinned here is never touched.
 */
export class Pins {
  readonly dir: string

  constructor(dir: string) {
    this.dir = dir
  }

  path(kind: PinKind, name: string): string {
    return join(this.dir, kind, name)
  }

  exists(kind: PinKind, name: string): boolean {
    return existsSync(this.path(kind, name))
  }

  /** Names of one kind; empty when the folder is missing. */
  list(kind: PinKind): string[] {
    try {
      return readdirSync(join(this.dir, kind)).filter(name => !name.endsWith(NEW))
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return []
      throw error
    }
  }

  makeFolders(): void {
    for (const kind of KINDS) mkdirSync(join(this.dir, kind), { recursive: true, mode: 0o700 })
  }

  /** Pins under `name`, over whatever had it, without a moment in between where nothing does. */
  replace(kind: PinKind, name: string, object: { pin(path: string): void }): void {
    const temporary = this.path(kind, name + NEW)
    this.#unlink(temporary)
    object.pin(temporary)
    renameSync(temporary, this.path(kind, name))
  }

  remove(kind: PinKind, name: string): void {
    this.#unlink(this.path(kind, name))
  }

  /** Removes the empty folders; others stay. */
  removeFolders(): void {
    for (const dir of [...KINDS.map(kind => join(this.dir, kind)), this.dir]) {
      try {
        rmdirSync(dir)
      } catch (error) {
        const code = codeOf(error)
        if (code !== 'ENOENT' && code !== 'ENOTEMPTY') throw error
      }
    }
  }

  /** Also what a crash left between pin and rename. */
  removeLeftovers(): void {
    for (const kind of KINDS) {
      const dir = join(this.dir, kind)
      if (!existsSync(dir)) continue
      for (const name of readdirSync(dir)) if (name.endsWith(NEW)) this.#unlink(join(dir, name))
    }
  }

  #unlink(path: string): void {
    try {
      unlinkSync(path)
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }
}

/** Suffix of a pin that is about to be renamed into place; the bpffs refuses dots in names. */
const NEW = '__new'
