import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { DECISIONS } from './oracle/compare.js'
import { inNetns } from './oracle/in-netns.js'
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
    const { code, output } = await inNetns('main.ts', { SEED, N: HISTORIES })
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
