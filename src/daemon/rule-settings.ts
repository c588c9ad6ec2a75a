import type { Config } from '../config/config.js'
import type { Cidr } from '../model/cidr.js'

/** How rules tell a pod of this cluster from others when not by the pod networks of the plan. */
export type LocalSetting = { readonly from: Cidr } | { readonly device: string }

/** What dataplanes made of rules take from the settings. */
export function ruleSettings(config: Config) {
  const local = localSetting(config)
  return {
    masqueradeAll: config.masqueradeAll,
    anyNodeAddress: config.nodePortAddresses.includes('all'),
    localhostNodePorts: config.localhostNodePorts,
    ...(local && { local }),
  }
}

function localSetting(config: Config): LocalSetting | undefined {
  const { detectLocalMode, podBridgeInterface: bridge, podInterfaceNamePrefix: prefix } = config
  if (detectLocalMode === 'BridgeInterface' && bridge !== undefined) return { device: bridge }
  // The rules' sign for any ending.
  if (detectLocalMode === 'InterfaceNamePrefix' && prefix !== undefined) return { device: `${prefix}+` }
  return undefined
}
