import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { ROOT } from './parts.js'

/** The parts of a container of deploy/daemonset.yaml that a runtime needs to start it. */
export interface ContainerSpec {
  readonly image: string
  readonly args: readonly string[]
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[]
  readonly securityContext: {
    readonly capabilities: { readonly drop: readonly string[]; readonly add: readonly string[] }
  }
  readonly startupProbe: Probe
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
}

export interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number }
}

/** An API object of deploy/. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into all of them.
export type Manifest = any

/** Every object that `kubectl apply -k deploy/` makes. */
export function deployed(): Manifest[] {
  const read = (name: string) => readFileSync(path.join(ROOT, 'deploy', name), 'utf8')
  const { resources } = parse(read('kustomization.yaml')) as { resources: string[] }
  return resources.flatMap(name => parseAllDocuments(read(name)).map(document => document.toJS()))
}

/** The one of a kind. */
export function deployedOne(kind: string): Manifest {
  const found = deployed().filter(object => object.kind === kind)
  if (found.length !== 1) throw new Error(`deploy/ has ${found.length} objects of kind ${kind}`)
  return found[0]
}

export function agentContainer(): ContainerSpec {
  return deployedOne('DaemonSet').spec.template.spec.containers[0]
}
