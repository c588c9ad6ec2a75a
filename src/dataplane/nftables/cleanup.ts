import { type RunTool, runTool } from '../rules/run-tool.js'

/** Name of the tables of an agent. */
export const NFTABLES_TABLE = 'waggle'

/** Removes the tables; with `dryRun` it only looks. Resolves with their names. @throws ToolError */
export async function cleanupNftables(name: string, dryRun: boolean, run: RunTool = runTool): Promise<string[]> {
  const tables = (await run('nft', ['list', 'tables'])).split('\n')
  const ours = [`ip ${name}`, `ip6 ${name}`].filter(table => tables.includes(`table ${table}`))
  if (!dryRun && ours.length > 0) await run('nft', ['-f', '-'], ours.map(table => `delete table ${table}\n`).join(''))
  return ours.map(table => `table ${table}`)
}
