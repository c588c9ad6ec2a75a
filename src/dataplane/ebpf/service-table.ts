import type { WaggleError } from '../../base/errors.js'
import type { Address } from '../../model/address.js'
import type { Cidr } from '../../model/cidr.js'
import type { Backend, Protocol, Scheduler, ServicePort } from '../../model/desired.js'
import type { DumpedRange } from './adopt.js'
import { type AppliedFrontend, type AppliedList, type AppliedService, emptyList, endpointKey } from './applied.js'
import { backendFlags, serviceFlags } from './encode.js'
import type { Grace } from './grace.js'
import { IndexPool } from './index-pool.js'
import type { Limits } from './kernel-maps.js'
import { type KernelWriter, type ListName, MapError } from './kernel-writer.js'
import { changeInPlace, changeTable, type InPlace } from './list-delta.js'
import { type ListTarget, listTarget, type Member, spread, usesTable } from './list-target.js'
import { capacityFor, SlotAllocator } from './slot-allocator.js'
import { POD_NETWORKS, SourceRangeTable } from './source-range-table.js'

/** What the table asks of its surroundings besides writes. */
export interface TableHooks {
  /** Milliseconds, monotonic. */
  now(): number
  /** False while sockets of this node still point at the backend. */
  backendIsUnused(index: number): boolean
  /** The backend has just been retired: its UDP sockets must be ended. */
  backendRetired(index: number): void
}

/**
 * How long readers of a list or a backend may still be under way: programs that loaded
 * the word before it changed. They run for microseconds; preemption is what this is for.
 */
export const READERS_MS = 100
/** After that long a slot range that a list has left is given to another. */
const RANGE_GRACE_MS = 1000
/** Flows, affinities and sockets may name an index for that long after its release. */
const QUARANTINE_MS = 5 * 60_000

/**
 * The applied state of every Service port, and the order of writes that leads from it to
 * a desired one. A packet that comes between any two writes sees a complete list:
 *
 * name, record -> backends -> slots -> the list's word -> source ranges -> settings -> frontends
 *
 * and the other way round when a Service port leaves. A crash between any two leaves
 * either state whole; the rest is found as orphans by the next run.
 */
export class ServiceTable {
  readonly services = new Map<string, AppliedService>()
  readonly #writer: KernelWriter
  readonly #grace: Grace
  readonly #hooks: TableHooks
  readonly #serviceIndexes: IndexPool
  readonly #backendIndexes: IndexPool
  readonly #slots: SlotAllocator
  readonly #limits: Limits
  /** Id of the Service port that holds a frontend, by protocol and endpoint. */
  readonly #owners = new Map<string, string>()
  /** Ids of the Service ports with a frontend at an address, node ports aside. */
  readonly #addresses = new Map<Address, { ids: Set<string>; own: boolean | undefined }>()
  #ownAddresses: ReadonlySet<Address> = new Set()
  readonly #ranges: SourceRangeTable

  constructor(limits: Limits, writer: KernelWriter, grace: Grace, hooks: TableHooks) {
    this.#limits = limits
    this.#writer = writer
    this.#grace = grace
    this.#hooks = hooks
    this.#serviceIndexes = new IndexPool(limits.services, QUARANTINE_MS)
    this.#backendIndexes = new IndexPool(limits.backends, QUARANTINE_MS)
    this.#slots = new SlotAllocator(limits.slots)
    this.#ranges = new SourceRangeTable(writer)
  }

  /** Fill of the arrays, for metrics. */
  get used(): { services: number; backends: number; slots: number } {
    return { services: this.#serviceIndexes.used, backends: this.#backendIndexes.used, slots: this.#slots.used }
  }

  /** Takes over a Service port that an earlier run left; false when a part of it is another's. */
  adopt(service: AppliedService, addressFlags: ReadonlyMap<Address, boolean>): boolean {
    if (this.services.has(service.id) || !this.#serviceIndexes.reserve(service.index)) return false
    for (const list of [service.cluster, service.local]) {
      // An overlapping list is not trusted: apply writes a new one.
      if (list.capacity > 0 && !this.#slots.reserve(list.base, list.capacity)) Object.assign(list, emptyList())
    }
    for (const [key, backend] of service.backends) {
      if (!this.#backendIndexes.reserve(backend.index)) service.backends.delete(key)
    }
    for (const frontend of service.frontends.values()) {
      this.#owners.set(ownerKey(service.protocol, frontend), service.id)
      if (frontend.kind === 'NodePort') continue
      service.addresses.add(frontend.address)
      const entry = this.#addressEntry(frontend.address)
      entry.ids.add(service.id)
      entry.own = addressFlags.get(frontend.address)
    }
    this.services.set(service.id, service)
    return true
  }

  /** Whether a Service port holds this frontend. */
  hasFrontend(protocol: Protocol, frontend: { address: Address; port: number }): boolean {
    return this.#owners.has(ownerKey(protocol, frontend))
  }

  /** Whether a Service port has a frontend at this address, node ports aside. */
  hasAddress(address: Address): boolean {
    return this.#addresses.has(address)
  }

  /** An index that was in use before this run and is no more: it rests like a fresh removal. */
  quarantine(kind: 'service' | 'backend', index: number): void {
    const pool = kind === 'service' ? this.#serviceIndexes : this.#backendIndexes
    pool.release(index, this.#hooks.now())
  }

  /** Writes what `desired` has and the kernel lacks. Throws when the kernel refuses; the rest stays applied. */
  grow(desired: ServicePort, revision: number): void {
    const service = this.services.get(desired.id) ?? this.#create(desired)
    const cluster: Member[] = []
    const local: Member[] = []
    for (const backend of desired.backends) {
      const { weight, inCluster, inLocal } = backend
      const member = {
        key: endpointKey(backend.address, backend.port),
        weight,
        index: this.#placeBackend(service, backend),
      }
      if (inCluster) cluster.push(member)
      if (inLocal) local.push(member)
    }
    this.#setList(service, 'cluster', desired.scheduler, cluster)
    this.#setList(service, 'local', desired.scheduler, local)
    this.#putSourceRanges(service, desired)
    for (const [key, frontend] of frontendsOf(desired)) this.#placeFrontend(service, key, frontend)
    service.revision = revision
  }

  /** Removes what the kernel has and `desired` lacks; call after {@link grow} of all changed ones. */
  shrink(desired: ServicePort): void {
    const service = this.services.get(desired.id)
    if (!service) return
    const frontends = frontendsOf(desired)
    for (const [key, frontend] of service.frontends) {
      if (!frontends.has(key)) this.#removeFrontend(service, key, frontend)
    }
    this.#syncAddresses(service)
    this.#ranges.shrink(service.index, desired.sourceRanges?.ranges ?? [])
    const backends = new Set(desired.backends.map(each => endpointKey(each.address, each.port)))
    for (const key of service.backends.keys()) if (!backends.has(key)) this.#removeBackend(service, key)
  }

  /** Removes a Service port: its frontends first, its name last. */
  remove(id: string): void {
    const service = this.services.get(id)
    if (!service) return
    for (const [key, frontend] of service.frontends) this.#removeFrontend(service, key, frontend)
    this.#syncAddresses(service)
    this.#setList(service, 'cluster', service.scheduler, [])
    this.#setList(service, 'local', service.scheduler, [])
    for (const list of [service.cluster, service.local]) this.#releaseRange(list)
    for (const key of service.backends.keys()) this.#removeBackend(service, key)
    this.services.delete(id)
    this.#grace.after(READERS_MS, () => {
      this.#ranges.shrink(service.index, [])
      this.#writer.deleteName(service.index)
      this.#serviceIndexes.release(service.index, this.#hooks.now())
    })
  }

  /** Adds the networks of the cluster's pods that the kernel lacks. */
  growPodNetworks(networks: readonly Cidr[]): void {
    this.#ranges.grow(POD_NETWORKS, networks)
  }

  /** Removes those it has beyond `networks`. */
  shrinkPodNetworks(networks: readonly Cidr[]): void {
    this.#ranges.shrink(POD_NETWORKS, networks)
  }

  /** Takes over a source range that an earlier run left. */
  adoptRange(range: DumpedRange): void {
    this.#ranges.adopt(range)
  }

  /** Removes source ranges whose service is no more. */
  removeStrayRanges(): void {
    const live = new Set([POD_NETWORKS, ...[...this.services.values()].map(each => each.index)])
    for (const index of this.#ranges.indexes) if (!live.has(index)) this.#ranges.shrink(index, [])
  }

  /** Tells which addresses are the node's own: an unknown port of those belongs to the host. */
  setOwnAddresses(own: ReadonlySet<Address>): void {
    this.#ownAddresses = own
    for (const [address, entry] of this.#addresses) this.#putAddress(address, entry)
  }

  #create(desired: ServicePort): AppliedService {
    const index = this.#serviceIndexes.allocate(this.#hooks.now())
    if (index === undefined) throw full('service', desired.id, '--max-services', this.#limits.services)
    const service: AppliedService = {
      id: desired.id,
      index,
      protocol: desired.protocol,
      scheduler: 'random',
      affinitySeconds: 0,
      internalLocal: false,
      externalLocal: false,
      sourceRanges: undefined,
      cluster: emptyList(),
      local: emptyList(),
      frontends: new Map(),
      addresses: new Set(),
      backends: new Map(),
      revision: 0,
    }
    try {
      this.#writer.initService(index)
      this.#writer.putName(index, desired)
    } catch (error) {
      this.#serviceIndexes.release(index, this.#hooks.now())
      throw error
    }
    this.services.set(desired.id, service)
    return service
  }

  #placeBackend(service: AppliedService, backend: Backend): number {
    const key = endpointKey(backend.address, backend.port)
    const flags = backendFlags(backend)
    const known = service.backends.get(key)
    if (known) {
      if (known.flags !== flags) this.#writer.putBackendFlags(known.index, flags)
      known.flags = flags
      if (known.weight !== backend.weight) this.#writer.putBackendWeight(known.index, backend.weight)
      known.weight = backend.weight
      return known.index
    }
    const index = this.#backendIndexes.allocate(this.#hooks.now(), each => this.#hooks.backendIsUnused(each))
    if (index === undefined) throw full('backend', `${key} of ${service.id}`, '--max-backends', this.#limits.backends)
    this.#writer.putBackend(index, service.index, backend)
    const { address, port, weight } = backend
    service.backends.set(key, { index, address, port, flags, weight })
    return index
  }

  /** The table learns of each write when it has succeeded, so a repetition starts from what is. */
  #setList(service: AppliedService, name: ListName, scheduler: Scheduler, members: readonly Member[]): void {
    const list = service[name]
    const madeOf = usesTable(scheduler) ? members.map(({ index, weight }) => `${index}*${weight}`).join() : undefined
    if (madeOf !== undefined && list.madeOf === madeOf) return
    list.madeOf = undefined
    const target = listTarget(scheduler, service.id, members)
    const change = members.length === 0 ? EMPTIED : changeOf(list, target)
    if (change) this.#changeList(service, name, change)
    else this.#newList(service, name, target.kind === 'table' ? target.slots : spread(target.counts))
    service[name].madeOf = madeOf
  }

  #changeList(service: AppliedService, name: ListName, change: InPlace): void {
    const list = service[name]
    const { length } = list.members
    for (const { position, backend } of change.writes) {
      this.#writer.putSlot(list.base + position, backend)
      if (position < length) list.members[position] = backend
    }
    if (length !== change.count) this.#writer.putList(service.index, name, list.base, change.count)
    list.members = [...change.members]
  }

  #newList(service: AppliedService, name: ListName, members: readonly number[]): void {
    const list = service[name]
    const capacity = capacityFor(members.length)
    const base = this.#slots.allocate(capacity)
    if (base === undefined) throw full('slots', `${members.length} of ${service.id}`, '--max-slots', this.#limits.slots)
    try {
      this.#writer.putSlots(base, members)
      this.#writer.putList(service.index, name, base, members.length)
    } catch (error) {
      this.#slots.release(base, capacity)
      throw error
    }
    this.#releaseRange(list)
    Object.assign(list, { base, capacity, members: [...members] })
  }

  /** A range that cannot be written must not leave the service open: it restricts all the same. */
  #putSourceRanges(service: AppliedService, desired: ServicePort): void {
    try {
      this.#ranges.grow(service.index, desired.sourceRanges?.ranges ?? [])
    } finally {
      this.#putSettings(service, desired)
    }
  }

  #putSettings(service: AppliedService, desired: ServicePort): void {
    const same =
      service.scheduler === desired.scheduler &&
      service.affinitySeconds === desired.affinitySeconds &&
      serviceFlags(service) === serviceFlags(desired)
    if (same) return
    this.#writer.putServiceSettings(service.index, desired)
    const { scheduler, affinitySeconds, internalLocal, externalLocal, sourceRanges } = desired
    Object.assign(service, { scheduler, affinitySeconds, internalLocal, externalLocal, sourceRanges })
  }

  #placeFrontend(service: AppliedService, key: string, frontend: AppliedFrontend): void {
    const owner = ownerKey(service.protocol, frontend)
    const known = service.frontends.get(key)
    if (known?.kind !== frontend.kind || this.#owners.get(owner) !== service.id) {
      this.#writer.putFrontend(service, frontend)
      service.frontends.set(key, frontend)
      this.#owners.set(owner, service.id)
    }
    if (frontend.kind === 'NodePort') return
    service.addresses.add(frontend.address)
    const entry = this.#addressEntry(frontend.address)
    entry.ids.add(service.id)
    this.#putAddress(frontend.address, entry)
  }

  #removeFrontend(service: AppliedService, key: string, frontend: AppliedFrontend): void {
    const owner = ownerKey(service.protocol, frontend)
    // Another Service port may have taken the frontend over: then the entry is its own now.
    if (this.#owners.get(owner) === service.id) {
      this.#writer.deleteFrontend(service, frontend)
      this.#owners.delete(owner)
    }
    service.frontends.delete(key)
  }

  /** Forgets the addresses at which the Service port has no frontend any more. */
  #syncAddresses(service: AppliedService): void {
    const present = new Set<Address>()
    for (const each of service.frontends.values()) if (each.kind !== 'NodePort') present.add(each.address)
    for (const address of service.addresses) {
      if (present.has(address)) continue
      const ids = this.#addresses.get(address)?.ids
      if (ids?.has(service.id) && ids.size === 1) {
        this.#writer.deleteAddress(address)
        this.#addresses.delete(address)
      }
      ids?.delete(service.id)
      service.addresses.delete(address)
    }
  }

  #removeBackend(service: AppliedService, key: string): void {
    const backend = service.backends.get(key)
    if (!backend) return
    service.backends.delete(key)
    this.#grace.after(READERS_MS, () => {
      this.#writer.retireBackend(backend.index)
      this.#backendIndexes.release(backend.index, this.#hooks.now())
      this.#hooks.backendRetired(backend.index)
    })
  }

  #releaseRange(list: AppliedList): void {
    const { base, capacity } = list
    if (capacity > 0) this.#grace.after(RANGE_GRACE_MS, () => this.#slots.release(base, capacity))
  }

  #addressEntry(address: Address): { ids: Set<string>; own: boolean | undefined } {
    const known = this.#addresses.get(address)
    if (known) return known
    const entry = { ids: new Set<string>(), own: undefined }
    this.#addresses.set(address, entry)
    return entry
  }

  #putAddress(address: Address, entry: { own: boolean | undefined }): void {
    const own = this.#ownAddresses.has(address)
    if (entry.own === own) return
    this.#writer.putAddress(address, own)
    entry.own = own
  }
}

/** Frontends by endpoint: one that is there twice under two kinds counts once, as the first. */
function frontendsOf(desired: ServicePort): Map<string, AppliedFrontend> {
  const frontends = new Map<string, AppliedFrontend>()
  for (const frontend of desired.frontends) {
    const key = endpointKey(frontend.address, frontend.port)
    if (!frontends.has(key)) frontends.set(key, frontend)
  }
  return frontends
}

/** A list of which nothing is left: its slots stay as they are. */
const EMPTIED: InPlace = { writes: [], count: 0, members: [] }

function ownerKey(protocol: Protocol, frontend: { address: Address; port: number }): string {
  return `${protocol}|${endpointKey(frontend.address, frontend.port)}`
}

function changeOf(list: AppliedList, target: ListTarget): InPlace | undefined {
  if (target.kind === 'table') return changeTable(list.members, target.slots)
  return changeInPlace(list.members, target.counts, list.capacity)
}

function full(what: string, which: string, flag: string, limit: number): WaggleError {
  return new MapError('MAP_FULL', { what: `no free ${what} for ${which}`, remedy: `raise ${flag} (${limit})` })
}
