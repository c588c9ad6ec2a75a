import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkout: this file runs from build/ when bundled and from tools/labkit/ in tests. */
export const ROOT = findRoot(path.dirname(fileURLToPath(import.meta.url)))

function findRoot(dir: string): string {
  if (existsSync(path.join(dir, 'bin/waggle'))) return dir
  const parent = path.dirname(dir)
  if (parent === dir) throw new Error('the lab runs from a checkout of waggle; bin/waggle was not found above it')
  return findRoot(parent)
}

/** Absolute path of a file of the checkout. */
export const inRoot = (...parts: string[]): string => path.join(ROOT, ...parts)
