import type { Config } from '../config/config.js'
import type { PlannerOptions } from '../plan/planner.js'

/** What the settings say to the planner; the same for an agent and for a look without one. */
export function plannerOptions(config: Config): PlannerOptions {
  return {
    nodeName: config.nodeName,
    nodePortAddresses: config.nodePortAddresses,
    defaultScheduler: config.scheduler,
    localhostNodePorts: config.localhostNodePorts,
    clusterCIDRs: config.detectLocalMode === 'ClusterCIDR' ? config.clusterCidr : undefined,
    externalIPCIDRs: config.externalIpCidrs,
  }
}
