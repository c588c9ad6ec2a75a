import type { Lab } from './lab.js'
import { syncManifests } from './manifests.js'

/** Makes the manifests of `dir`, and no others, the ones that the agents see. */
export async function apply(lab: Lab, dir: string): Promise<{ written: number; removed: number }> {
  return syncManifests(lab.names, lab.plan.nodes, dir)
}
