import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import type { LogFields } from '../../src/base/log.js'
import { silentLogger } from '../../src/base/log.js'
import { CLSACT_HANDLE, CLSACT_PRIORITY } from '../../src/dataplane/ebpf/device-links.js'
import { EbpfDataplane } from '../../src/dataplane/ebpf/ebpf-dataplane.js'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { findCgroup2 } from '../../src/host/proc-net.js'
import { describeSockets } from './sock-rig.js'

/** What housekeeping does about clsact filters that somebody removed, on a device of its own. */

const NAME = `waggle-restore-${process.pid}`
const NETNS = `/run/netns/${NAME}`
/** A filter of somebody else. */
const FOREIGN = { priority: 77, handle: 1 }

describeSockets('housekeeping puts back clsact filters', () => {
  const native = loadNative()
  const cgroup = join(findCgroup2(readFileSync('/proc/self/mounts', 'utf8')) ?? '', NAME)
  const bpffs = `/run/${NAME}`
  let lines: string[] = []
  let dataplane: EbpfDataplane
  let ifindex = 0

  beforeAll(async () => {
    mkdirSync(cgroup)
    mkdirSync(bpffs)
    execFileSync('ip', ['netns', 'add', NAME])
    execFileSync('ip', ['-n', NAME, 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'peer0'])
    const log = (message: string, { program, device }: LogFields = {}) => lines.push(`${message}: ${program} ${device}`)
    dataplane = new EbpfDataplane({
      native,
      objectsDir: join(import.meta.dirname, '../../build/bpf'),
      pinDir: join(bpffs, 'waggle'),
      bpffs,
      cgroup,
      limits: { services: 64, frontends: 64, backends: 64, slots: 1024, flows: 1024, sourceRanges: 64 },
      timeouts: {
        tcpEstablishedSeconds: 7440,
        tcpTransitorySeconds: 240,
        tcpClosedSeconds: 10,
        udpSeconds: 120,
        udpStreamSeconds: 300,
      },
      logger: { ...silentLogger, error: log, warn: log },
      clock: systemClock,
      clsact: true,
    })
    await dataplane.start()
    native.inNetns(NETNS, () => {
      ifindex = native.ifNameToIndex('up0')
      dataplane.setDevices([{ name: 'up0', ifindex }])
      const foreign = native.openProgram(join(bpffs, 'waggle/programs/waggle_out_l3'))
      native.attachClsact(foreign, ifindex, 'ingress', FOREIGN.priority, FOREIGN.handle)
      foreign.close()
    })
  })
  beforeEach(() => {
    lines = []
  })
  afterAll(async () => {
    await dataplane?.cleanup()
    execFileSync('ip', ['netns', 'del', NAME])
    execFileSync('umount', [bpffs])
    rmdirSync(bpffs)
    rmdirSync(cgroup)
  })

  async function housekeep(): Promise<readonly string[]> {
    let restored: Promise<readonly string[]> = Promise.resolve([])
    native.inNetns(NETNS, () => {
      restored = dataplane.housekeep()
    })
    return restored
  }
  const at = (direction: 'ingress' | 'egress', priority = CLSACT_PRIORITY, handle = CLSACT_HANDLE) =>
    native.inNetns(NETNS, () => native.queryClsact(ifindex, direction, priority, handle)?.programId)
  const tc = (...words: string[]) => execFileSync('tc', ['-n', NAME, ...words], { stdio: ['ignore', 'ignore', 'pipe'] })
  const ofOurs = ['pref', String(CLSACT_PRIORITY)]
  const again = (program: string) => `program was detached by somebody else, attaching it again: ${program} up0`

  test('the programs rely on the filter once the devices are served', async () => {
    const handle = native.openMap(join(bpffs, 'waggle/maps', maps.filter.name))
    const memory = new DataView(handle.mmap())
    handle.close()
    const { current } = maps.filter.value.offsets
    await expect.poll(() => memory.getBigUint64(current, true), { timeout: 5000 }).toBe(1n)
  })

  test('nothing is lost: nothing is done', async () => {
    expect(await housekeep()).toEqual([])
    expect(lines).toEqual([])
  })

  test('one filter was removed; that of somebody else stays', async () => {
    const [ours, foreign] = [at('ingress'), at('ingress', FOREIGN.priority, FOREIGN.handle)]
    tc('filter', 'del', 'dev', 'up0', 'ingress', ...ofOurs)
    expect(at('ingress')).toBeUndefined()
    expect(await housekeep()).toEqual(['waggle_ingress'])
    expect(at('ingress')).toBe(ours)
    expect(at('ingress', FOREIGN.priority, FOREIGN.handle)).toBe(foreign)
    expect(lines).toEqual([again('waggle_ingress')])
  })

  test('somebody else took the place: said once, and his filter stays', async () => {
    const ours = at('egress')
    tc('filter', 'del', 'dev', 'up0', 'egress', ...ofOurs)
    const other = native.openProgram(join(bpffs, 'waggle/programs/waggle_in_l3'))
    native.inNetns(NETNS, () => native.attachClsact(other, ifindex, 'egress', CLSACT_PRIORITY, CLSACT_HANDLE))
    for (let i = 0; i < 3; i++) expect(await housekeep()).toEqual([])
    expect(at('egress')).toBe(other.info.id)
    other.close()
    expect(lines).toEqual([again('waggle_egress'), 'cannot attach a program: waggle_egress up0'])
    tc('filter', 'del', 'dev', 'up0', 'egress', ...ofOurs)
    expect(await housekeep()).toEqual(['waggle_egress'])
    expect(at('egress')).toBe(ours)
    expect(lines).toHaveLength(2)
  })

  test('the whole qdisc was removed', async () => {
    const ours = [at('ingress'), at('egress')]
    tc('qdisc', 'del', 'dev', 'up0', 'clsact')
    expect(await housekeep()).toEqual(['waggle_ingress', 'waggle_egress'])
    expect([at('ingress'), at('egress')]).toEqual(ours)
  })
})
