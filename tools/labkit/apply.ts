import { applyToApiServer } from './kube.js'
import type { Lab } from './lab.js'
import { readManifests, syncManifests } from './manifests.js'

/** Makes the lab's nodes and the manifests of `dir`, and no others, the ones that the agents see. */
export async function apply(lab: Lab, dir: string): Promise<{ written: number; removed: number }> {
  const before = readManifests(lab.names.manifests)
  const done = syncManifests(lab.names, lab.plan.nodes, dir)
  if (lab.state.source === 'kube') await applyToApiServer(lab, before)
  return done
}
