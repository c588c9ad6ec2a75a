import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseAllDocuments, stringify } from 'yaml'
import type { Lab } from './lab.js'
import { isAlive, type ProcessId, run } from './machine.js'
import { readManifests } from './manifests.js'
import { inRoot } from './root.js'

/** The lab's API server: a real one, run by tools/kube-api as processes of the host `api`. */

/** Starts etcd and the API server and waits until it is ready. */
export async function startApiServer(lab: Lab): Promise<void> {
  await run(inRoot('tools/kube-parts'), ['--check'])
  await kubeApi(lab, ['up', '--listen', lab.plan.api.ipv4])
}

/** The process of the API server; undefined when it does not run. */
export function apiServerProcess(lab: Lab): ProcessId | undefined {
  try {
    const state = JSON.parse(readFileSync(path.join(lab.names.apiDir, 'state.json'), 'utf8'))
    const id = state.processes.apiserver as ProcessId | undefined
    return isAlive(id) ? id : undefined
  } catch {
    return undefined
  }
}

/** Applies all manifests of the lab, and deletes the objects that were in `before` and are no more. */
export async function applyToApiServer(lab: Lab, before: ReadonlyMap<string, string>): Promise<void> {
  const wanted = objectsOf(readManifests(lab.names.manifests))
  const obsolete = [...objectsOf(before)].filter(([name]) => !wanted.has(name)).map(([, object]) => object)
  await kubeApi(lab, ['apply', lab.names.manifests])
  if (obsolete.length === 0) return
  const file = path.join(lab.names.runDir, 'obsolete.yaml')
  writeFileSync(file, obsolete.map(object => stringify(object)).join('---\n'))
  await kubeApi(lab, ['delete', file])
  rmSync(file)
}

async function kubeApi(lab: Lab, args: readonly string[]): Promise<void> {
  const [command, ...rest] = args
  const words = [inRoot('tools/kube-api'), command as string, '--dir', lab.names.apiDir, ...rest]
  const [program, entered] = lab.enter(lab.plan.api, words)
  await run(program, entered)
}

/** Objects of manifests by what names them in the API. */
function objectsOf(manifests: ReadonlyMap<string, string>): Map<string, object> {
  const documents = [...manifests.values()].flatMap(text => parseAllDocuments(text).map(document => document.toJS()))
  const objects = documents.flatMap(object => (object?.kind === 'List' ? object.items : object ? [object] : []))
  return new Map(
    objects.map(object => {
      const { namespace = 'default', name } = object.metadata ?? {}
      return [`${object.apiVersion}/${object.kind}/${namespace}/${name}`, object]
    }),
  )
}
