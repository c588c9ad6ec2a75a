import type { Backend, Frontend, ServicePort } from '../../../src/model/desired.js'
import type { EndpointObject, EndpointSliceObject } from '../../../src/model/objects.js'
import type { Client, Outcome } from './nft-rules.js'

/**
 * What a Service port of ours means for a client of one of its frontends, by the rules of
 * docs/semantics.md, in kube-proxy's terms. `masquerade` is where the source address cannot
 * be kept for all backends: where a backend on another node may be chosen.
 */
export function expectedOutcome(
  port: ServicePort,
  frontend: Frontend,
  client: Client,
  backends: readonly Backend[] = port.backends,
): Outcome {
  const internal = frontend.kind === 'ClusterIP'
  const local = internal ? port.internalLocal : port.externalLocal && client === 'outside'
  const list = backends.filter(each => (local ? each.inLocal : each.inCluster))
  if (list.length === 0) {
    const elsewhere = backends.some(each => each.inCluster || each.inLocal)
    return { verdict: elsewhere ? 'drop' : 'reject', backends: [], affinity: 0, masquerade: false }
  }
  return {
    verdict: 'backends',
    backends: list.map(each => `${each.address} ${each.port}`).sort(),
    affinity: port.affinitySeconds,
    masquerade: masquerades(internal, port.externalLocal, client),
  }
}

/** kube-proxy's matrix, in its terms; where ours differs is in docs/semantics.md, and no matter of the plan. */
function masquerades(internal: boolean, externalLocal: boolean, client: Client): boolean {
  if (internal) return client !== 'pod'
  return client === 'node' || !externalLocal
}

/** More ways than these to tell two endpoints of one address:port apart are not tried. */
const MOST_WAYS = 64

/**
 * The slices as kube-proxy may see them where several endpoints have one address:port: it
 * keeps one, any that does not terminate, or any if all do, and which one depends on what it
 * happens to read first. Undefined: nothing of the kind, or too many ways.
 */
export function waysToMerge(
  slices: readonly EndpointSliceObject[],
  port: Pick<ServicePort, 'portName' | 'protocol' | 'family'>,
): EndpointSliceObject[][] | undefined {
  const groups = new Map<string, EndpointSliceObject[]>()
  let twice = false
  for (const slice of slices) {
    if (slice.family !== port.family) continue
    for (const slicePort of slice.ports) {
      if (slicePort.name !== port.portName || slicePort.protocol !== port.protocol) continue
      for (const endpoint of slice.endpoints) {
        const key = `${endpoint.addresses[0]} ${slicePort.port}`
        const single = { ...slice, ports: [slicePort], endpoints: [endpoint] }
        const others = groups.get(key)
        if (others === undefined) groups.set(key, [single])
        else {
          others.push(single)
          twice = true
        }
      }
    }
  }
  if (!twice) return undefined
  let ways: EndpointSliceObject[][] = [[]]
  for (const group of groups.values()) {
    const running = group.filter(each => !only(each).terminating)
    const choices = distinct(running.length > 0 ? running : group)
    ways = ways.flatMap(way => choices.map(choice => [...way, choice]))
    if (ways.length > MOST_WAYS) return undefined
  }
  return ways
}

function distinct(choices: readonly EndpointSliceObject[]): EndpointSliceObject[] {
  return [...new Map(choices.map(each => [JSON.stringify(only(each)), each])).values()]
}

function only(slice: EndpointSliceObject): EndpointObject {
  return slice.endpoints[0] as EndpointObject
}
