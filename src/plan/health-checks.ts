import type { Address, Family } from '../model/address.js'
import type { EndpointSliceObject, ObjectKey, ServiceObject } from '../model/objects.js'

/** What load balancers may ask about one Service. */
export interface HealthCheck {
  readonly namespace: string
  readonly name: string
  /** spec.healthCheckNodePort */
  readonly port: number
  /** Ready endpoints of this node, each address counted once. */
  readonly localEndpoints: Readonly<Record<Family, number>>
}

/** The objects that health checks are made of; the store is one. */
export interface HealthCheckObjects {
  service(key: ObjectKey): ServiceObject | undefined
  slicesOf(service: ObjectKey): Iterable<EndpointSliceObject>
}

/**
 * The health checks of all Services. Work is proportional to the Services that changed:
 * each of them is counted anew, also when nothing of it is on this node any more.
 */
export class HealthChecks {
  readonly #nodeName: string
  readonly #checks = new Map<ObjectKey, HealthCheck>()

  constructor(nodeName: string) {
    this.#nodeName = nodeName
  }

  /** Those that are wanted now, by Service. */
  get all(): ReadonlyMap<ObjectKey, HealthCheck> {
    return this.#checks
  }

  /** Looks at the Services `services` anew; true when one of them has or had a health check. */
  update(objects: HealthCheckObjects, services: Iterable<ObjectKey>): boolean {
    let any = false
    for (const key of services) {
      const check = healthCheckOf(objects.service(key), objects.slicesOf(key), this.#nodeName)
      any ||= check !== undefined || this.#checks.has(key)
      if (check === undefined) this.#checks.delete(key)
      else this.#checks.set(key, check)
    }
    return any
  }
}

/**
 * The health check of one Service; undefined when it has no health check port. An
 * endpoint counts when it is ready, whatever its ports are called: kube-proxy's
 * LocalReadyEndpoints. One that only serves while it terminates does not count, so load
 * balancers turn away while the last flows end (KEP-1669).
 */
export function healthCheckOf(
  service: ServiceObject | undefined,
  slices: Iterable<EndpointSliceObject>,
  nodeName: string,
): HealthCheck | undefined {
  if (service?.healthCheckNodePort === undefined) return undefined
  const local: Record<Family, Set<Address>> = { IPv4: new Set(), IPv6: new Set() }
  for (const slice of slices) {
    if (slice.ports.length === 0) continue
    for (const { addresses, ready, nodeName: node } of slice.endpoints) {
      if (ready && node === nodeName && addresses[0] !== undefined) local[slice.family].add(addresses[0])
    }
  }
  const { namespace, name, healthCheckNodePort: port } = service
  return { namespace, name, port, localEndpoints: { IPv4: local.IPv4.size, IPv6: local.IPv6.size } }
}
