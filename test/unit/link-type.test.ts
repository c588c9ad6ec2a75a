import { expect, test } from 'vitest'
import { isWithoutEthernet } from '../../src/host/link-type.js'

/** A sysfs with one device, dev0 of index 7. */
const sysfs = (type: number) => (path: string) => {
  const file = /^\/sys\/class\/net\/dev0\/(ifindex|type)$/.exec(path)?.[1]
  if (file === undefined) throw new Error(`ENOENT ${path}`)
  return `${file === 'type' ? type : 7}\n`
}

test.each([
  { kind: 'Ethernet, veth, bridge, VXLAN', type: 1, l3: false },
  { kind: 'loopback', type: 772, l3: false },
  { kind: 'PPP', type: 512, l3: true },
  { kind: 'raw IP (modems)', type: 519, l3: true },
  { kind: 'IP in IP', type: 768, l3: true },
  { kind: 'IPv6 tunnel', type: 769, l3: true },
  { kind: 'SIT', type: 776, l3: true },
  { kind: 'tun, WireGuard', type: 65534, l3: true },
])('$kind: without Ethernet header $l3', ({ type, l3 }) => {
  expect(isWithoutEthernet('dev0', 7, sysfs(type))).toBe(l3)
})

test('a device that sysfs does not show, or shows with another index, counts as Ethernet', () => {
  expect(isWithoutEthernet('dev1', 7, sysfs(65534))).toBe(false)
  expect(isWithoutEthernet('dev0', 8, sysfs(65534))).toBe(false)
})
