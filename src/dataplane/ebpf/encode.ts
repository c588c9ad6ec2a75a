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
} from '../../ebpf/generated/layouts.js'
import { type Address, addressFromBytes, addressToBytes, familyOf } from '../../model/address.js'
import type * as model from '../../model/desired.js'

/** Desired state to the bytes of the maps and back: pure. */

const KINDS: Readonly<Record<model.FrontendKind, number>> = {
  ClusterIP: FrontendKind.CLUSTER_IP,
  ExternalIP: FrontendKind.EXTERNAL_IP,
  LoadBalancer: FrontendKind.LOAD_BALANCER,
  NodePort: FrontendKind.NODE_PORT,
}
const KIND_NAMES = new Map(Object.entries(KINDS).map(([name, value]) => [value, name as model.FrontendKind]))

const SCHEDULERS: Readonly<Record<model.Scheduler, number>> = { random: Scheduler.RANDOM, rr: Scheduler.RR }
const SCHEDULER_NAMES = new Map(Object.entries(SCHEDULERS).map(([name, value]) => [value, name as model.Scheduler]))

/** IANA protocol numbers of what the dataplane translates. */
export const PROTOCOL_NUMBERS: Readonly<Partial<Record<model.Protocol, number>>> = { TCP: 6, UDP: 17 }

/** The inverse of {@link PROTOCOL_NUMBERS}; undefined for a number we never write. */
export function protocolName(number: number): model.Protocol | undefined {
  return number === 6 ? 'TCP' : number === 17 ? 'UDP' : undefined
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

export function frontendValue(service: number, kind: model.FrontendKind): Uint8Array {
  return toBytes(frontend, { service, kind: KINDS[kind], flags: 0 })
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

export function serviceFlags(service: { internalLocal: boolean; externalLocal: boolean }): number {
  return (
    (service.internalLocal ? ServiceFlag.INTERNAL_LOCAL : 0) | (service.externalLocal ? ServiceFlag.EXTERNAL_LOCAL : 0)
  )
}

export function backendFlags(backend: { local: boolean; inCluster: boolean; inLocal: boolean }): number {
  return (
    (backend.local ? BackendFlag.LOCAL : 0) |
    (backend.inCluster ? BackendFlag.IN_CLUSTER : 0) |
    (backend.inLocal ? BackendFlag.IN_LOCAL : 0)
  )
}
