import { type Dirent, promises as fs } from 'node:fs'
import { join } from 'node:path'

/** A manifest file as the file system shows it. */
export interface FoundFile {
  /** Relative to the root, with slashes. */
  readonly name: string
  readonly path: string
  /** Changes whenever the file may have: device, inode, size, times. */
  readonly signature: string
  /** Last modification, milliseconds since the epoch. */
  readonly modifiedMs: number
}

export interface Found {
  readonly files: ReadonlyMap<string, FoundFile>
  /** Every folder that was read, by relative name, with its inode: what to watch. */
  readonly folders: ReadonlyMap<string, { readonly path: string; readonly inode: string }>
  /** Folders that could not be read, by relative name: what was in them stays. */
  readonly unreadable: ReadonlyMap<string, NodeJS.ErrnoException>
}

/** Deeper folders are a loop of symbolic links. */
const MAX_DEPTH = 16

/**
 * Manifests below `root`: .yaml, .yml and .json, in sub folders, too; hidden files and
 * folders are skipped (so a mounted ConfigMap's `..data` is read through its links only).
 */
export async function walk(root: string): Promise<Found> {
  const files = new Map<string, FoundFile>()
  const folders = new Map<string, { path: string; inode: string }>()
  const unreadable = new Map<string, NodeJS.ErrnoException>()

  const visit = async (name: string, depth: number): Promise<void> => {
    const path = name === '' ? root : join(root, name)
    let entries: Dirent[]
    try {
      const { dev, ino } = await fs.stat(path, { bigint: true })
      entries = await fs.readdir(path, { withFileTypes: true })
      folders.set(name, { path, inode: `${dev}:${ino}` })
    } catch (error) {
      // A sub folder that has just been removed is no mistake; the root is.
      if (name === '' || (error as NodeJS.ErrnoException).code !== 'ENOENT') {
        unreadable.set(name, error as NodeJS.ErrnoException)
      }
      return
    }
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue
      const child = name === '' ? entry.name : `${name}/${entry.name}`
      const found = await look(join(root, child), child)
      if (found === 'folder') {
        if (depth < MAX_DEPTH) await visit(child, depth + 1)
      } else if (found !== undefined) files.set(child, found)
    }
  }
  await visit('', 0)
  return { files, folders, unreadable }
}

/** A folder, a manifest, or neither (another kind of file, or one that has just gone). */
export async function look(path: string, name: string): Promise<FoundFile | 'folder' | undefined> {
  try {
    const stat = await fs.stat(path, { bigint: true })
    if (stat.isDirectory()) return 'folder'
    if (!stat.isFile() || !/\.(ya?ml|json)$/.test(name)) return undefined
    const { dev, ino, size, mtimeNs, ctimeNs, mtimeMs } = stat
    return { name, path, signature: [dev, ino, size, mtimeNs, ctimeNs].join(':'), modifiedMs: Number(mtimeMs) }
  } catch {
    return undefined
  }
}
