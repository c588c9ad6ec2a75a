import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { CLSACT_HANDLE, CLSACT_PRIORITY } from '../../src/dataplane/ebpf/device-links.js'
import { EbpfDataplane } from '../../src/dataplane/ebpf/ebpf-dataplane.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { SOCK_HOOKS } from '../../src/ebpf/sock-hooks.js'
import { findCgroup2 } from '../../src/host/proc-net.js'
import { describeSockets } from './sock-rig.js'

/**
 * The product's dataplane on a cgroup and devices of its own: each program is where it
 * belongs, by what this kernel has for it. veth everywhere; netkit where there is one.
 */

const NAME = `waggle-attach-${process.pid}`
const NETNS = `/run/netns/${NAME}`
const [MAJOR = 0, MINOR = 0] = release().split('.').map(Number)
const TC = MAJOR > 6 || (MAJOR === 6 && MINOR >= 6) ? 'tcx' : 'clsact'

function addLink(kind: string, name: string): boolean {
  try {
    execFileSync('ip', ['-n', NAME, 'link', 'add', name, 'type', kind], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

describeSockets('the dataplane attaches', () => {
  const native = loadNative()
  const cgroup = join(findCgroup2(readFileSync('/proc/self/mounts', 'utf8')) ?? '', NAME)
  const bpffs = `/run/${NAME}`
  const errors: string[] = []
  const devices: string[] = []
  let dataplane: EbpfDataplane

  beforeAll(async () => {
    mkdirSync(cgroup)
    mkdirSync(bpffs)
    execFileSync('ip', ['netns', 'add', NAME])
    for (const kind of ['veth', 'netkit']) if (addLink(kind, `${kind}-up`)) devices.push(`${kind}-up`)
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
      logger: { ...silentLogger, error: (message, fields) => errors.push(`${message} ${JSON.stringify(fields)}`) },
      clock: systemClock,
    })
    await dataplane.start()
    native.inNetns(NETNS, () =>
      dataplane.setDevices(
        devices.map(name => ({ name, ifindex: native.ifNameToIndex(name), l3: name === 'netkit-up' })),
      ),
    )
  })

  afterAll(async () => {
    await dataplane?.cleanup()
    execFileSync('ip', ['netns', 'del', NAME])
    execFileSync('umount', [bpffs])
    rmdirSync(bpffs)
    rmdirSync(cgroup)
  })

  /** Programs on a device, by id: what hangs there by the kernel's own word. */
  function on(device: string, direction: 'ingress' | 'egress'): (number | undefined)[] {
    return native.inNetns(NETNS, () => {
      const ifindex = native.ifNameToIndex(device)
      if (TC === 'tcx') return native.queryTcx(ifindex, direction)
      return [native.queryClsact(ifindex, direction, CLSACT_PRIORITY, CLSACT_HANDLE)?.programId]
    })
  }

  function idOf(program: string): number {
    const pinned = native.openProgram(join(bpffs, 'waggle/programs', program))
    pinned.close()
    return pinned.info.id
  }

  test('to the cgroup', () => {
    const attached = dataplane.inspect().programs.filter(each => each.attached && each.target.startsWith('cgroup'))
    expect(attached.map(each => each.name)).toEqual(expect.arrayContaining(SOCK_HOOKS.map(hook => hook.program)))
  })

  test(`to devices by ${TC}`, () => {
    console.log(`Linux ${release()}  attached by ${TC} to ${devices.join(', ')}`)
    expect(errors).toEqual([])
    expect(devices).toContain('veth-up')
    for (const device of devices) {
      const [ingress, egress] = device === 'netkit-up' ? ['in_l3', 'out_l3'] : ['ingress', 'egress']
      expect(on(device, 'ingress')).toEqual([idOf(`waggle_${ingress}`)])
      expect(on(device, 'egress')).toEqual([idOf(`waggle_${egress}`)])
    }
  })
})
