import type { EndpointObject } from '../model/objects.js'

/** Where this node is. */
export interface Place {
  readonly nodeName: string
  /** undefined = the node has no zone label. */
  readonly zone: string | undefined
}

/**
 * Which ready endpoints of a Service port the clients of this node are meant to use
 * (kube-proxy's topologyModeFromHints; KEP-2433, KEP-3015):
 * - every ready endpoint has node hints and one names this node: those for this node;
 * - every ready endpoint has zone hints and one names this zone: those for this zone;
 * - otherwise (a hint is missing anywhere, no zone, nothing for this one): all.
 */
export function meantFor(ready: readonly EndpointObject[], place: Place): (endpoint: EndpointObject) => boolean {
  const { nodeName, zone } = place
  const forNode = (endpoint: EndpointObject) => endpoint.nodes?.includes(nodeName) === true
  if (ready.every(endpoint => endpoint.nodes !== undefined) && ready.some(forNode)) return forNode
  if (zone === undefined) return () => true
  const forZone = (endpoint: EndpointObject) => endpoint.zones?.includes(zone) === true
  if (ready.every(endpoint => endpoint.zones !== undefined) && ready.some(forZone)) return forZone
  return () => true
}
