import { expect, test } from 'vitest'
import { chooseXdp, takenFrames, type XdpCandidate, xdpReason } from '../../src/dataplane/ebpf/xdp-choice.js'
import { DeviceTakes, DeviceXdp } from '../../src/ebpf/generated/layouts.js'
import { vlanParents } from '../../src/host/proc-net.js'

const BASIC = 1
const NDO_XMIT = 4

/** A network card whose driver has native XDP. */
const card: XdpCandidate = {
  kind: '',
  mac: Uint8Array.of(2, 0, 0, 0, 0, 1),
  xdpMode: 0,
  xdpFeatures: BASIC,
  l3: false,
  vlans: false,
  ours: false,
}
const veth: XdpCandidate = { ...card, kind: 'veth' }
/** The same before Linux 6.3, which does not tell what a driver can do. */
const { xdpFeatures: _card, ...oldCard } = card
const { xdpFeatures: _veth, ...oldVeth } = veth

test.each([
  { device: 'a card', facts: card, auto: 'NATIVE', native: 'NATIVE', generic: 'GENERIC' },
  {
    device: 'a card on Linux before 6.3',
    facts: oldCard,
    auto: 'NATIVE',
    native: 'NATIVE',
    generic: 'GENERIC',
  },
  {
    device: 'a driver without native XDP',
    facts: { ...card, xdpFeatures: 0 },
    auto: 'UNSUPPORTED',
    native: 'UNSUPPORTED',
    generic: 'GENERIC',
  },
  {
    device: 'a veth whose peer takes frames',
    facts: { ...veth, xdpFeatures: BASIC | NDO_XMIT },
    auto: 'NATIVE',
    native: 'NATIVE',
    generic: 'GENERIC',
  },
  { device: 'a veth whose peer does not', facts: veth, auto: 'CANNOT_SEND', native: 'NATIVE', generic: 'GENERIC' },
  {
    device: 'a veth of which nobody knows',
    facts: oldVeth,
    auto: 'CANNOT_SEND',
    native: 'NATIVE',
    generic: 'GENERIC',
  },
  {
    device: 'tun',
    facts: { ...card, l3: true, mac: new Uint8Array() },
    auto: 'NO_ETHERNET',
    native: 'NO_ETHERNET',
    generic: 'NO_ETHERNET',
  },
  { device: 'a bond', facts: { ...card, kind: 'bond' }, auto: 'PORTS', native: 'PORTS', generic: 'PORTS' },
  { device: 'below VLANs', facts: { ...card, vlans: true }, auto: 'VLANS', native: 'VLANS', generic: 'VLANS' },
  {
    device: "with another's program",
    facts: { ...card, xdpMode: 2 },
    auto: 'FOREIGN',
    native: 'FOREIGN',
    generic: 'FOREIGN',
  },
  {
    device: 'with our program',
    facts: { ...card, xdpMode: 1, ours: true },
    auto: 'NATIVE',
    native: 'NATIVE',
    generic: 'GENERIC',
  },
] as const)('$device: auto $auto, native $native, generic $generic, off OFF', ({ facts, auto, native, generic }) => {
  expect(chooseXdp('auto', facts)).toBe(DeviceXdp[auto])
  expect(chooseXdp('native', facts)).toBe(DeviceXdp[native])
  expect(chooseXdp('generic', facts)).toBe(DeviceXdp[generic])
  expect(chooseXdp('off', facts)).toBe(DeviceXdp.OFF)
})

test('how a device sends: XDP_TX unless it is a veth, redirects where the driver says so', () => {
  const { TX, REDIRECT } = DeviceTakes
  expect(takenFrames(DeviceXdp.NATIVE, card)).toBe(TX)
  expect(takenFrames(DeviceXdp.NATIVE, { ...card, xdpFeatures: BASIC | NDO_XMIT })).toBe(TX | REDIRECT)
  expect(takenFrames(DeviceXdp.NATIVE, veth)).toBe(0)
  expect(takenFrames(DeviceXdp.NATIVE, { ...veth, xdpFeatures: BASIC | NDO_XMIT })).toBe(REDIRECT)
  expect(takenFrames(DeviceXdp.GENERIC, veth)).toBe(TX | REDIRECT)
  expect(takenFrames(DeviceXdp.FOREIGN, card)).toBe(0)
})

test('every device that XDP was asked for and does not serve in full has a reason', () => {
  for (const state of Object.values(DeviceXdp)) {
    const fine = state === DeviceXdp.OFF || state === DeviceXdp.NATIVE || state === DeviceXdp.GENERIC
    expect([state, xdpReason(state, 3) === '']).toEqual([state, fine])
  }
  expect(xdpReason(DeviceXdp.NATIVE, 0)).toContain('drops only')
})

test('devices that VLANs are on', () => {
  const text = `VLAN Dev name    | VLAN ID
Name-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD
eth0.5         | 5  | eth0
v6             | 6  | bond0
`
  expect([...vlanParents(text)]).toEqual(['eth0', 'bond0'])
  expect([...vlanParents('')]).toEqual([])
})
