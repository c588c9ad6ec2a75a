import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLogger } from '../../src/base/log.js'
import type { NetworkDevice } from '../../src/ebpf/native.js'
import { chooseDevices, ownAddresses } from '../../src/host/devices.js'
import { type NetworkFacts, readNetworkFacts } from '../../src/host/facts.js'
import { findCgroup2 } from '../../src/host/proc-net.js'
import { type HostNetwork, HostWatch } from '../../src/host/watch.js'
import type { Address } from '../../src/model/address.js'
import { FakeClock } from './sync-fake-clock.js'

/** Devices with their addresses; an index is the place in the list. */
function facts(devices: Record<string, string[]>, defaultRoutes: string[] = []): NetworkFacts {
  return Object.entries(devices).map(([name, addresses], i) => ({
    name,
    ifindex: i + 1,
    l3: name.startsWith('tun'),
    addresses: addresses as Address[],
    defaultRoute: defaultRoutes.includes(name),
  }))
}
const ip = (text: string) => text as Address
const names = (devices: readonly { name: string }[]) => devices.map(({ name }) => name)

test.each([
  [
    'hybrid',
    'tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n',
    '/sys/fs/cgroup/unified',
  ],
  ['escaped', 'none /mnt/my\\040cgroup cgroup2 rw 0 0\n', '/mnt/my cgroup'],
  ['v1 only', 'cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n', undefined],
])('cgroup v2 in /proc/mounts: %s', (_, mounts, want) => {
  expect(findCgroup2(mounts)).toBe(want)
})

test('auto takes devices with a default route or an InternalIP of the Node, never lo', () => {
  const machine = facts({ lo: ['10.0.0.9'], eth0: ['192.168.0.1'], eth1: ['10.0.0.1'], veth0: [] }, ['eth0', 'lo'])
  expect(names(chooseDevices(machine, ['auto'], [ip('10.0.0.1'), ip('10.0.0.9')], []))).toEqual(['eth0', 'eth1'])
})

test.each([
  [['eth?'], ['eth0', 'eth1']],
  [['*'], ['a.b', 'axb', 'eth0', 'eth1', 'eth10']],
  [['a.b'], ['a.b']],
  [
    ['eth10', 'auto'],
    ['eth1', 'eth10'],
  ],
  [['absent'], []],
])('patterns %j', (patterns, want) => {
  const machine = facts({ lo: [], eth0: [], eth1: [], eth10: [], 'a.b': [], axb: [] }, ['eth1'])
  expect(names(chooseDevices(machine, patterns, [], []))).toEqual(want)
})

test('the source address is the InternalIP where the device has it, else its first', () => {
  const machine = facts({ eth0: ['10.0.0.7', '10.0.0.8', '2001:db8::1'] })
  expect(chooseDevices(machine, ['eth0'], [], [])).toEqual([
    { name: 'eth0', ifindex: 1, address4: '10.0.0.7', address6: '2001:db8::1' },
  ])
  expect(chooseDevices(machine, ['eth0'], [ip('10.0.0.8')], [])[0]?.address4).toBe('10.0.0.8')
})

test('a device without an address of its own uses the InternalIPs: those of pods have none', () => {
  const machine = facts({ eth0: ['10.0.0.7'], veth1: [] })
  expect(chooseDevices(machine, ['veth*'], [ip('10.0.0.7'), ip('2001:db8::7'), ip('10.0.0.8')], [])).toEqual([
    { name: 'veth1', ifindex: 2, address4: '10.0.0.7', address6: '2001:db8::7' },
  ])
  expect(chooseDevices(machine, ['veth*'], [], [])).toEqual([{ name: 'veth1', ifindex: 2 }])
})

test('a device without Ethernet header is told apart', () => {
  expect(chooseDevices(facts({ eth0: [], tun0: [] }), ['*'], [], []).map(({ l3 }) => l3)).toEqual([undefined, true])
})

test('a chosen device without carrier stays with its addresses; one that is gone goes', () => {
  const up = chooseDevices(facts({ eth0: ['10.0.0.1'] }, ['eth0']), ['auto'], [], [])
  expect(chooseDevices(facts({ eth0: [] }), ['auto'], [], up)).toEqual(up)
  expect(chooseDevices(facts({ eth1: [] }), ['auto'], [], up)).toEqual([])
})

test('own addresses: sorted, once each, loopback included', () => {
  expect(ownAddresses(facts({ lo: ['127.0.0.1'], a: ['10.0.0.2'], b: ['10.0.0.1', '10.0.0.2'] }))).toEqual([
    '10.0.0.1',
    '10.0.0.2',
    '127.0.0.1',
  ])
})

test('addresses are read that have a meaning beyond the link, of devices that are up', () => {
  const device = { name: 'eth0', ifindex: 7, type: 1, running: true, defaultRoute: true }
  const addresses = ['169.254.0.1', '169.253.0.1', 'febf::1', 'fec0::1', '::ffff:10.0.0.1']
  const read = (part: Partial<NetworkDevice>) =>
    readNetworkFacts({ readNetwork: () => [{ ...device, addresses, ...part }] })
  const want = { name: 'eth0', ifindex: 7, l3: false, defaultRoute: true }
  expect(read({})).toEqual([{ ...want, addresses: ['169.253.0.1', 'fec0::1', '10.0.0.1'] }])
  expect(read({ running: false, type: 65534 })).toEqual([{ ...want, l3: true, addresses: [] }])
})

describe('the watch', () => {
  let clock: FakeClock
  let seen: HostNetwork[]
  let lines: string[]
  let machine: NetworkFacts | Error
  let looks: number
  /** Milliseconds that a look takes. */
  let cost: number
  let hear: (() => void) | undefined
  let refused: Error | undefined
  let watch: HostWatch

  beforeEach(() => {
    clock = new FakeClock()
    seen = []
    lines = []
    machine = facts({ eth0: ['10.0.0.1'] }, ['eth0'])
    looks = 0
    cost = 0
    hear = undefined
    refused = undefined
    const log = (message: string) => void lines.push(message)
    watch = new HostWatch({
      readFacts: () => {
        looks++
        clock.advance(cost)
        if (machine instanceof Error) throw machine
        return machine
      },
      listen: onChange => {
        if (refused) throw refused
        hear = onChange
        return { close: () => (hear = undefined) }
      },
      patterns: ['auto'],
      onChange: network => seen.push(network),
      clock,
      logger: { ...silentLogger, error: log, warn: log },
    })
  })
  afterEach(() => {
    watch.stop()
    expect(clock.pending).toBe(0)
    expect(hear).toBeUndefined()
  })

  test('tells of the first state, then of changes alone', () => {
    watch.start()
    watch.start()
    expect(seen).toHaveLength(1)
    hear?.()
    clock.advance(1000)
    expect([looks, seen.length]).toEqual([2, 1])

    machine = facts({ other: [], eth0: ['10.0.0.1'] }, ['eth0']) // made anew under the same name
    hear?.()
    clock.advance(20)
    expect(seen.at(-1)?.devices).toEqual([{ name: 'eth0', ifindex: 2, address4: '10.0.0.1' }])

    machine = facts({ eth0: ['10.0.0.1', '10.0.0.2'] }, ['eth0'])
    watch.setInternalIPs([ip('10.0.0.2')])
    expect(seen.at(-1)?.devices[0]?.address4).toBe('10.0.0.2')
  })

  test('a change is seen 20 ms after it was heard of, and what comes meanwhile with it', () => {
    watch.start()
    clock.advance(5000)
    machine = facts({ eth0: [] }, ['eth0'])
    hear?.()
    clock.advance(10)
    machine = facts({ eth0: ['10.0.0.3'] }, ['eth0'])
    hear?.()
    clock.advance(9)
    expect(seen).toHaveLength(1)
    clock.advance(1)
    expect(seen.map(({ addresses }) => addresses)).toEqual([['10.0.0.1'], ['10.0.0.3']])
  })

  test('one right behind another is seen within 100 ms, and a storm is a dozen looks a second', () => {
    watch.start()
    clock.advance(1000)
    hear?.()
    clock.advance(21)
    machine = facts({ eth0: ['10.0.0.3'] }, ['eth0'])
    hear?.()
    clock.advance(99)
    expect(seen).toHaveLength(2)

    const before = looks
    for (let i = 0; i < 1000; i++) {
      hear?.()
      clock.advance(1)
    }
    expect(looks - before).toBeGreaterThan(8)
    expect(looks - before).toBeLessThan(14)
  })

  test.each([
    { ms: 50, pause: 450 },
    { ms: 5000, pause: 1000 },
  ])('a look that took $ms ms is followed by a pause of $pause ms', ({ ms, pause }) => {
    watch.start()
    cost = ms
    watch.setInternalIPs([ip('10.0.0.1')])
    cost = 0
    hear?.()
    clock.advance(pause - 1)
    expect(looks).toBe(2)
    clock.advance(1)
    expect(looks).toBe(3)
  })

  test('looks every 10 s though nothing is heard', () => {
    watch.start()
    machine = facts({ eth0: ['10.0.0.3'] })
    clock.advance(9999)
    expect(seen).toHaveLength(1)
    clock.advance(1)
    expect(seen).toHaveLength(2)
    clock.advance(20_000)
    expect(looks).toBe(4)
  })

  test('looks once a second where it cannot listen, says so once, and tries again', () => {
    refused = new Error('EMFILE')
    watch.start()
    clock.advance(3000)
    expect(looks).toBe(4)
    expect(lines).toEqual(['cannot listen to the kernel; devices and addresses are looked at once a second'])
    refused = undefined
    clock.advance(1000)
    clock.advance(9000)
    expect(looks).toBe(5)
    expect(hear).toBeDefined()
  })

  test('a failure keeps the last state, is logged once, and is tried again each second', () => {
    watch.start()
    machine = new Error('no /proc')
    hear?.()
    clock.advance(3080)
    expect(looks).toBe(5)
    expect(lines).toEqual(['cannot read devices and addresses'])
    machine = facts({ eth0: ['10.0.0.3'] }, ['eth0'])
    clock.advance(1000)
    expect(seen.map(({ addresses }) => addresses)).toEqual([['10.0.0.1'], ['10.0.0.3']])
  })
})
