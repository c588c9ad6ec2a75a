import { describe, expect, test } from 'vitest'
import { inNetns } from './oracle/in-netns.js'
import { CANNOT_RUN, titled } from './parts.js'

/** A new one for each run; `SEED=…` repeats one. */
const SEED = process.env.SEED || String(Date.now() % 1_000_000)
const SERVICES = '200'
const TIMEOUT_MS = 600_000

describe.skipIf(CANNOT_RUN)(titled('--dataplane iptables against the real kube-proxy'), () => {
  test(`the rules of ${SERVICES} random Services are the same, SEED=${SEED}`, { timeout: TIMEOUT_MS }, async () => {
    const { code, output } = await inNetns('rules-main.ts', { SEED, N: SERVICES })
    console.log(output.trimEnd())
    expect(output).not.toContain('Error')
    expect(code).toBe(0)
    // What both sides have apart from Services is some twenty rules in each state.
    expect(Number(/^(\d+) rules/m.exec(output)?.[1])).toBeGreaterThan(600)
  })
})
