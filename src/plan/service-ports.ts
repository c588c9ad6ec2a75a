import { type Address, type Family, familyOf } from '../model/address.js'
import type { Frontend, FrontendKind, Scheduler, ServicePort } from '../model/desired.js'
import type { EndpointSliceObject, ServiceObject, ServicePortObject } from '../model/objects.js'
import { backendsOf, compareEndpoints } from './endpoints.js'
import { type Inside, sourceRangesOf } from './source-ranges.js'
import type { Place } from './topology.js'

/** What plan knows of this node. */
export interface NodeFacts extends Place, Inside {
  /** The addresses of this node that serve node ports. */
  readonly nodePortAddresses: readonly Address[]
  /** For Services that do not choose one. */
  readonly defaultScheduler: Scheduler
}

const KIND_ORDER: Readonly<Record<FrontendKind, number>> = { ClusterIP: 0, ExternalIP: 1, LoadBalancer: 2, NodePort: 3 }

/** Order of frontends: kind, address as text, port. */
export function compareFrontends(a: Frontend, b: Frontend): number {
  return KIND_ORDER[a.kind] - KIND_ORDER[b.kind] || compareEndpoints(a, b)
}

/**
 * The Service ports of one Service: one for each port and each family in which it has a
 * cluster IP (without one, that family is not served at all, as in kube-proxy). All
 * frontends the Service claims are in it, clashes with other Services not yet decided.
 */
export function servicePortsOf(
  service: ServiceObject,
  slices: readonly EndpointSliceObject[],
  facts: NodeFacts,
): ServicePort[] {
  const ports: ServicePort[] = []
  for (const port of service.ports) {
    for (const clusterIP of service.clusterIPs) {
      const family = familyOf(clusterIP)
      const { namespace, name, affinitySeconds, internalLocal, externalLocal, healthCheckNodePort } = service
      const sourceRanges = sourceRangesOf(service.sourceRanges, family, facts)
      ports.push({
        id: `${namespace}/${name}:${port.name}/${port.protocol}/${family}`,
        namespace,
        name,
        portName: port.name,
        protocol: port.protocol,
        family,
        scheduler: schedulerOf(service, facts),
        affinitySeconds,
        internalLocal,
        externalLocal,
        ...(sourceRanges && { sourceRanges }),
        ...(healthCheckNodePort !== undefined && { healthCheckNodePort }),
        frontends: frontendsOf(service, port, family, facts.nodePortAddresses),
        backends: backendsOf(slices, port, family, facts),
      })
    }
  }
  return ports
}

/**
 * Maglev hashes connections. With session affinity the first choice of a client has to be
 * the same whatever its port and whichever node it comes to, and that is the same table
 * with a hash of the client alone.
 */
function schedulerOf(service: ServiceObject, facts: NodeFacts): Scheduler {
  const scheduler = service.scheduler ?? facts.defaultScheduler
  return scheduler === 'maglev' && service.affinitySeconds > 0 ? 'source-hash' : scheduler
}

/** Where one port of the Service wants to be reached; of two kinds with one address:port the first in order. */
function frontendsOf(
  service: ServiceObject,
  port: ServicePortObject,
  family: Family,
  nodeAddresses: readonly Address[],
): Frontend[] {
  const claimed = new Map<string, Frontend>()
  const claim = (kind: FrontendKind, addresses: readonly Address[], number: number) => {
    for (const address of addresses) {
      const key = `${address} ${number}`
      if (familyOf(address) === family && !claimed.has(key)) claimed.set(key, { kind, address, port: number })
    }
  }
  claim('ClusterIP', service.clusterIPs, port.port)
  // Before external IPs: an address that is both must not escape the load balancer's source ranges.
  claim('LoadBalancer', service.loadBalancerIPs, port.port)
  claim('ExternalIP', service.externalIPs, port.port)
  // Whatever the type: allocateLoadBalancerNodePorts works through a missing number alone.
  if (port.nodePort !== 0) claim('NodePort', nodeAddresses, port.nodePort)
  return [...claimed.values()].sort(compareFrontends)
}
