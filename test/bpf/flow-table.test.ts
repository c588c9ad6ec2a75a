import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { EbpfDataplane } from '../../src/dataplane/ebpf/ebpf-dataplane.js'
import type { FlowTableKind } from '../../src/dataplane/ebpf/flow-table.js'
import { chooseFlowTable } from '../../src/dataplane/ebpf/flow-table-choice.js'
import { MOST_FLAT_FLOWS } from '../../src/dataplane/ebpf/flow-table-flat.js'
import { Pins } from '../../src/dataplane/ebpf/pins.js'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { findCgroup2 } from '../../src/host/proc-net.js'
import { describeSockets } from './sock-rig.js'

/** Which flow table a dataplane makes, and what a later one does with it. */

const NAME = `waggle-flow-table-${process.pid}`
const OBJECTS = join(import.meta.dirname, '../../build/bpf')
const LIMITS = { services: 64, frontends: 64, backends: 64, slots: 1024, flows: 1000, sourceRanges: 64 }

describeSockets('the flow table', () => {
  const native = loadNative()
  const cgroup = join(findCgroup2(readFileSync('/proc/self/mounts', 'utf8')) ?? '', NAME)
  const bpffs = `/run/${NAME}`
  const pinDir = join(bpffs, 'waggle')
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) }
  let warnings: string[] = []
  let last: EbpfDataplane | undefined

  beforeAll(() => {
    mkdirSync(cgroup)
    mkdirSync(bpffs)
  })
  beforeEach(() => {
    warnings = []
  })
  afterEach(async () => {
    await last?.cleanup()
    last = undefined
  })
  afterAll(() => {
    execFileSync('umount', [bpffs])
    rmdirSync(bpffs)
    rmdirSync(cgroup)
  })

  async function start(flowTable?: FlowTableKind): Promise<EbpfDataplane> {
    await last?.stop()
    last = new EbpfDataplane({
      native,
      objectsDir: OBJECTS,
      pinDir,
      bpffs,
      cgroup,
      limits: LIMITS,
      ...(flowTable && { flowTable }),
      timeouts: {
        tcpEstablishedSeconds: 7440,
        tcpTransitorySeconds: 240,
        tcpClosedSeconds: 10,
        udpSeconds: 120,
        udpStreamSeconds: 300,
      },
      logger,
      clock: systemClock,
    })
    await last.start()
    return last
  }

  /** Names of the pinned maps that only one of the tables has. */
  const pinned = () => new Pins(pinDir).list('maps').filter(name => /^(flows_|flow_slots|flat_)/.test(name))
  const rows = (dataplane: EbpfDataplane) =>
    dataplane
      .inspect()
      .maps.filter(({ name }) => /^(flows|flat)_/.test(name))
      .map(({ name, entries, maxEntries }) => ({ name, entries, maxEntries }))

  test('not said: the hash map', async () => {
    const dataplane = await start()
    expect(pinned()).toEqual(['flow_slots_v1', 'flows_v1'])
    expect(rows(dataplane)).toEqual([{ name: 'flows_v1', entries: 0, maxEntries: 2048 }])
  })

  test('asked for: the flat one; its maps are what is shown, and each family has as many flows', async () => {
    const dataplane = await start('flat')
    expect(pinned()).toEqual(['flat_hand_v1', 'flat_index_v1', 'flat_recs4_v1', 'flat_recs6_v1', 'flat_secret_v1'])
    expect(rows(dataplane)).toEqual([
      { name: 'flat_recs4_v1', entries: 0, maxEntries: 1024 },
      { name: 'flat_recs6_v1', entries: 0, maxEntries: 1024 },
    ])
    expect(dataplane.inspect().flows).toEqual([])
  })

  test.each<[FlowTableKind, FlowTableKind]>([
    ['flat', 'hash'],
    ['hash', 'flat'],
  ])(
    'a run after one with %s keeps it: flows are open; %s is told to wait, and comes after cleanup',
    async (first, then) => {
      await start(first)
      const before = pinned()
      const secret = () => native.openMap(join(pinDir, 'maps', maps.flatSecret.name)).lookup(new Uint8Array(4))
      const drawn = first === 'flat' ? secret() : undefined
      if (drawn) expect(drawn.some(byte => byte !== 0)).toBe(true)
      await start(first)
      expect(warnings).toEqual([])
      await start(then)
      expect(warnings).toEqual(['keeping the flow table of the pinned maps: open connections are in it'])
      expect(pinned()).toEqual(before)
      if (drawn) expect(secret()).toEqual(drawn)
      await last?.cleanup()
      warnings = []
      await start(then)
      expect(warnings).toEqual([])
      expect(pinned()).not.toEqual(before)
    },
  )

  test('more flows than a flat table may have', () => {
    const limits = { ...LIMITS, flows: MOST_FLAT_FLOWS + 1 }
    const choose = (wanted: FlowTableKind) => chooseFlowTable(new Pins(join(bpffs, 'none')), limits, wanted, logger)
    expect(choose('hash')).toBe('hash')
    expect(() => choose('flat')).toThrow(/2097153 flows: it has 2097152 at most.*--flow-table hash/s)
  })
})
