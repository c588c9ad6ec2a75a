import type { Address, Family } from '../model/address.js'
import type { Backend, Protocol } from '../model/desired.js'
import type { EndpointObject, EndpointSliceObject } from '../model/objects.js'
import { meantFor, type Place } from './topology.js'

/** One address:port with the better of its conditions when several endpoints have it. */
interface Candidate {
  readonly address: Address
  readonly port: number
  readonly endpoint: EndpointObject
  readonly local: boolean
  readonly weight: number
}

/**
 * Backends of one Service port in one family, out of all slices of the Service, whatever
 * their order. A slice port counts when its name and protocol are the Service port's;
 * its number is the only truth, so one name may have several numbers.
 *
 * Results (kube-proxy's CategorizeEndpoints; KEP-1669):
 * - inCluster: the ready ones that topology hints mean for this place; when no endpoint of
 *   the cluster is ready, those that serve while terminating;
 * - inLocal: of this node the ready ones; when no endpoint of this node is ready, those
 *   that serve while terminating;
 * - in no list, but kept for the flows they have: all others that serve.
 */
export function backendsOf(
  slices: Iterable<EndpointSliceObject>,
  port: { readonly name: string; readonly protocol: Protocol },
  family: Family,
  place: Place,
): Backend[] {
  const candidates = merge(slices, port, family, place.nodeName)
  const ready: EndpointObject[] = []
  let anyLocalReady = false
  for (const { endpoint, local } of candidates) {
    if (!endpoint.ready) continue
    ready.push(endpoint)
    if (local) anyLocalReady = true
  }
  const meantForUs = meantFor(ready, place)
  const backends: Backend[] = []
  for (const { address, port, endpoint, local, weight } of candidates) {
    if (!endpoint.ready && !endpoint.serving) continue
    const fallback = endpoint.serving && endpoint.terminating
    backends.push({
      address,
      port,
      local,
      inCluster: ready.length > 0 ? endpoint.ready && meantForUs(endpoint) : fallback,
      inLocal: local && (anyLocalReady ? endpoint.ready : fallback),
      weight,
    })
  }
  return backends.sort(compareEndpoints)
}

/** Order of backends and frontends of one kind: address as text, then port. */
export function compareEndpoints(
  a: { readonly address: Address; readonly port: number },
  b: { readonly address: Address; readonly port: number },
): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}

function merge(
  slices: Iterable<EndpointSliceObject>,
  port: { readonly name: string; readonly protocol: Protocol },
  family: Family,
  nodeName: string,
): readonly Candidate[] {
  const best = new Map<string, Candidate>()
  for (const slice of slices) {
    if (slice.family !== family) continue
    for (const slicePort of slice.ports) {
      if (slicePort.name !== port.name || slicePort.protocol !== port.protocol) continue
      for (const endpoint of slice.endpoints) {
        const address = endpoint.addresses[0]
        if (address === undefined) continue
        const local = endpoint.nodeName === nodeName
        const candidate = { address, port: slicePort.port, endpoint, local, weight: slice.weight ?? 1 }
        const key = `${address} ${slicePort.port}`
        const other = best.get(key)
        if (other === undefined || rank(candidate) > rank(other)) best.set(key, candidate)
      }
    }
  }
  return [...best.values()]
}

/**
 * Of two endpoints with one address:port (a stuck pod and a fresh one, a slice that moves
 * to another) the more usable counts, among equals the local one, as in kube-proxy.
 */
function rank({ endpoint, local }: Candidate): number {
  const usable = endpoint.ready ? 3 : endpoint.serving ? (endpoint.terminating ? 2 : 1) : 0
  return 2 * usable + (local ? 1 : 0)
}
