import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { stringify } from 'yaml'
import type { NodeHost } from './address-plan.js'
import { LabError } from './lab.js'
import type { LabNames } from './names.js'

/** The lab's own manifest among the applied ones; no user file may have this name. */
const NODES_FILE = 'lab-nodes.yaml'

/** Objects of kind Node for the lab's nodes, as the API shows them. */
export function nodeObjects(nodes: readonly NodeHost[]): object[] {
  return nodes.map(node => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: node.name, labels: { 'kubernetes.io/hostname': node.name } },
    spec: { podCIDR: node.podCidr4, podCIDRs: [node.podCidr4, node.podCidr6] },
    status: {
      addresses: [
        { type: 'InternalIP', address: node.ipv4 },
        { type: 'InternalIP', address: node.ipv6 },
        { type: 'Hostname', address: node.name },
      ],
    },
  }))
}

/** Manifest files of a directory with their texts; throws a LabError when it cannot be read. */
export function readManifests(dir: string): Map<string, string> {
  try {
    const files = readdirSync(dir).filter(file => /\.(ya?ml|json)$/.test(file) && !file.startsWith('.'))
    return new Map(files.sort().map(file => [file, readFileSync(path.join(dir, file), 'utf8')]))
  } catch (cause) {
    throw new LabError(`cannot read manifests from ${dir}: ${(cause as Error).message}`, { cause })
  }
}

/**
 * Makes the directory that the agents watch hold the lab's nodes and exactly the files
 * of `dir`. Each file appears whole, by rename; an unchanged one is not touched.
 */
export function syncManifests(
  names: LabNames,
  nodes: readonly NodeHost[],
  dir: string,
): { written: number; removed: number } {
  const wanted = readManifests(dir)
  if (wanted.has(NODES_FILE)) throw new LabError(`${path.join(dir, NODES_FILE)}: the lab writes this file itself`)
  wanted.set(
    NODES_FILE,
    nodeObjects(nodes)
      .map(object => stringify(object))
      .join('---\n'),
  )

  const present = readManifests(names.manifests)
  const changed = [...wanted].filter(([file, text]) => present.get(file) !== text)
  for (const [file, text] of changed) {
    const staged = path.join(names.runDir, `${file}.new`)
    writeFileSync(staged, text)
    renameSync(staged, path.join(names.manifests, file))
  }
  const obsolete = [...present.keys()].filter(file => !wanted.has(file))
  for (const file of obsolete) rmSync(path.join(names.manifests, file))
  return { written: changed.length, removed: obsolete.length }
}
