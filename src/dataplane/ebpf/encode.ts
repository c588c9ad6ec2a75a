import { toBytes } from '../../ebpf/codec.js'
import {
  BackendFlag,
  FrontendFlag,
  FrontendKind,
  frontend,
  frontend4Key,
  frontend6Key,
  Scheduler,
  ServiceFlag,
  sourceRangeKey,
} from '../../ebpf/generated/layouts.js'
import { type Address, addressFromBytes, addressToBytes, familyOf } from '../../model/address.js'
import { type Cidr, prefixInMapped, splitCidr } from '../../model/cidr.js'
import type * as model from '../../model/desired.js'

/** Desired state to the bytes of the maps and back: pure. */

const KINDS: Readonly<Record<model.FrontendKind, number>> = {
  ClusterIP: FrontendKind.CLUSTER_IP,
  ExternalIP: FrontendKind.EXTERNAL_IP,
  LoadBalancer: FrontendKind.LOAD_BALANCER,
  NodePort: FrontendKind.NODE_PORT,
}
const KIND_NAMES = new Map(Object.entries(KINDS).map(([name, value]) => [value, name as model.FrontendKind]))

const SCHEDULERS: Readonly<Record<model.Scheduler, number>> = {
  random: Scheduler.RANDOM,
  rr: Scheduler.RR,
  'source-hash': Scheduler.SOURCE_HASH,
  maglev: Scheduler.MAGLEV,
  'least-conn': Scheduler.LEAST_CONN,
}
const SCHEDULER_NAMES = new Map(Object.entries(SCHEDULERS).map(([name, value]) => [value, name as model.Scheduler]))

/** IANA protocol numbers of what the dataplane translates. */
export const PROTOCOL_NUMBERS: Readonly<Record<model.Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 }
const PROTOCOL_NAMES = new Map(Object.entries(PROTOCOL_NUMBERS).map(([name, value]) => [value, name as model.Protocol]))

/** The inverse of {@link PROTOCOL_NUMBERS}; undefined for a number we never write. */
export function protocolName(number: number): model.Protocol | undefined {
  return PROTOCOL_NAMES.get(number)
}

/** `port` and `proto` are 0 for the entry that says "this address is a Service's". */
export function frontendKey(address: Address, port: number, proto: number): Uint8Array {
  const addr = addressToBytes(address)
  if (familyOf(address) === 'IPv6') return toBytes(frontend6Key, { addr, port, proto })
  return toBytes(frontend4Key, { addr: new DataView(addr.buffer).getUint32(12), port, proto })
}

/** A key of frontends4 (8 bytes) or frontends6 (20 bytes) at `at`. */
export function decodeFrontendKey(view: DataView, at: number, family: model.ServicePort['family']) {
  if (family === 'IPv6') {
    const key = frontend6Key.decode(view, at)
    return { address: addressFromBytes(key.addr), port: key.port, proto: key.proto }
  }
  const key = frontend4Key.decode(view, at)
  const octets = [key.addr >>> 24, (key.addr >>> 16) & 255, (key.addr >>> 8) & 255, key.addr & 255]
  return { address: octets.join('.') as Address, port: key.port, proto: key.proto }
}

export function frontendValue(service: number, kind: model.FrontendKind, address: Address): Uint8Array {
  const loopback = address === '127.0.0.1' || address === '::1'
  return toBytes(frontend, { service, kind: KINDS[kind], flags: loopback ? FrontendFlag.LOOPBACK : 0 })
}

/** Value of the port-0 entry; `own` = the address is one of the node's own. */
export function addressValue(own: boolean): Uint8Array {
  return toBytes(frontend, { service: 0, kind: FrontendKind.ADDRESS, flags: own ? FrontendFlag.OWN_ADDRESS : 0 })
}

/** undefined for kinds that no Service port has. */
export function frontendKindName(kind: number): model.FrontendKind | undefined {
  return KIND_NAMES.get(kind)
}

export function schedulerNumber(scheduler: model.Scheduler): number {
  return SCHEDULERS[scheduler]
}

export function schedulerName(scheduler: number): model.Scheduler {
  return SCHEDULER_NAMES.get(scheduler) ?? 'random'
}

/** What a service's record says of its source ranges; the ranges are in a map of their own. */
export type SourceClasses = Pick<model.SourceRanges, 'node' | 'pods'>

export function serviceFlags(service: {
  readonly internalLocal: boolean
  readonly externalLocal: boolean
  readonly sourceRanges?: SourceClasses | undefined
}): number {
  const { internalLocal, externalLocal, sourceRanges } = service
  return (
    (internalLocal ? ServiceFlag.INTERNAL_LOCAL : 0) |
    (externalLocal ? ServiceFlag.EXTERNAL_LOCAL : 0) |
    (sourceRanges ? ServiceFlag.SOURCE_RANGES : 0) |
    (sourceRanges?.node ? ServiceFlag.SOURCE_NODE : 0) |
    (sourceRanges?.pods ? ServiceFlag.SOURCE_PODS : 0)
  )
}

/** The inverse of {@link serviceFlags}, for what it says of source ranges. */
export function sourceClasses(flags: number): SourceClasses | undefined {
  if ((flags & ServiceFlag.SOURCE_RANGES) === 0) return undefined
  return { node: (flags & ServiceFlag.SOURCE_NODE) !== 0, pods: (flags & ServiceFlag.SOURCE_PODS) !== 0 }
}

/** Key of the trie of source ranges; service 0 = the pod networks. */
export function sourceRangeKeyBytes(service: number, range: Cidr): Uint8Array {
  const { base } = splitCidr(range)
  const prefix = SERVICE_BITS + prefixInMapped(range)
  return toBytes(sourceRangeKey, { prefix, service, addr: addressToBytes(base) })
}

export function decodeSourceRangeKey(view: DataView, at: number) {
  const { prefix, service, addr } = sourceRangeKey.decode(view, at)
  return { service, base: addressFromBytes(addr), prefix: prefix - SERVICE_BITS }
}

/** Bits of a trie's key before the address. */
const SERVICE_BITS = 32

export function backendFlags(backend: { local: boolean; inCluster: boolean; inLocal: boolean }): number {
  return (
    (backend.local ? BackendFlag.LOCAL : 0) |
    (backend.inCluster ? BackendFlag.IN_CLUSTER : 0) |
    (backend.inLocal ? BackendFlag.IN_LOCAL : 0)
  )
}
