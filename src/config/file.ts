import { isMap, isScalar, LineCounter, parseAllDocuments, type YAMLMap } from 'yaml'
import type { Mistake } from './config.js'
import { KUBE_PROXY_FIELDS } from './kube-proxy-fields.js'
import { didYouMean } from './names.js'

/** A key of the configuration file with its value as YAML made it. */
export interface FileEntry {
  /** `syncPeriod`; in kube-proxy's document the whole path, `iptables.syncPeriod`. */
  readonly key: string
  readonly value: unknown
  /** `/etc/waggle.yaml:3` */
  readonly where: string
}

/** What a configuration file holds. */
export interface ConfigFile {
  /** Of waggle's own document. */
  readonly entries: readonly FileEntry[]
  /** Of the document of kind KubeProxyConfiguration; undefined = there is none. */
  readonly kubeProxy: readonly FileEntry[] | undefined
  readonly mistakes: readonly Mistake[]
}

const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1'
const KIND = 'KubeProxyConfiguration'
const PATHS = KUBE_PROXY_FIELDS.flatMap(field => field.path ?? [])

/**
 * Reads a configuration file: one YAML mapping of waggle's names to values, a
 * KubeProxyConfiguration, or both as two documents, in any order. kube-proxy reads the
 * first document of a YAML file alone (1.36), so it and waggle can share one.
 */
export function parseConfigFile(path: string, text: string): ConfigFile {
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false })
  const at = (offset: number) => `${path}:${lines.linePos(offset).line}`
  const mistakes: Mistake[] = []
  let own: readonly FileEntry[] | undefined
  let kubeProxy: readonly FileEntry[] | undefined
  for (const document of Array.isArray(documents) ? documents : []) {
    if (document.errors.length > 0) {
      mistakes.push(...document.errors.map(error => ({ where: at(error.pos[0]), problem: error.message })))
      continue
    }
    const root = document.contents
    if (root === null || (isScalar(root) && root.value === null)) continue
    const start = root.range?.[0] ?? 0
    const where = documents.length === 1 ? path : at(start)
    if (!isMap(root)) mistakes.push({ where, problem: 'must be a YAML mapping of names to values' })
    else if (root.has('kind') || root.has('apiVersion')) {
      if (kubeProxy !== undefined) mistakes.push({ where, problem: `is a second ${KIND}`, remedy: 'leave one' })
      kubeProxy = kubeProxyEntries(root, at, mistakes)
    } else {
      if (own !== undefined) {
        mistakes.push({ where, problem: 'is a second document of waggle settings', remedy: 'put them into one' })
      }
      own = entriesOf(root, at)
    }
  }
  return { entries: own ?? [], kubeProxy, mistakes }
}

function entriesOf(map: YAMLMap, at: (offset: number) => string): FileEntry[] {
  return map.items.map(({ key, value }) => ({
    key: isScalar(key) ? String(key.value) : String(key),
    value: plain(value),
    where: at(isScalar(key) ? (key.range?.[0] ?? 0) : (map.range?.[0] ?? 0)),
  }))
}

/** The fields that are set, by their path; unknown ones become mistakes, as in kube-proxy. */
function kubeProxyEntries(root: YAMLMap, at: (offset: number) => string, mistakes: Mistake[]): FileEntry[] {
  const fields: FileEntry[] = []
  const walk = (map: YAMLMap, prefix: string) => {
    const entries = entriesOf(map, at)
    for (const [i, entry] of entries.entries()) {
      const key = `${prefix}${entry.key}`
      const where = `${entry.where} ${key}`
      const inner = map.items[i]?.value
      if (prefix === '' && (key === 'apiVersion' || key === 'kind')) {
        const wanted = key === 'kind' ? KIND : API_VERSION
        if (entry.value !== wanted) {
          mistakes.push({ where, problem: `${JSON.stringify(entry.value)} must be ${wanted}` })
        }
      } else if (PATHS.includes(key)) fields.push({ ...entry, key })
      else if (PATHS.some(path => path.startsWith(`${key}.`))) {
        if (isMap(inner)) walk(inner, `${key}.`)
        else if (entry.value !== null) mistakes.push({ where, problem: 'must be a mapping' })
      } else mistakes.push({ where, problem: `is no field of ${KIND}`, ...remedy(key) })
    }
  }
  walk(root, '')
  for (const name of ['apiVersion', 'kind']) {
    if (!root.has(name)) {
      const wanted = name === 'kind' ? KIND : API_VERSION
      mistakes.push({
        where: at(root.range?.[0] ?? 0),
        problem: `${name} is missing`,
        remedy: `write ${name}: ${wanted}`,
      })
    }
  }
  return fields
}

function remedy(key: string): { remedy?: string } {
  const near = didYouMean(key, PATHS)
  return near === undefined ? {} : { remedy: near }
}

/** A YAML node's plain JavaScript value. */
function plain(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function') {
    return value.toJSON()
  }
  return value ?? null
}
