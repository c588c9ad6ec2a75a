import { codeOf, WaggleError } from '../../base/errors.js'
import { toBytes, u32 } from '../../ebpf/codec.js'
import { backend, backendStats, service, serviceName, serviceStats } from '../../ebpf/generated/layouts.js'
import { type Address, addressToBytes, familyOf, formatEndpoint } from '../../model/address.js'
import type { Cidr } from '../../model/cidr.js'
import type { ServicePort } from '../../model/desired.js'
import type { AppliedFrontend, AppliedService } from './applied.js'
import {
  addressValue,
  backendFlags,
  frontendKey,
  frontendValue,
  PROTOCOL_NUMBERS,
  schedulerNumber,
  serviceFlags,
  sourceRangeKeyBytes,
} from './encode.js'
import { Filter } from './filter.js'
import { type KernelMaps, SLOTS_PER_ELEMENT } from './kernel-maps.js'
import { listWord } from './list-delta.js'

/** A write that the kernel refused. */
export class MapError extends WaggleError {}

export type ListName = 'cluster' | 'local'

/**
 * The single writes that apply is made of. Each counts itself once, and decides nothing:
 * order and necessity are the caller's.
 */
export class KernelWriter {
  readonly #maps: KernelMaps
  readonly filter: Filter
  /** Entries, records, slots and words written or deleted since the start. */
  writes = 0

  constructor(maps: KernelMaps) {
    this.#maps = maps
    this.filter = new Filter(maps)
  }

  putFrontend(owner: AppliedService, frontend: AppliedFrontend): void {
    const proto = PROTOCOL_NUMBERS[owner.protocol]
    const key = frontendKey(frontend.address, frontend.port, proto)
    this.#update(frontend.address, frontend.port, key, frontendValue(owner.index, frontend.kind, frontend.address))
  }

  deleteFrontend(owner: AppliedService, frontend: AppliedFrontend): void {
    const proto = PROTOCOL_NUMBERS[owner.protocol]
    this.deleteFrontendKey(frontend.address, frontendKey(frontend.address, frontend.port, proto))
  }

  /** Says that `address` belongs to a Service, whatever the port. */
  putAddress(address: Address, own: boolean): void {
    this.#update(address, 0, frontendKey(address, 0, 0), addressValue(own))
  }

  deleteAddress(address: Address): void {
    this.deleteFrontendKey(address, frontendKey(address, 0, 0))
  }

  deleteFrontendKey(address: Address, key: Uint8Array): void {
    if (this.#frontends(address).delete(key)) this.writes++
  }

  putName(index: number, port: ServicePort): void {
    const value = toBytes(serviceName, {
      namespace: port.namespace,
      name: port.name,
      port: port.portName,
      proto: PROTOCOL_NUMBERS[port.protocol],
      family: port.family === 'IPv4' ? 4 : 6,
    })
    this.#maps.handles.svcNames.update(toBytes(u32, index), value)
    this.writes++
  }

  deleteName(index: number): void {
    if (this.#maps.handles.svcNames.delete(toBytes(u32, index))) this.writes++
  }

  /** Gives a service index a record without backends and counters at zero. */
  initService(index: number): void {
    const { services, handles } = this.#maps
    services.bytes.fill(0, services.offset(index), services.offset(index) + services.stride)
    const stats = new Uint8Array(handles.svcStats.userValueSize)
    handles.svcStats.update(toBytes(u32, index), stats.fill(0, 0, serviceStats.size))
    this.writes++
  }

  /** Everything of the record but its two lists. */
  putServiceSettings(index: number, settings: ServicePort): void {
    const { services } = this.#maps
    const record = toBytes(service, {
      cluster: 0n,
      local: 0n,
      affinityS: settings.affinitySeconds,
      scheduler: schedulerNumber(settings.scheduler),
      flags: serviceFlags(settings),
    })
    // The settings fill the one word behind the lists: readers see all old or all new ones.
    const word = new DataView(record.buffer).getBigUint64(service.offsets.affinityS, true)
    services.storeWord(index, service.offsets.affinityS, word)
    this.writes++
  }

  putSlot(slot: number, backendIndex: number): void {
    const { slots } = this.#maps
    const at = slots.offset(Math.floor(slot / SLOTS_PER_ELEMENT)) + (slot % SLOTS_PER_ELEMENT) * u32.size
    u32.encode(slots.view, at, backendIndex)
    this.writes++
  }

  /** The slots of a list that no word names yet: one write each, but nobody can meet half of them. */
  putSlots(base: number, members: readonly number[]): void {
    members.forEach((backendIndex, position) => {
      this.putSlot(base + position, backendIndex)
    })
  }

  /** The one store that makes a list count. */
  putList(index: number, name: ListName, base: number, count: number): void {
    this.#maps.services.storeWord(index, service.offsets[name], listWord(base, count))
    this.writes++
  }

  /** Writes a backend under its present generation; the index must be out of every list. */
  putBackend(index: number, owner: number, value: ServicePort['backends'][number]): void {
    const { backends, backendStats: stats } = this.#maps
    const at = backends.offset(index)
    const generation = backend.decode(backends.view, at).generation || 1
    // Its live sockets are counted by the programs alone: they lower what they raised.
    stats.storeWord(index, backendStats.offsets.opened, 0n)
    backend.encode(backends.view, at, {
      addr: addressToBytes(value.address),
      port: value.port,
      flags: backendFlags(value),
      generation,
      service: owner,
      weight: value.weight,
    })
    this.writes++
  }

  putBackendFlags(index: number, flags: number): void {
    const { backends } = this.#maps
    backends.view.setUint8(backends.offset(index) + backend.offsets.flags, flags)
    this.writes++
  }

  putBackendWeight(index: number, weight: number): void {
    const { backends } = this.#maps
    backends.view.setUint32(backends.offset(index) + backend.offsets.weight, weight, true)
    this.writes++
  }

  /**
   * Ends a backend: its generation grows, so whoever remembers {index, generation} sees
   * that it is gone, and it belongs to no service any more. Its address stays readable.
   */
  retireBackend(index: number): void {
    const { backends } = this.#maps
    const at = backends.offset(index)
    const { generation } = backend.decode(backends.view, at)
    const next = generation === 0xffffffff ? 1 : generation + 1
    backends.view.setUint32(at + backend.offsets.generation, next, true)
    backends.view.setUint8(at + backend.offsets.flags, 0)
    backends.view.setUint32(at + backend.offsets.service, 0, true)
    this.writes++
  }

  /** Lets a network use the load-balancer frontends of a service; service 0: counts it to the pods. */
  putRange(service: number, range: Cidr): void {
    const { srcRanges } = this.#maps.handles
    try {
      srcRanges.update(sourceRangeKeyBytes(service, range), toBytes(u32, 1))
    } catch (cause) {
      const full = codeOf(cause) === 'ENOSPC'
      throw new MapError(full ? 'MAP_FULL' : 'MAP_UPDATE', {
        what: `update ${range} in ${srcRanges.info.name}`,
        cause,
        ...(full ? { remedy: `raise --max-source-ranges (${srcRanges.info.maxEntries})` } : {}),
      })
    }
    this.writes++
  }

  deleteRange(service: number, range: Cidr): void {
    if (this.#maps.handles.srcRanges.delete(sourceRangeKeyBytes(service, range))) this.writes++
  }

  #frontends(address: Address) {
    return familyOf(address) === 'IPv6' ? this.#maps.handles.frontends6 : this.#maps.handles.frontends4
  }

  #update(address: Address, port: number, key: Uint8Array, value: Uint8Array): void {
    const map = this.#frontends(address)
    this.filter.add(key)
    try {
      map.update(key, value)
    } catch (cause) {
      const full = codeOf(cause) === 'E2BIG'
      throw new MapError(full ? 'MAP_FULL' : 'MAP_UPDATE', {
        what: `update ${formatEndpoint(address, port)} in ${map.info.name}`,
        cause,
        ...(full ? { remedy: `raise --max-frontends (${map.info.maxEntries})` } : {}),
      })
    }
    this.writes++
  }
}
