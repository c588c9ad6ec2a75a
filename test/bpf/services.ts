import { frontendKey, PROTOCOL_NUMBERS, sourceRangeKeyBytes } from '../../src/dataplane/ebpf/encode.js'
import { filterBitOfFrontend } from '../../src/dataplane/ebpf/filter.js'
import { fromBytes, type MapLayout, toBytes, u32 } from '../../src/ebpf/codec.js'
import {
  BackendFlag,
  DeviceTakes,
  DeviceXdp,
  FrontendFlag,
  FrontendKind,
  maps,
  Scheduler,
  ServiceFlag,
  type Tuple,
} from '../../src/ebpf/generated/layouts.js'
import type { BpfObject } from '../../src/ebpf/native.js'
import { addressFromBytes, addressToBytes, formatEndpoint, parseAddress } from '../../src/model/address.js'
import { parseCidr } from '../../src/model/cidr.js'
import type { Protocol } from '../../src/model/desired.js'
import { flowsOf, type Half, type TestFlows } from './flow-rig.js'
import { parseEndpoint } from './packet.js'

/** One Service port as a test writes it; endpoints as in `packet.ts`. */
export interface ServiceSpec {
  readonly proto: Protocol
  readonly frontends: readonly {
    readonly at: string
    readonly kind?: FrontendKind
    readonly ownAddress?: boolean
    readonly loopback?: boolean
  }[]
  readonly backends: readonly { readonly at: string; readonly local?: boolean; readonly weight?: number }[]
  /** Round robin unless given. */
  readonly scheduler?: Scheduler
  readonly affinityS?: number
  readonly internalLocal?: boolean
  readonly externalLocal?: boolean
  /** Networks that may use its load-balancer frontends; unset = everybody. */
  readonly sourceRanges?: readonly string[]
}

export interface ServiceHandle {
  readonly index: number
  /** Indexes of its backends, in the order of the spec. */
  readonly backends: readonly number[]
}

/** A flow table entry in words. */
export interface FlowEntry {
  readonly proto: number
  /** As the packet arrives: `SRC > DST`. */
  readonly key: string
  /** What it becomes. */
  readonly to: string
  readonly flow: Half
}

interface BackendRest {
  readonly flags: number
  readonly generation: number
  readonly service: number
  readonly weight?: number
}

/** Writes the maps of a loaded object as the control plane does, with round robin (a cursor on each CPU) and fresh indexes. */
export class TestServices {
  #testFlows: TestFlows | undefined
  readonly #object: BpfObject
  readonly #specs = new Map<number, ServiceSpec>()
  readonly #slots: number[] = []
  #backends = 0
  #filter: Uint32Array | undefined

  constructor(object: BpfObject) {
    this.#object = object
  }

  add(spec: ServiceSpec): ServiceHandle {
    const index = this.#specs.size + 1
    this.#specs.set(index, spec)
    const handle = { index, backends: spec.backends.map(() => ++this.#backends) }
    spec.backends.forEach((backend, i) => {
      const flags = BackendFlag.IN_CLUSTER | (backend.local ? BackendFlag.LOCAL | BackendFlag.IN_LOCAL : 0)
      const { weight = 1 } = backend
      this.#putBackend(handle.backends[i] ?? 0, backend.at, { flags, generation: 1, service: index, weight })
    })
    this.#putService(handle, handle.backends)
    for (const range of spec.sourceRanges ?? []) this.putRange(index, range)
    for (const { at, kind, ownAddress, loopback } of spec.frontends) {
      const { address, port } = parseEndpoint(at)
      const flags = (ownAddress ? FrontendFlag.OWN_ADDRESS : 0) | (loopback ? FrontendFlag.LOOPBACK : 0)
      this.#putFrontend(address, port, PROTOCOL_NUMBERS[spec.proto], {
        service: index,
        kind: kind ?? FrontendKind.NODE_PORT,
        flags,
      })
      this.#putFrontend(address, 0, 0, { service: 0, kind: FrontendKind.ADDRESS, flags })
    }
    return handle
  }

  /** A network that may use a service's load-balancer frontends, or with service 0 one of the cluster's pods. */
  putRange(service: number, range: string): void {
    this.#object.map(maps.srcRanges.name).update(rangeKey(service, range), toBytes(u32, 1))
  }

  deleteRange(service: number, range: string): void {
    this.#object.map(maps.srcRanges.name).delete(rangeKey(service, range))
  }

  /** Leaves only these backends for new flows; none is removed. */
  setList(service: ServiceHandle, backends: readonly number[]): void {
    this.#putService(service, backends)
  }

  /** Takes a backend out of the lists and raises its generation, as a removal does. */
  removeBackend(service: ServiceHandle, backend: number): void {
    const spec = this.#spec(service)
    const at = spec.backends[service.backends.indexOf(backend)]?.at ?? ''
    this.#putService(
      service,
      service.backends.filter(each => each !== backend),
    )
    this.#putBackend(backend, at, { flags: 0, generation: 2, service: service.index })
  }

  /** A frontend whose service was never written. */
  addBrokenFrontend(at: string, proto: Protocol, service: number): void {
    const { address, port } = parseEndpoint(at)
    const value = { service, kind: FrontendKind.NODE_PORT, flags: 0 }
    this.#putFrontend(address, port, PROTOCOL_NUMBERS[proto], value)
  }

  /** `mac`: the device gets frames for it; XDP serves it and sends by it. */
  setDevice(ifindex: number, addr4: string | undefined, addr6: string | undefined, mac?: Uint8Array): void {
    const bytes = (address: string | undefined) => (address ? bytesOf(address) : new Uint8Array(16))
    this.#put(maps.devices, ifindex, {
      addr4: bytes(addr4),
      addr6: bytes(addr6),
      mac: [...(mac ?? new Uint8Array(6))],
      takesFrames: mac ? DeviceTakes.TX | DeviceTakes.REDIRECT : 0,
      xdp: mac ? DeviceXdp.GENERIC : DeviceXdp.OFF,
    })
  }

  /** All halves of all flows, forward ones first. */
  flows(): FlowEntry[] {
    return this.#flows()
      .halves()
      .map(half => {
        return { proto: half.key.proto, key: textOf(half.key), to: textOf(half.to), flow: half }
      })
  }

  /** Sets when each half was last seen, in nanoseconds before what it says now; before the boot of the machine, if need be. */
  ageFlows(by: bigint): void {
    this.#flows().age(by)
  }

  /** Deletes the halves of one direction, which only the hash map has. */
  deleteHalves(direction: number): void {
    const map = this.#object.map(maps.flows.name)
    const { keys, values, count } = map.entries()
    for (let i = 0; i < count; i++) {
      const flow = fromBytes(maps.flows.value, values, i * maps.flows.value.size)
      if (flow.direction === direction)
        map.delete(keys.subarray(i * maps.flows.key.size, (i + 1) * maps.flows.key.size))
    }
  }

  /** Ends the flows of a client's endpoint. */
  forgetFlow(client: string): void {
    this.#flows().end(({ key }) => formatEndpoint(addressFromBytes(key.src), key.sport) === client)
  }

  /** Ends all flows; the services stay. */
  forgetFlows(): void {
    this.#flows().end(() => true)
  }

  /** Empties every hash map that steers packets; indexes go on counting, slots begin anew. */
  clear(): void {
    this.#slots.length = 0
    for (const layout of [maps.frontends4, maps.frontends6, maps.srcRanges, maps.affinity]) {
      const map = this.#object.map(layout.name)
      const { keys } = map.entries()
      map.deleteBatch(keys)
    }
    this.forgetFlows()
  }

  #flows(): TestFlows {
    this.#testFlows ??= flowsOf(this.#object)
    return this.#testFlows
  }

  #spec(service: ServiceHandle): ServiceSpec {
    const spec = this.#specs.get(service.index)
    if (!spec) throw new Error(`no service ${service.index}`)
    return spec
  }

  #putService(handle: ServiceHandle, backends: readonly number[]): void {
    const spec = this.#spec(handle)
    const local = backends.filter(each => spec.backends[handle.backends.indexOf(each)]?.local)
    this.#put(maps.services, handle.index, {
      cluster: this.#range(backends),
      local: this.#range(local),
      affinityS: spec.affinityS ?? 0,
      scheduler: spec.scheduler ?? Scheduler.RR,
      flags:
        (spec.internalLocal ? ServiceFlag.INTERNAL_LOCAL : 0) |
        (spec.externalLocal ? ServiceFlag.EXTERNAL_LOCAL : 0) |
        (spec.sourceRanges ? ServiceFlag.SOURCE_RANGES : 0),
    })
  }

  #putBackend(index: number, at: string, rest: BackendRest): void {
    const { address, port } = parseEndpoint(at)
    this.#put(maps.backends, index, { addr: bytesOf(address), port, weight: 1, ...rest })
  }

  #putFrontend(
    address: string,
    port: number,
    proto: number,
    value: { service: number; kind: FrontendKind; flags: number },
  ): void {
    const addr = bytesOf(address)
    this.#letPass(frontendKey(addressFromBytes(addr), port, proto))
    if (address.includes(':')) this.#put(maps.frontends6, { addr, port, proto }, value)
    else this.#put(maps.frontends4, { addr: new DataView(addr.buffer).getUint32(12), port, proto }, value)
  }

  /** Tells the filter of a frontend; sock.bpf.o has none. */
  #letPass(key: Uint8Array): void {
    if (!this.#object.mapNames().includes(maps.filter.name)) return
    this.#filter ??= new Uint32Array(this.#object.map(maps.filter.name).mmap())
    const bit = filterBitOfFrontend(key)
    this.#filter[bit >>> 5] = (this.#filter[bit >>> 5] ?? 0) | (1 << (bit & 31))
  }

  /** Puts a list into fresh slots; the word for the service. */
  #range(backends: readonly number[]): bigint {
    const base = this.#slots.length
    this.#slots.push(...backends)
    for (let block = Math.floor(base / 16); block * 16 < this.#slots.length; block++) {
      const words = Array.from({ length: 16 }, (_, i) => this.#slots[block * 16 + i] ?? 0)
      this.#put(maps.slots, block, { words })
    }
    return (BigInt(backends.length) << 32n) | BigInt(base)
  }

  #put<K, V>(layout: MapLayout<K, V>, key: K, value: V): void {
    this.#object.map(layout.name).update(toBytes(layout.key, key), toBytes(layout.value, value))
  }
}

function rangeKey(service: number, range: string): Uint8Array {
  const cidr = parseCidr(range)
  if (cidr === undefined) throw new Error(`not a network: ${range}`)
  return sourceRangeKeyBytes(service, cidr)
}

function textOf(tuple: Tuple): string {
  const from = formatEndpoint(addressFromBytes(tuple.src), tuple.sport)
  return `${from} > ${formatEndpoint(addressFromBytes(tuple.dst), tuple.dport)}`
}

/** 16 bytes; `::` stands for none. */
function bytesOf(text: string): Uint8Array {
  const address = parseAddress(text)
  if (address === undefined) throw new Error(`not an address: ${text}`)
  return addressToBytes(address)
}
