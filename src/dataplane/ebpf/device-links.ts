import { isDeepStrictEqual } from 'node:util'
import { codeOf, messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import { toBytes, u32 } from '../../ebpf/codec.js'
import { device as deviceLayout } from '../../ebpf/generated/layouts.js'
import type { BpfMap, BpfProgram, Native } from '../../ebpf/native.js'
import { type Address, addressToBytes } from '../../model/address.js'
import { entriesOf } from './adopt.js'
import { detachIfAlive, openLink } from './cgroup-links.js'
import type { Pins } from './pins.js'
import { NO_XDP, type XdpLinks, type XdpState } from './xdp-links.js'

/** A device whose traffic passes the packet layer. */
export interface Device {
  readonly name: string
  readonly ifindex: number
  /** Source address of flows that leave by it towards another node. */
  readonly address4?: Address
  readonly address6?: Address
  /** Its packets begin with the IP header, not with Ethernet's. Default false. */
  readonly l3?: boolean
}

type Direction = 'ingress' | 'egress'
const DIRECTIONS: readonly Direction[] = ['ingress', 'egress']
const PROGRAMS: Readonly<Record<Direction, string>> = { ingress: 'waggle_ingress', egress: 'waggle_egress' }
/** Theirs for devices without Ethernet header. */
const PROGRAMS_L3: Readonly<Record<Direction, string>> = { ingress: 'waggle_in_l3', egress: 'waggle_out_l3' }

/**
 * Priority and handle of our clsact filters (kernels before 6.6). The priority is not a
 * round number, so it is nobody's habit; the handle tells ours from others at the same one.
 */
export const CLSACT_PRIORITY = 0x3a61
export const CLSACT_HANDLE = 0x7761

/** What devices_v1 has of a device. */
interface Written {
  readonly device: Device
  readonly xdp: XdpState
}

/** Our programs on devices: tcx links, or clsact filters on kernels without tcx, XDP before them, and devices_v1. */
export class DeviceLinks {
  readonly #native: Native
  readonly #pins: Pins
  readonly #programs: ReadonlyMap<string, BpfProgram>
  readonly #map: BpfMap
  readonly #logger: Logger
  readonly #xdp: XdpLinks
  readonly #devices = new Map<number, Device>()
  readonly #written = new Map<number, Written>()
  /** Names of links that could not be restored. */
  readonly #failing = new Set<string>()
  #clsact: boolean

  /** `clsact` true leaves tcx alone even where the kernel has it. */
  constructor(
    native: Native,
    pins: Pins,
    programs: ReadonlyMap<string, BpfProgram>,
    map: BpfMap,
    xdp: XdpLinks,
    logger: Logger,
    clsact = false,
  ) {
    this.#native = native
    this.#pins = pins
    this.#programs = programs
    this.#map = map
    this.#xdp = xdp
    this.#logger = logger
    this.#clsact = clsact
  }

  get devices(): readonly Device[] {
    return [...this.#devices.values()]
  }

  /** Makes these the attached devices. A device that fails is logged and tried again by the next call. */
  set(devices: readonly Device[]): void {
    const wanted = new Map(devices.map(each => [each.ifindex, each]))
    for (const ifindex of this.#known()) if (!wanted.has(ifindex)) this.#drop(ifindex)
    for (const each of devices) {
      try {
        this.#write(each, this.#written.get(each.ifindex)?.xdp ?? NO_XDP)
        if (!this.#isServed(each)) {
          for (const direction of DIRECTIONS) this.#attach(each, direction)
          this.#logger.info('attached to device', { device: each.name, by: this.#clsact ? 'clsact' : 'tcx' })
        }
        this.#devices.set(each.ifindex, each)
        // Last: what XDP passes, tc has to be there for.
        this.#write(each, this.#xdp.serve(each))
      } catch (error) {
        this.#devices.delete(each.ifindex)
        this.#logger.error('cannot attach to device', { device: each.name, error: messageOf(error) })
      }
    }
  }

  /** Attaches again what somebody took off; returns the programs' names, one each time. */
  repair(): string[] {
    return [...this.#devices.values()].flatMap(device => [
      ...DIRECTIONS.filter(direction => this.#restore(device, direction)).map(direction =>
        programName(device, direction),
      ),
      ...this.#repairXdp(device),
    ])
  }

  /** Whether the program was lost and is back. A failure that repeats is logged once. */
  #restore(device: Device, direction: Direction): boolean {
    const place = linkName(direction, device.ifindex)
    const fields = { program: programName(device, direction), device: device.name }
    try {
      if (this.#isAttached(device, direction)) return false
      if (!this.#failing.has(place)) {
        this.#logger.warn('program was detached by somebody else, attaching it again', fields)
      }
      this.#pins.remove('links', place)
      this.#attach(device, direction)
      this.#failing.delete(place)
      return true
    } catch (error) {
      // Where the device is gone the host watch will say so.
      if (codeOf(error) !== 'ENODEV' && !this.#failing.has(place)) {
        this.#logger.error('cannot attach a program', { ...fields, error: messageOf(error) })
      }
      this.#failing.add(place)
      return false
    }
  }

  /** A veth's peer, a VLAN device or another program may come or go, too, so all of it is asked again. */
  #repairXdp(device: Device): string[] {
    if (!this.#xdp.wanted) return []
    try {
      const lost = this.#xdp.isLost(device.ifindex)
      if (lost) this.#logger.warn('XDP was detached by somebody else', { device: device.name })
      this.#write(device, this.#xdp.serve(device))
      return lost ? ['waggle_xdp'] : []
    } catch (error) {
      this.#logger.debug('cannot check XDP of a device', { device: device.name, error: messageOf(error) })
      return []
    }
  }

  #isAttached(device: Device, direction: Direction): boolean {
    const id = this.#program(device, direction).info.id
    if (!this.#clsact) return this.#native.queryTcx(device.ifindex, direction).includes(id)
    return this.#native.queryClsact(device.ifindex, direction, CLSACT_PRIORITY, CLSACT_HANDLE)?.programId === id
  }

  #attach(device: Device, direction: Direction): void {
    const program = this.#program(device, direction)
    const name = linkName(direction, device.ifindex)
    if (this.#clsact) {
      this.#native.attachClsact(program, device.ifindex, direction, CLSACT_PRIORITY, CLSACT_HANDLE)
      return
    }
    const existing = openLink(this.#native, this.#pins, name)
    if (existing) {
      try {
        if (existing.info.ifindex === device.ifindex) {
          existing.update(program)
          return
        }
      } finally {
        existing.close()
      }
      this.#pins.remove('links', name)
    }
    try {
      const link = this.#native.attachTcx(program, device.ifindex, direction, 'before')
      try {
        link.pin(this.#pins.path('links', name))
      } finally {
        link.close()
      }
    } catch (error) {
      if (codeOf(error) !== 'EINVAL') throw error
      // Before 6.6 there is no tcx; from here on every device gets a clsact filter.
      this.#clsact = true
      this.#attach(device, direction)
    }
  }

  #write(device: Device, xdp: XdpState): void {
    if (isDeepStrictEqual(this.#written.get(device.ifindex), { device, xdp })) return
    const bytes = (address: Address | undefined) => (address ? addressToBytes(address) : new Uint8Array(16))
    const value = { addr4: bytes(device.address4), addr6: bytes(device.address6), ...xdp }
    this.#map.update(toBytes(u32, device.ifindex), toBytes(deviceLayout, value))
    this.#written.set(device.ifindex, { device, xdp })
  }

  /** Devices of this run, and those whose pins or addresses an earlier run left. */
  #known(): Set<number> {
    const known = new Set([...this.#devices.keys(), ...this.#xdp.known])
    for (const name of this.#pins.list('links')) {
      const ifindex = ifindexOf(name)
      if (ifindex !== undefined) known.add(ifindex)
    }
    for (const [key] of entriesOf(this.#map)) known.add(u32.decode(key, 0))
    return known
  }

  #drop(ifindex: number): void {
    // First: what XDP passes, tc has to be there for.
    this.#xdp.drop(ifindex)
    for (const direction of DIRECTIONS) {
      const name = linkName(direction, ifindex)
      this.#failing.delete(name)
      const link = openLink(this.#native, this.#pins, name)
      if (link) {
        detachIfAlive(link)
        link.close()
        this.#pins.remove('links', name)
      } else if (this.#clsact) {
        detachOurClsact(this.#native, ifindex, direction)
      }
    }
    this.#map.delete(toBytes(u32, ifindex))
    this.#devices.delete(ifindex)
    this.#written.delete(ifindex)
  }

  /** An index, a name and a kind of header that this run has attached to. */
  #isServed(device: Device): boolean {
    const known = this.#devices.get(device.ifindex)
    return known?.name === device.name && known.l3 === device.l3
  }

  #program(device: Device, direction: Direction): BpfProgram {
    const name = programName(device, direction)
    const program = this.#programs.get(name)
    if (!program) throw new TypeError(`no program ${name} in the objects`)
    return program
  }
}

/** Removes our filter, whichever program it runs; false when there was none. */
export function detachOurClsact(native: Native, ifindex: number, direction: Direction): boolean {
  return [PROGRAMS, PROGRAMS_L3].some(names =>
    native.detachClsact(ifindex, direction, CLSACT_PRIORITY, CLSACT_HANDLE, names[direction]),
  )
}

function programName(device: Device, direction: Direction): string {
  return (device.l3 ? PROGRAMS_L3 : PROGRAMS)[direction]
}

/** Name of the pin of a tcx link: `tcx_ingress_2`. */
export function linkName(direction: Direction, ifindex: number): string {
  return `tcx_${direction}_${ifindex}`
}

/** The inverse of {@link linkName}; undefined for other pins. */
export function ifindexOf(name: string): number | undefined {
  const match = /^tcx_(?:in|e)gress_(\d+)$/.exec(name)
  return match ? Number(match[1]) : undefined
}
