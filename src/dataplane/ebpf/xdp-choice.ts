import { DeviceTakes, DeviceXdp } from '../../ebpf/generated/layouts.js'
import type { DeviceFacts } from '../../ebpf/native.js'
import { XdpAttached, XdpFeature } from '../../ebpf/uapi.js'

/** What the operator asks for: `--xdp`. */
export type XdpMode = 'auto' | 'native' | 'generic' | 'off'

/** A device as XDP is concerned. */
export interface XdpCandidate extends Pick<DeviceFacts, 'kind' | 'mac' | 'xdpMode' | 'xdpFeatures'> {
  /** Its packets begin with the IP header. */
  readonly l3: boolean
  /** VLAN devices are on top of it. */
  readonly vlans: boolean
  /** The XDP program that it has is ours. */
  readonly ours: boolean
}

/**
 * In which mode a device gets our XDP program, or why it gets none.
 *
 * `auto` never chooses generic: that runs behind GRO, makes each packet linear first, and
 * saves no skb.
 */
export function chooseXdp(wanted: XdpMode, device: XdpCandidate): DeviceXdp {
  if (wanted === 'off') return DeviceXdp.OFF
  if (device.l3 || device.mac.length !== 6) return DeviceXdp.NO_ETHERNET
  // A frame is told to have come by the port, which is none of our devices.
  if (device.kind === 'bond' || device.kind === 'team') return DeviceXdp.PORTS
  // Hardware takes a tag out of a frame before XDP sees it.
  if (device.vlans) return DeviceXdp.VLANS
  if (device.xdpMode !== XdpAttached.NONE && !device.ours) return DeviceXdp.FOREIGN
  if (wanted === 'generic') return DeviceXdp.GENERIC
  if (device.xdpFeatures !== undefined && !(device.xdpFeatures & XdpFeature.BASIC)) return DeviceXdp.UNSUPPORTED
  if (wanted === 'auto' && takenFrames(DeviceXdp.NATIVE, device) === 0) return DeviceXdp.CANNOT_SEND
  return DeviceXdp.NATIVE
}

/**
 * How a device with our program sends frames (bits of enum device_takes). One that cannot
 * drops them and says nothing, so what is not known counts as no.
 *
 * Redirects need queues that many drivers make only for devices with a program, and a veth
 * a peer with XDP or GRO: ask when it is attached. XDP_TX comes with native XDP, but the
 * peer of a veth without a program is not woken up for it (Linux 6.18).
 */
export function takenFrames(mode: DeviceXdp, device: Pick<DeviceFacts, 'kind' | 'xdpFeatures'>): number {
  if (mode === DeviceXdp.GENERIC) return DeviceTakes.TX | DeviceTakes.REDIRECT
  if (mode !== DeviceXdp.NATIVE) return 0
  const tx = device.kind === 'veth' ? 0 : DeviceTakes.TX
  return tx | ((device.xdpFeatures ?? 0) & XdpFeature.NDO_XMIT ? DeviceTakes.REDIRECT : 0)
}

/** A sentence for operators: why a device has no XDP, or not all of it. Empty where all is well. */
export function xdpReason(mode: number, takes: number): string {
  switch (mode) {
    case DeviceXdp.NATIVE:
      return takes === 0 ? 'drops only: the peer of this veth has neither GRO nor XDP, and would lose frames' : ''
    case DeviceXdp.NO_ETHERNET:
      return 'its packets have no Ethernet header'
    case DeviceXdp.PORTS:
      return 'frames of a bond or team come by its ports'
    case DeviceXdp.VLANS:
      return 'VLAN devices are on it, and hardware hides their tags from XDP'
    case DeviceXdp.FOREIGN:
      return 'another XDP program is there'
    case DeviceXdp.UNSUPPORTED:
      return 'its driver has no native XDP'
    case DeviceXdp.CANNOT_SEND:
      return 'the peer of this veth has neither GRO nor XDP, and would lose frames'
    case DeviceXdp.REFUSED:
      return 'the kernel refused the program, see the log'
    default:
      return ''
  }
}
