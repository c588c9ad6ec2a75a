import type { Config } from '../config/config.js'
import type { LocalMatch } from '../dataplane/rules/local-match.js'

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

function localSetting(config: Config): LocalMatch | undefined {
  const { detectLocalMode, podBridgeInterface: bridge, podInterfaceNamePrefix: prefix } = config
  if (detectLocalMode === 'BridgeInterface' && bridge !== undefined) return { device: bridge }
  // The rules' sign for any ending.
  if (detectLocalMode === 'InterfaceNamePrefix' && prefix !== undefined) return { device: `${prefix}+` }
  return undefined
}
