import { u32 } from '../../ebpf/codec.js'
import {
  backend,
  FrontendFlag,
  FrontendKind,
  frontend,
  frontend4Key,
  frontend6Key,
  ServiceFlag,
  service,
  serviceName,
} from '../../ebpf/generated/layouts.js'
import type { BpfMap } from '../../ebpf/native.js'
import { type Address, addressFromBytes } from '../../model/address.js'
import type { FrontendKind as KindName, Protocol, Scheduler } from '../../model/desired.js'
import { type AppliedList, type AppliedService, endpointKey } from './applied.js'
import {
  decodeFrontendKey,
  decodeSourceRangeKey,
  frontendKindName,
  protocolName,
  type SourceClasses,
  schedulerName,
  sourceClasses,
} from './encode.js'
import { type KernelMaps, SLOTS_PER_ELEMENT } from './kernel-maps.js'
import { splitWord } from './list-delta.js'
import { capacityFor } from './slot-allocator.js'

/** What the maps hold, decoded and not yet judged. */
export interface KernelDump {
  readonly names: readonly { readonly index: number; readonly id: string; readonly protocol: Protocol }[]
  readonly frontends: readonly DumpedFrontend[]
  /** Port-0 entries: address -> whether it is marked as the node's own. */
  readonly addresses: ReadonlyMap<Address, boolean>
  readonly services: ReadonlyMap<number, DumpedService>
  /** Of services, and with service 0 of the cluster's pods. */
  readonly ranges: readonly DumpedRange[]
  /** Backends that belong to a service, and those that did (service 0). */
  readonly backends: readonly DumpedBackend[]
}

export interface DumpedFrontend {
  readonly service: number
  readonly kind: KindName
  readonly address: Address
  readonly port: number
  readonly protocol: Protocol
  /** As in the map, for deletion. */
  readonly key: Uint8Array
}

/** A network in the trie of source ranges. */
export interface DumpedRange {
  readonly service: number
  readonly base: Address
  /** Bits of an address in 16 bytes, IPv4 mapped. */
  readonly prefix: number
}

export interface DumpedService {
  readonly cluster: { readonly base: number; readonly members: readonly number[] }
  readonly local: { readonly base: number; readonly members: readonly number[] }
  readonly scheduler: Scheduler
  readonly affinitySeconds: number
  readonly internalLocal: boolean
  readonly externalLocal: boolean
  readonly sourceRanges: SourceClasses | undefined
}

export interface DumpedBackend {
  readonly index: number
  readonly address: Address
  readonly port: number
  readonly flags: number
  readonly weight: number
  /** 0 = retired */
  readonly service: number
}

/** What an earlier run left, sorted into what can go on and what nobody wants. */
export interface Adoption {
  readonly services: readonly AppliedService[]
  /** Entries to delete once pruning is allowed. */
  readonly orphans: {
    /** Service indexes that have a name but cannot be adopted. */
    readonly names: readonly number[]
    readonly frontends: readonly DumpedFrontend[]
    readonly addresses: readonly Address[]
    /** Backend indexes to retire. */
    readonly backends: readonly number[]
  }
  /** Backend indexes that an earlier run retired. */
  readonly retired: readonly number[]
}

/**
 * Rebuilds the applied state from a dump. Pure. Of two indexes with one name the one with
 * frontends stays; of two backends with one endpoint the one that a list names; whatever
 * points at nothing is an orphan.
 */
export function adopt(dump: KernelDump): Adoption {
  const frontendsOf = groupBy(dump.frontends, each => each.service)
  const backendsOf = groupBy(dump.backends, each => each.service)
  const byId = new Map<string, (typeof dump.names)[number]>()
  const orphanNames: number[] = []
  for (const name of dump.names) {
    const rival = byId.get(name.id)
    const weight = (index: number) => frontendsOf.get(index)?.length ?? 0
    if (!dump.services.has(name.index) || (rival && weight(rival.index) >= weight(name.index))) {
      orphanNames.push(name.index)
      continue
    }
    if (rival) orphanNames.push(rival.index)
    byId.set(name.id, name)
  }

  const orphanFrontends = new Set(dump.frontends)
  const orphanBackends = new Set(dump.backends.filter(each => each.service !== 0).map(each => each.index))
  const orphanAddresses = new Set(dump.addresses.keys())
  const services: AppliedService[] = []
  for (const { index, id, protocol } of byId.values()) {
    const found = dump.services.get(index) as DumpedService
    const applied: AppliedService = {
      id,
      index,
      protocol,
      scheduler: found.scheduler,
      affinitySeconds: found.affinitySeconds,
      internalLocal: found.internalLocal,
      externalLocal: found.externalLocal,
      sourceRanges: found.sourceRanges,
      cluster: listOf(found.cluster),
      local: listOf(found.local),
      addresses: new Set(),
      frontends: new Map(),
      backends: new Map(),
      revision: 0,
    }
    for (const each of frontendsOf.get(index) ?? []) {
      if (each.protocol !== protocol) continue
      applied.frontends.set(endpointKey(each.address, each.port), each)
      orphanFrontends.delete(each)
      if (each.kind !== 'NodePort') orphanAddresses.delete(each.address)
    }
    const listed = new Set([...applied.cluster.members, ...applied.local.members])
    for (const each of backendsOf.get(index) ?? []) {
      const key = endpointKey(each.address, each.port)
      if (applied.backends.has(key) && !listed.has(each.index)) continue
      const rival = applied.backends.get(key)
      if (rival) orphanBackends.add(rival.index)
      const { index: at, address, port, flags, weight } = each
      applied.backends.set(key, { index: at, address, port, flags, weight })
      orphanBackends.delete(each.index)
    }
    services.push(applied)
  }
  return {
    services,
    orphans: {
      names: orphanNames,
      frontends: [...orphanFrontends],
      addresses: [...orphanAddresses],
      backends: [...orphanBackends],
    },
    retired: dump.backends.filter(each => each.service === 0).map(each => each.index),
  }
}

/** Reads every map that the control plane writes. */
export function dumpMaps(maps: KernelMaps): KernelDump {
  const names = [...entriesOf(maps.handles.svcNames)].flatMap(([key, value]) => {
    const name = serviceName.decode(value, 0)
    const protocol = protocolName(name.proto)
    if (!protocol) return []
    const id = `${name.namespace}/${name.name}:${name.port}/${protocol}/${name.family === 6 ? 'IPv6' : 'IPv4'}`
    return [{ index: u32.decode(key, 0), id, protocol }]
  })
  const frontends: DumpedFrontend[] = []
  const addresses = new Map<Address, boolean>()
  const read = (map: BpfMap, family: 'IPv4' | 'IPv6') => {
    for (const [keyView, valueView] of entriesOf(map)) {
      const { address, port, proto } = decodeFrontendKey(keyView, 0, family)
      const value = frontend.decode(valueView, 0)
      if (value.kind === FrontendKind.ADDRESS) {
        addresses.set(address, (value.flags & FrontendFlag.OWN_ADDRESS) !== 0)
        continue
      }
      const kind = frontendKindName(value.kind)
      const protocol = protocolName(proto)
      if (!kind || !protocol) continue
      const size = family === 'IPv6' ? frontend6Key.size : frontend4Key.size
      const key = new Uint8Array(keyView.buffer, keyView.byteOffset, size).slice()
      frontends.push({ service: value.service, kind, address, port, protocol, key })
    }
  }
  read(maps.handles.frontends4, 'IPv4')
  read(maps.handles.frontends6, 'IPv6')
  return {
    names,
    frontends,
    addresses,
    ranges: dumpRanges(maps),
    services: new Map(names.map(({ index }) => [index, dumpService(maps, index)])),
    backends: dumpBackends(maps),
  }
}

export function dumpRanges(maps: KernelMaps): DumpedRange[] {
  return [...entriesOf(maps.handles.srcRanges)].map(([key]) => decodeSourceRangeKey(key, 0))
}

/** One service's record and lists. */
export function dumpService(maps: KernelMaps, index: number): DumpedService {
  const record = service.decode(maps.services.view, maps.services.offset(index))
  return {
    cluster: readList(maps, record.cluster),
    local: readList(maps, record.local),
    scheduler: schedulerName(record.scheduler),
    affinitySeconds: record.affinityS,
    internalLocal: (record.flags & ServiceFlag.INTERNAL_LOCAL) !== 0,
    externalLocal: (record.flags & ServiceFlag.EXTERNAL_LOCAL) !== 0,
    sourceRanges: sourceClasses(record.flags),
  }
}

/** Backends that are or were in use; an index that was never written is left out. */
export function dumpBackends(maps: KernelMaps): DumpedBackend[] {
  const { backends } = maps
  const dumped: DumpedBackend[] = []
  for (let index = 1; index < backends.length; index++) {
    const at = backends.offset(index)
    if (backends.view.getUint32(at + backend.offsets.generation, true) === 0) continue
    const { addr, port, flags, weight, service: owner } = backend.decode(backends.view, at)
    dumped.push({ index, address: addressFromBytes(addr), port, flags, weight, service: owner })
  }
  return dumped
}

function readList(maps: KernelMaps, word: bigint): { base: number; members: number[] } {
  const { base, count } = splitWord(word)
  const { slots } = maps
  if (base + count > maps.limits.slots) return { base: 0, members: [] }
  const members = Array.from({ length: count }, (_, i) => {
    const slot = base + i
    return u32.decode(slots.view, slots.offset(Math.floor(slot / SLOTS_PER_ELEMENT)) + (slot % SLOTS_PER_ELEMENT) * 4)
  })
  return { base, members }
}

function listOf(found: DumpedService['cluster']): AppliedList {
  if (found.base === 0) return { base: 0, capacity: 0, members: [] }
  return { base: found.base, capacity: capacityFor(found.members.length), members: [...found.members] }
}

/** Views of each key and value of a hash map. */
export function* entriesOf(map: BpfMap): Generator<[key: DataView, value: DataView]> {
  const { keys, values, count } = map.entries()
  const keySize = map.info.keySize
  const valueSize = map.userValueSize
  for (let i = 0; i < count; i++) {
    yield [
      new DataView(keys.buffer, keys.byteOffset + i * keySize, keySize),
      new DataView(values.buffer, values.byteOffset + i * valueSize, valueSize),
    ]
  }
}

function groupBy<T>(items: readonly T[], key: (item: T) => number): Map<number, T[]> {
  const groups = new Map<number, T[]>()
  for (const item of items) {
    const group = groups.get(key(item))
    if (group) group.push(item)
    else groups.set(key(item), [item])
  }
  return groups
}
