import type { Address } from '../../model/address.js'
import { type Cidr, cidrHas } from '../../model/cidr.js'
import type { Backend, DesiredState, FrontendKind, Protocol, ServicePort } from '../../model/desired.js'
import { SCTP, TCP, UDP } from './packet.js'

/** A backend of one Service port, from when it came until it is removed. */
export interface MemoryBackend {
  readonly address: Address
  readonly port: number
  /** As the last desired state says. */
  desired: Backend
  removed: boolean
}

/** A Service port, from when it came until it is removed; what is remembered for it goes with it. */
export interface MemoryService {
  desired: ServicePort
  readonly backends: Map<string, MemoryBackend>
  /** By client: backends of which one it was given, the one or, unseen, any of them, and when it used it last. */
  readonly affinities: Map<Address, { readonly backends: readonly MemoryBackend[]; readonly seen: number }>
  /** Where a hash leads, as long as the list is the same: the same client or connection, the same backend. */
  readonly hashed: Map<string, MemoryBackend>
}

export interface MemoryFrontend {
  readonly service: MemoryService
  readonly kind: FrontendKind
  readonly address: Address
}

/** IANA numbers. */
const PROTOCOLS: Readonly<Record<Protocol, number>> = { TCP, UDP, SCTP }

/** The Service ports that are served, and who leads to them. */
export class MemoryServices {
  readonly #services = new Map<string, MemoryService>()
  readonly #frontends = new Map<string, MemoryFrontend>()
  /** Addresses of Services, node ports aside. */
  readonly #addresses = new Set<Address>()
  #podNetworks: readonly Cidr[] = []

  get size(): number {
    return this.#services.size
  }

  /** In no particular order. */
  get all(): Iterable<MemoryService> {
    return this.#services.values()
  }

  /** prune = what is not desired goes; else it stays. */
  apply({ services, podNetworks = [] }: DesiredState, prune: boolean): void {
    for (const port of services.values()) this.#put(port)
    for (const [id, service] of prune ? this.#services : []) {
      if (services.has(id)) continue
      for (const backend of service.backends.values()) backend.removed = true
      this.#services.delete(id)
    }
    this.#podNetworks = prune ? podNetworks : [...new Set([...this.#podNetworks, ...podNetworks])]
    this.#lookUpAnew()
  }

  frontend(address: Address, port: number, proto: number): MemoryFrontend | undefined {
    return this.#frontends.get(`${proto} ${address} ${port}`)
  }

  /** Whether an address is a Service's, whatever the port. */
  hasAddress(address: Address): boolean {
    return this.#addresses.has(address)
  }

  /** Whether an address is one of a pod of the cluster. */
  isPod(address: Address): boolean {
    return this.#podNetworks.some(network => cidrHas(network, address))
  }

  #put(desired: ServicePort): void {
    const known = this.#services.get(desired.id)
    const service = known ?? { desired, backends: new Map(), affinities: new Map(), hashed: new Map() }
    if (!known) this.#services.set(desired.id, service)
    else if (known.desired.scheduler !== desired.scheduler || known.desired.backends !== desired.backends) {
      known.hashed.clear()
    }
    service.desired = desired
    const keys = new Set<string>()
    for (const backend of desired.backends) {
      const key = `${backend.address} ${backend.port}`
      keys.add(key)
      const there = service.backends.get(key)
      if (there) there.desired = backend
      else service.backends.set(key, { address: backend.address, port: backend.port, desired: backend, removed: false })
    }
    for (const [key, backend] of service.backends) {
      if (keys.has(key)) continue
      backend.removed = true
      service.backends.delete(key)
    }
  }

  #lookUpAnew(): void {
    this.#frontends.clear()
    this.#addresses.clear()
    for (const service of this.#services.values()) {
      const proto = PROTOCOLS[service.desired.protocol]
      for (const { kind, address, port } of service.desired.frontends) {
        const key = `${proto} ${address} ${port}`
        // One that is there twice under two kinds counts once, as the first.
        if (this.#frontends.get(key)?.service !== service) this.#frontends.set(key, { service, kind, address })
        if (kind !== 'NodePort') this.#addresses.add(address)
      }
    }
  }
}
