import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** A Service whose backends change a thousand times while clients connect all the time. */

const CHANGES = 1000
/** pod-b2 is in none of them: a connection to it went to a stranger. */
const LISTS = [
  ['pod-a1'],
  ['pod-a1', 'pod-b1'],
  ['pod-b1'],
  ['pod-a2', 'pod-b1'],
  ['pod-a1', 'pod-a2', 'pod-b1'],
  ['pod-a2'],
]
const NEVER = 'pod-b2'

/** The Service under change, and one beside it that must not notice. */
const objects = (pods: readonly string[]) => [
  ...service({
    name: 'changing',
    ip: 10,
    ports: [
      { name: 'tcp', port: 80, nodePort: 30080 },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30080 },
    ],
    pods,
  }),
  ...service({ name: 'steady', ip: 11, ports: [{ port: 80 }], pods: [NEVER] }),
]

describe.skipIf(CANNOT_RUN)(titled(`${CHANGES} changes of a Service's backends`), () => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: objects(LISTS[0] as string[]), agentFlags: ['--min-sync-period', '0s'] })
  })
  afterAll(() => lab?.down())

  test('no connect fails, none reaches a stranger', { timeout: 300_000 }, async () => {
    const loads = {
      'TCP from a pod': lab.startLoad('pod-a1', '10.96.0.10:80', { concurrency: 2 }),
      'TCP over IPv6 from a node': lab.startLoad('node-b', '[2001:db8:96::10]:80', { concurrency: 1, interval: 1 }),
      'UDP from a pod': lab.startLoad('pod-b1', '10.96.0.10:80', { mode: 'udp', concurrency: 1, interval: 1 }),
      'TCP from outside': lab.startLoad('client', '192.168.0.11:30080', { concurrency: 1, interval: 1 }),
      'UDP from outside': lab.startLoad('client', '192.168.0.11:30080', { mode: 'udp', concurrency: 1, interval: 1 }),
    }
    const steady = lab.startLoad('pod-a2', '10.96.0.11:80', { concurrency: 1, interval: 1 })

    await Promise.all([steady, ...Object.values(loads)].map(load => load.answered))

    const before = lab.applied('node-a').length
    for (let change = 1; change <= CHANGES; change++) await lab.apply(objects(LISTS[change % LISTS.length] as string[]))
    expect(lab.applied('node-a').length - before).toBeGreaterThanOrEqual(CHANGES)

    for (const [name, load] of Object.entries(loads)) {
      const { ok, errors, backends } = await load.stop()
      expect({ name, errors }).toEqual({ name, errors: {} })
      expect(ok).toBeGreaterThan(CHANGES)
      expect(Object.keys(backends)).toEqual(['pod-a1', 'pod-a2', 'pod-b1'])
    }
    expect(await steady.stop()).toMatchObject({ errors: {}, backends: { [NEVER]: expect.any(Number) } })
  })

  test('afterwards the kernel holds the last list and nothing more', async () => {
    const last = LISTS[CHANGES % LISTS.length] as string[]
    const { backends } = await lab.load('pod-b2', '10.96.0.10:80', { count: 300 })
    expect(Object.keys(backends)).toEqual(last)
  })
})
