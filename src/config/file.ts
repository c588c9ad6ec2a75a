import { isMap, isScalar, LineCounter, parseDocument } from 'yaml'
import type { Mistake } from './config.js'

/** A key of the configuration file with its value as YAML made it. */
export interface FileEntry {
  readonly key: string
  readonly value: unknown
  /** `/etc/waggle.yaml:3` */
  readonly where: string
}

/** Reads a configuration file: one YAML mapping of names to values. */
export function parseConfigFile(
  path: string,
  text: string,
): { readonly entries: readonly FileEntry[]; readonly mistakes: readonly Mistake[] } {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const at = (offset: number) => `${path}:${lines.linePos(offset).line}`
  if (document.errors.length > 0) {
    return {
      entries: [],
      mistakes: document.errors.map(error => ({ where: at(error.pos[0]), problem: error.message })),
    }
  }
  const root = document.contents
  if (root === null) return { entries: [], mistakes: [] }
  if (!isMap(root)) {
    return { entries: [], mistakes: [{ where: path, problem: 'must be a YAML mapping of names to values' }] }
  }
  const entries = root.items.map(item => {
    const key = isScalar(item.key) ? String(item.key.value) : String(item.key)
    const offset = isScalar(item.key) ? (item.key.range?.[0] ?? 0) : (root.range?.[0] ?? 0)
    return { key, value: document.get(item.key), where: at(offset) }
  })
  return { entries: entries.map(entry => ({ ...entry, value: plain(entry.value) })), mistakes: [] }
}

/** A YAML node's plain JavaScript value. */
function plain(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function') {
    return value.toJSON()
  }
  return value
}
