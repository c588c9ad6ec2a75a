import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { DECISIONS } from './oracle/compare.js'
import { CANNOT_RUN, ROOT, titled } from './parts.js'

/** A new one for each run; `SEED=…` repeats one. */
const SEED = process.env.SEED || String(Date.now() % 1_000_000)
const HISTORIES = process.env.N || '2000'
const TIMEOUT_MS = 1_800_000
/** Of run.ts; with few histories some have nothing to show themselves by. */
const MISTAKES = [
  'node',
  'terminating',
  'serving',
  'hints',
  'internal policy',
  'external policy',
  'affinity',
  'source ranges',
]

describe.skipIf(CANNOT_RUN)(titled('the plan against the real kube-proxy'), () => {
  test(`${HISTORIES} random histories of Services, EndpointSlices and a Node, SEED=${SEED}`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { code, output } = await inNetns({ SEED, N: HISTORIES })
    console.log(output.trimEnd())
    expect(output).not.toContain('Error')
    expect(code).toBe(0)
    const noticed = /mistakes noticed: (.*)/.exec(output)?.[1]?.split(', ') ?? []
    if (Number(HISTORIES) >= 500) expect(noticed.sort()).toEqual(MISTAKES.toSorted())
  })
})

test.each(Object.values(DECISIONS))('docs/semantics.md names the decision: %s', text => {
  const page = readFileSync(path.join(ROOT, 'docs/semantics.md'), 'utf8')
  const differences = page.slice(page.indexOf('## Differences from kube-proxy'), page.indexOf('## Not there yet'))
  expect(differences).toContain(`| ${text} |`)
})

/** Runs the comparison in a network namespace that is gone with its last process. */
async function inNetns(env: Readonly<Record<string, string>>): Promise<{ code: number | null; output: string }> {
  const loader = path.join(ROOT, 'node_modules/tsx/dist/loader.mjs')
  const main = path.join(ROOT, 'test/cluster/oracle/main.ts')
  const child = spawn('unshare', ['--net', process.execPath, '--import', `file://${loader}`, main], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
  const code = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  return { code, output }
}
