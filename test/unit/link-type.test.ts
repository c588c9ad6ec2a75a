import { expect, test } from 'vitest'
import { isWithoutEthernet } from '../../src/host/link-type.js'

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
  expect(isWithoutEthernet(type)).toBe(l3)
})
