import { familyOf } from '../../../src/model/address.js'
import type { DesiredState, Frontend, ServicePort } from '../../../src/model/desired.js'
import { backendsOf } from '../../../src/plan/endpoints.js'
import type { Objects } from '../../../src/plan/planner.js'
import type { Place } from '../../../src/plan/topology.js'
import { expectedOutcome, waysToMerge } from './expected.js'
import { CLIENTS, type NftRules, type Outcome } from './nft-rules.js'

/** What differs, and of which Service (`namespace/name`; empty when it is nobody's). */
export interface Difference {
  readonly service: string
  /** Address or node port. */
  readonly frontend: string
  readonly text: string
}

/** Decisions of docs/semantics.md by which waggle differs on purpose; how often each was met. */
export const DECISIONS = {
  claimedTwice: 'a Service port claimed twice',
  duplicates: 'two endpoints of one address:port',
  sourceRanges: '`loadBalancerSourceRanges` of one family only',
} as const
export type Decision = keyof typeof DECISIONS

export interface Comparison {
  readonly differences: readonly Difference[]
  readonly frontends: number
  readonly decided: Readonly<Record<Decision, number>>
}

/** kube-proxy's rules of both families, and what waggle wants for the same objects. */
export interface Sides {
  readonly rules: Readonly<Record<'IPv4' | 'IPv6', NftRules>>
  readonly desired: DesiredState
  readonly objects: Objects
  readonly place: Place
  /** `ADDRESS PORT PROTOCOL` of frontends that more than one Service port claims. */
  readonly contested: ReadonlySet<string>
}

/** Every frontend that either side knows, for each kind of client. */
export function compare(sides: Sides): Comparison {
  const { rules, desired, contested } = sides
  const differences: Difference[] = []
  const decided = { claimedTwice: 0, duplicates: 0, sourceRanges: 0 }
  const ours = new Set<string>()
  const clusterIPs = new Set<string>()
  for (const port of desired.services.values()) {
    const service = `${port.namespace}/${port.name}`
    const differ = (frontend: Frontend, text: string) =>
      void differences.push({
        service,
        frontend: frontend.address,
        text: `${port.id} ${frontend.kind} ${frontend.address}:${frontend.port}: ${text}`,
      })
    for (const frontend of port.frontends) {
      const key = `${frontend.address} ${frontend.port} ${port.protocol}`
      ours.add(key)
      if (frontend.kind === 'ClusterIP') clusterIPs.add(frontend.address)
      if (contested.has(key)) {
        decided.claimedTwice++
        continue
      }
      for (const client of CLIENTS) {
        const theirs = rules[port.family].outcome(client, frontend.address, frontend.port, port.protocol)
        const wanted = expectedOutcome(port, frontend, client)
        if (same(wanted, theirs)) continue
        const ways = waysToMerge([...sides.objects.slicesOf(service)], port)
        const otherwise = ways?.some(way => {
          const backends = backendsOf(way, { name: port.portName, protocol: port.protocol }, port.family, sides.place)
          return same(expectedOutcome(port, frontend, client, backends), theirs)
        })
        if (otherwise) decided.duplicates++
        else differ(frontend, `for a client ${client}: waggle ${show(wanted)}, kube-proxy ${show(theirs)}`)
      }
      const sources = rules[port.family].sources(frontend.address, frontend.port, port.protocol)?.join(' ')
      const allowed = allowedSources(port, frontend, sides)
      if (sources === allowed) continue
      if (allowed === '' && sources === undefined) decided.sourceRanges++
      else differ(frontend, `sources: waggle ${allowed ?? 'all'}, kube-proxy ${sources ?? 'all'}`)
    }
  }
  for (const family of ['IPv4', 'IPv6'] as const) {
    for (const key of rules[family].frontends) {
      if (ours.has(key)) continue
      const [frontend = ''] = key.split(' ')
      differences.push({ service: '', frontend, text: `only kube-proxy serves ${key}` })
    }
    const theirs = rules[family].clusterIPs
    for (const address of theirs) {
      if (clusterIPs.has(address)) continue
      differences.push({ service: '', frontend: address, text: `only kube-proxy has the cluster IP ${address}` })
    }
  }
  return { differences, frontends: ours.size, decided }
}

/** In kube-proxy's form: its own load-balancer addresses among them when the node may use them. Undefined = all. */
function allowedSources(port: ServicePort, frontend: Frontend, { objects }: Sides): string | undefined {
  if (frontend.kind !== 'LoadBalancer' || port.sourceRanges === undefined) return undefined
  const { ranges, node } = port.sourceRanges
  const service = objects.service(`${port.namespace}/${port.name}`)
  const own = (service?.loadBalancerIPs ?? [])
    .filter(address => node && familyOf(address) === port.family)
    .map(address => `${address}/${port.family === 'IPv4' ? 32 : 128}`)
  return [...new Set([...ranges, ...own])].sort().join(' ')
}

function same(ours: Outcome, theirs: Outcome | undefined): boolean {
  return show(ours) === show(theirs)
}

function show(outcome: Outcome | undefined): string {
  if (outcome === undefined) return 'nothing'
  const { verdict, backends, affinity, masquerade } = outcome
  if (verdict !== 'backends') return verdict
  return `${backends.map(each => each.replace(/ /g, ':')).join(' ')}${affinity ? `, ${affinity} s` : ''}${masquerade ? ', masqueraded' : ''}`
}
