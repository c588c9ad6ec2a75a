import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { service } from './manifests.js'
import { CANNOT_RUN, type LoadFlags, TestLab, titled } from './test-lab.js'

/** UDP has no end of a connection: when a backend goes, whoever talks to it must be led to another. */

const objects = (pods: readonly string[]) =>
  service({ name: 'udp', ip: 10, ports: [{ protocol: 'UDP', port: 80, nodePort: 30080 }], pods })
const gone = 'pod-b1'
const stays = 'pod-a2'

describe.skipIf(CANNOT_RUN)(titled('a UDP backend that is removed'), () => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: objects([gone]) })
  })
  beforeEach(() => lab.apply(objects([gone])))
  afterAll(() => lab?.down())

  /** Talks from one socket, or from one at a time, across the removal; the old backend goes on answering. */
  async function acrossRemoval(host: string, target: string, flags: LoadFlags) {
    const load = lab.startLoad(host, target, { concurrency: 1, interval: 5, timeout: 500, ...flags })
    await load.answered
    await sleep(300)
    await lab.apply(objects([stays]))
    await sleep(1500)
    const result = await load.stop()
    expect(Object.keys(result.backends)).toEqual([stays, gone])
    return result
  }

  const clusterIPs = ['10.96.0.10:80', '[2001:db8:96::10]:80']
  const nodePorts = ['192.168.0.11:30080', '[2001:db8:192::11]:30080']

  test.each(clusterIPs)('row 41: a connected socket gets EPERM once, the next one a live backend: %s', async target => {
    const { errors, failed } = await acrossRemoval('pod-a1', target, { mode: 'udp-keep' })
    expect({ errors, failed }).toEqual({ errors: { EPERM: 1 }, failed: 1 })
  })

  test.each(clusterIPs)('row 41: an unconnected socket sends its next datagram to a live one: %s', async target => {
    expect((await acrossRemoval('pod-a1', target, { mode: 'udp-sendto' })).errors).toEqual({})
  })

  test.each(clusterIPs)('new sockets never notice: %s', async target => {
    expect((await acrossRemoval('pod-a1', target, { mode: 'udp' })).errors).toEqual({})
  })

  test.each(nodePorts)("row 41: an outside client's next datagram reaches a live one: %s", async target => {
    // A datagram may be on its way to the old backend when its flow ends.
    expect((await acrossRemoval('client', target, { mode: 'udp-keep' })).failed).toBeLessThanOrEqual(1)
  })
})
