import { IPTABLES_VARIANTS } from '../../model/iptables.js'
import { type RunTool, runTool } from '../rules/run-tool.js'
import { removals } from './change.js'
import { readSave } from './save-text.js'
import { Iptables } from './tools.js'

/**
 * Removes every chain that the iptables dataplane or a kube-proxy in iptables mode makes,
 * and the rules that lead to them, in both variants and families; all else stays. With
 * `dryRun` it only looks. Resolves with what it removed.
 *
 * @throws ToolError when a table could not be written
 */
export async function cleanupIptables(dryRun: boolean, run: RunTool = runTool): Promise<string[]> {
  const removed: string[] = []
  for (const family of ['IPv4', 'IPv6'] as const) {
    for (const variant of IPTABLES_VARIANTS)
      removed.push(...(await cleanupVariant(new Iptables(family, variant, run), dryRun)))
  }
  return removed
}

async function cleanupVariant(iptables: Iptables, dryRun: boolean): Promise<string[]> {
  let saved: string
  try {
    saved = await iptables.save()
  } catch {
    // The host does not have this variant, so nobody wrote to it.
    return []
  }
  const { text, chains } = removals(readSave(saved))
  if (!dryRun && text !== '') await iptables.restore(text)
  return chains.map(chain => `${iptables.name} ${chain}`)
}
