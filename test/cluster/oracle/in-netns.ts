import { spawn } from 'node:child_process'
import path from 'node:path'
import { ROOT } from '../parts.js'

/** Runs a program of this folder in a network namespace that is gone with its last process. */
export async function inNetns(
  program: string,
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; output: string }> {
  const loader = path.join(ROOT, 'node_modules/tsx/dist/loader.mjs')
  const main = path.join(ROOT, 'test/cluster/oracle', program)
  const child = spawn('unshare', ['--net', process.execPath, '--import', `file://${loader}`, main], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
  const code = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  return { code, output }
}
