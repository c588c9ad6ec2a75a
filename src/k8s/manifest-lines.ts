import { type Document, isAlias, isMap, isNode, isScalar, isSeq, type LineCounter } from 'yaml'
import type { Path } from './convert-report.js'

/**
 * Line (1-based) of the field at `path` in a parsed document, or of the nearest ancestor
 * that is there: a missing field is reported where it belongs.
 */
export function lineOf(doc: Document, path: Path, lines: LineCounter): number {
  let node: unknown = doc.contents
  let offset = startOf(node) ?? 0
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(doc)
    if (isMap(node)) {
      const pair = node.items.find(item => isScalar(item.key) && item.key.value === step)
      if (pair === undefined) break
      offset = startOf(pair.key) ?? offset
      node = pair.value
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step]
      if (node === undefined) break
      offset = startOf(node) ?? offset
    } else break
  }
  return lines.linePos(offset).line
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined
}
