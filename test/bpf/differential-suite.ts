import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DifferentialNode, type Settings } from './differential-node.js'
import { runDifferential } from './differential-run.js'
import { FLOW_TABLES, missing } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** A new one for each run; `SEED=…` repeats one. */
const SEED = Number(process.env.SEED || Date.now() % 1_000_000)
/** Of each of the two files. */
const PACKETS = Number(process.env.N || 500_000)

/** The suite of one file: two of them run side by side. */
export function differential(name: string, settings: Settings): void {
  describe.skipIf(lacking).each(FLOW_TABLES)(`programs against reference, ${name}, flows in the %s table`, kind => {
    let node: DifferentialNode
    // The one that is not the default's shares all but the table.
    const packets = kind === 'hash' ? PACKETS : Math.ceil(PACKETS / 2)

    beforeAll(() => {
      node = new DifferentialNode(settings, kind)
    })
    afterAll(() => node.close())

    test(`row 46: ${packets} random packets over IPv4 and IPv6, SEED=${SEED}`, () => {
      const start = process.hrtime.bigint()
      runDifferential(node, SEED, packets)
      const seconds = Number(process.hrtime.bigint() - start) / 1e9
      const outcomes = [...node.outcomes].sort().map(([outcome, count]) => `${outcome} ${count}`)
      const speed = Math.round(node.packets / seconds)
      console.log(
        `${node.packets} packets, ${speed} a second, ${node.undecided} episodes cut short: ${outcomes.join(', ')}`,
      )
      expect(node.packets).toBeGreaterThanOrEqual(packets)
    }, 3_600_000)
  })
}
