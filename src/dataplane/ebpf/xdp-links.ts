import { readFileSync } from 'node:fs'
import { codeOf, messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import { DeviceXdp } from '../../ebpf/generated/layouts.js'
import type { BpfLink, BpfProgram, DeviceFacts, Native } from '../../ebpf/native.js'
import { XdpAttached, XdpFlag } from '../../ebpf/uapi.js'
import { vlanParents } from '../../host/proc-net.js'
import { detachIfAlive, openLink } from './cgroup-links.js'
import type { Pins } from './pins.js'
import { chooseXdp, takenFrames, type XdpMode, xdpReason } from './xdp-choice.js'

/** Our XDP programs by the mode they are for. */
export const XDP_PROGRAMS = { native: 'waggle_xdp', generic: 'waggle_xdp_skb' } as const

/** What devices_v1 says of a device for XDP. */
export interface XdpState {
  readonly mac: readonly number[]
  /** Bits of enum device_takes. */
  readonly takesFrames: number
  readonly xdp: DeviceXdp
}

export const NO_XDP: XdpState = { mac: [0, 0, 0, 0, 0, 0], takesFrames: 0, xdp: DeviceXdp.OFF }

/**
 * Our XDP program on devices: one pinned link each, adopted and updated in place. The
 * kernel lets a link displace nobody, and nobody displace it but by force.
 */
export class XdpLinks {
  readonly #native: Native
  readonly #pins: Pins
  readonly #programs: ReadonlyMap<string, BpfProgram>
  readonly #mode: XdpMode
  readonly #logger: Logger
  readonly #states = new Map<number, DeviceXdp>()

  /** The programs may be missing when the mode is `off`. */
  constructor(native: Native, pins: Pins, programs: ReadonlyMap<string, BpfProgram>, mode: XdpMode, logger: Logger) {
    this.#native = native
    this.#pins = pins
    this.#programs = programs
    this.#mode = mode
    this.#logger = logger
  }

  /** Whether devices have to be looked at again and again. */
  get wanted(): boolean {
    return this.#mode !== 'off'
  }

  /** Indexes of devices with a pinned link. */
  get known(): number[] {
    return this.#pins.list('links').flatMap(name => xdpIfindexOf(name) ?? [])
  }

  /** Makes a device what the mode and its facts ask for; does nothing where it is so already. tc comes first. */
  serve(device: { readonly name: string; readonly ifindex: number; readonly l3?: boolean }): XdpState {
    const link = openLink(this.#native, this.#pins, xdpLinkName(device.ifindex))
    try {
      const facts = this.wanted ? this.#native.queryDevice(device.ifindex) : undefined
      if (!facts) {
        if (link) this.#remove(device.ifindex, link)
        return this.#became(device, NO_XDP)
      }
      const ours = link !== undefined && link.info.ifindex === device.ifindex
      const chosen = chooseXdp(this.#mode, {
        ...facts,
        l3: device.l3 ?? false,
        vlans: vlanParents(readVlans()).has(facts.name),
        ours,
      })
      const xdp = this.#make(device.ifindex, chosen, facts, ours ? link : undefined, link)
      const mac = facts.mac.length === 6 ? [...facts.mac] : NO_XDP.mac
      const now = this.#native.queryDevice(device.ifindex) ?? facts
      return this.#became(device, { xdp, mac, takesFrames: takenFrames(xdp, now) })
    } finally {
      link?.close()
    }
  }

  /** Whether a device that had our program has it no more. */
  isLost(ifindex: number): boolean {
    const state = this.#states.get(ifindex)
    if (state !== DeviceXdp.NATIVE && state !== DeviceXdp.GENERIC) return false
    const link = openLink(this.#native, this.#pins, xdpLinkName(ifindex))
    try {
      return link?.info.ifindex !== ifindex
    } finally {
      link?.close()
    }
  }

  /** Takes our program off a device, which may be gone. */
  drop(ifindex: number): void {
    this.#states.delete(ifindex)
    const link = openLink(this.#native, this.#pins, xdpLinkName(ifindex))
    if (!link) return
    try {
      this.#remove(ifindex, link)
    } finally {
      link.close()
    }
  }

  /** Attaches, updates or removes; what came of it. `alive` is `pinned` while that is attached. */
  #make(
    ifindex: number,
    chosen: DeviceXdp,
    facts: DeviceFacts,
    alive: BpfLink | undefined,
    pinned: BpfLink | undefined,
  ): DeviceXdp {
    const generic = chosen === DeviceXdp.GENERIC
    const attach = chosen === DeviceXdp.NATIVE || generic
    const program = this.#programs.get(XDP_PROGRAMS[generic ? 'generic' : 'native'])
    const attached = generic ? XdpAttached.GENERIC : XdpAttached.NATIVE
    if (alive && program && attach && facts.xdpMode === attached) {
      if (alive.info.programId !== program.info.id) alive.update(program)
      return chosen
    }
    if (pinned) this.#remove(ifindex, pinned)
    if (!attach || !program) return chosen
    try {
      const link = this.#native.attachXdp(program, ifindex, generic ? XdpFlag.GENERIC : XdpFlag.NATIVE)
      try {
        link.pin(this.#pins.path('links', xdpLinkName(ifindex)))
      } finally {
        link.close()
      }
      return chosen
    } catch (error) {
      return this.#refused(ifindex, error)
    }
  }

  #refused(ifindex: number, error: unknown): DeviceXdp {
    const code = codeOf(error)
    if (code === 'EBUSY' || code === 'EEXIST') return DeviceXdp.FOREIGN
    if (code === 'EOPNOTSUPP' || code === 'ENOTSUPP') return DeviceXdp.UNSUPPORTED
    if (this.#states.get(ifindex) !== DeviceXdp.REFUSED) {
      this.#logger.warn('the kernel refused XDP on a device', { ifindex, error: messageOf(error) })
    }
    return DeviceXdp.REFUSED
  }

  #remove(ifindex: number, link: BpfLink): void {
    detachIfAlive(link)
    this.#pins.remove('links', xdpLinkName(ifindex))
  }

  /** Says so when it is new. */
  #became(device: { readonly name: string; readonly ifindex: number }, state: XdpState): XdpState {
    const before = this.#states.get(device.ifindex)
    this.#states.set(device.ifindex, state.xdp)
    if (before === state.xdp || !this.wanted) return state
    const served = state.xdp === DeviceXdp.NATIVE || state.xdp === DeviceXdp.GENERIC
    const reason = xdpReason(state.xdp, state.takesFrames)
    const fields = { device: device.name, ...(reason && { reason }) }
    if (served) {
      this.#logger.info(`XDP is ${state.xdp === DeviceXdp.NATIVE ? 'native' : 'generic'} on device`, fields)
    } else {
      this.#logger.warn('no XDP on device, tc serves it', fields)
    }
    return state
  }
}

/** Name of the pin of an XDP link: `xdp_2`. */
export function xdpLinkName(ifindex: number): string {
  return `xdp_${ifindex}`
}

/** The inverse of {@link xdpLinkName}; undefined for other pins. */
export function xdpIfindexOf(name: string): number | undefined {
  const match = /^xdp_(\d+)$/.exec(name)
  return match ? Number(match[1]) : undefined
}

/** Empty where the kernel has no VLAN devices. */
function readVlans(): string {
  try {
    return readFileSync('/proc/self/net/vlan/config', 'latin1')
  } catch {
    return ''
  }
}
