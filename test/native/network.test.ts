import { execFileSync } from 'node:child_process'
import { networkInterfaces } from 'node:os'
import { basename } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { NetworkDevice } from '../../src/ebpf/native.js'
import { addon, describeKernel, ifindex, Rig } from './rig.js'

describeKernel('a reading of the network', () => {
  const rig = new Rig()
  let path = ''
  beforeEach(() => {
    path = rig.netns()
  })

  const batch = (...lines: string[]) =>
    execFileSync('ip', ['-n', basename(path), '-b', '-'], { input: `${lines.join('\n')}\n` })
  const read = () => addon().inNetns(path, () => addon().readNetwork())
  const device = (name: string) => read().find(each => each.name === name) as NetworkDevice
  const withDefaultRoute = () => read().flatMap(({ name, defaultRoute }) => (defaultRoute ? name : []))

  test('devices with their index and type; running when up and with carrier', () => {
    expect(read().map(({ name }) => name)).toEqual(expect.arrayContaining(['lo', 'v0', 'v1']))
    expect(device('v0')).toMatchObject({ ifindex: ifindex(path, 'v0'), type: 1, running: false, addresses: [] })
    expect(device('lo')).toMatchObject({ ifindex: 1, type: 772 })
    batch('link set v0 up')
    expect(device('v0').running).toBe(false)
    batch('link set v1 up')
    expect(device('v0').running).toBe(true)
  })

  test('addresses of both families, IPv4 first; the own end of a point-to-point pair', () => {
    batch(
      'link set v0 addrgenmode none',
      'link set v0 up',
      'link set v1 up',
      'addr add 2001:db8::1/64 dev v0 nodad',
      'addr add 10.0.0.1/24 dev v0',
      'addr add 10.0.0.2/24 dev v0',
      'addr add 10.1.0.1 peer 10.1.0.2 dev v0',
      'addr add 2001:db8:1::1 peer 2001:db8:1::2 dev v0',
    )
    const { addresses } = device('v0')
    expect(addresses.slice(0, 3).sort()).toEqual(['10.0.0.1', '10.0.0.2', '10.1.0.1'])
    expect(addresses.slice(3).sort()).toEqual(['2001:db8:1::1', '2001:db8::1'])
  })

  test('default routes of the main table: by one device, by several, of either family', () => {
    batch(
      'link set lo up',
      'link set v0 up',
      'link set v1 up',
      'addr add 10.0.0.1/24 dev v0',
      'addr add 10.1.0.1/24 dev v1',
    )
    expect(withDefaultRoute()).toEqual([])
    batch(
      'route add 10.9.0.0/16 dev v0',
      'route add default dev v0 table 100',
      'route add unreachable default metric 9',
    )
    expect(withDefaultRoute()).toEqual([])
    batch('route add default via 10.0.0.9')
    expect(withDefaultRoute()).toEqual(['v0'])
    batch('route replace default nexthop via 10.0.0.9 nexthop via 10.1.0.9')
    expect(withDefaultRoute().sort()).toEqual(['v0', 'v1'])
  })

  test('a default route of IPv6', () => {
    batch('link set v1 up', 'link set v0 up', 'addr add 2001:db8::1/64 dev v1 nodad')
    batch('route add unreachable ::/0 metric 4096')
    expect(withDefaultRoute()).toEqual([])
    batch('route add ::/0 via 2001:db8::9')
    expect(withDefaultRoute()).toEqual(['v1'])
  })

  test('more devices than one answer of the kernel holds', () => {
    const pairs = Array.from({ length: 100 }, (_, i) => `link add a${i} type veth peer name b${i}`)
    batch(...pairs)
    const names = read().map(({ name }) => name)
    expect(names.filter(name => /^[ab]\d/.test(name))).toHaveLength(200)
    expect(new Set(names).size).toBe(names.length)
  })

  test('the addresses are those that Node.js shows', () => {
    const shown = Object.fromEntries(
      Object.entries(networkInterfaces()).map(([name, entries]) => [name, (entries ?? []).map(each => each.address)]),
    )
    const ours = addon().readNetwork()
    for (const [name, addresses] of Object.entries(shown)) {
      expect(ours.find(each => each.name === name)?.addresses).toEqual(addresses)
    }
  })
})
