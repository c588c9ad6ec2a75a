import type { Inspection, ServicePortName } from '../dataplane/inspection.js'
import { type Address, type Family, familyOf, formatEndpoint } from '../model/address.js'
import type { DesiredState, ServicePort } from '../model/desired.js'

/** One thing in which the manifests and the kernel differ. */
export interface DifferenceRow {
  /** {@link ServicePort.id}; empty when nothing says whose it is. */
  readonly servicePort: string
  /** Where it is, the other side lacking it. */
  readonly onlyIn: 'manifests' | 'kernel'
  /** In the words of the product, or a rule as its tool lists it. */
  readonly what: string
}

/** Differences of what the ebpf dataplane holds; pure. Sorted by Service port. */
export function mapsDifference(desired: DesiredState, held: Inspection): DifferenceRow[] {
  const wanted = new Map([...desired.services.values()].map(port => [port.id, new Set(factsOf(port))]))
  return factsDifference(wanted, heldFacts(held))
}

/** What both sides know of Service ports, each a set of facts by id. */
export function factsDifference(
  wanted: ReadonlyMap<string, ReadonlySet<string>>,
  held: ReadonlyMap<string, ReadonlySet<string>>,
): DifferenceRow[] {
  const rows: DifferenceRow[] = []
  for (const servicePort of [...new Set([...wanted.keys(), ...held.keys()])].sort()) {
    const here = wanted.get(servicePort) ?? new Set<string>()
    const there = held.get(servicePort) ?? new Set<string>()
    for (const what of here) if (!there.has(what)) rows.push({ servicePort, onlyIn: 'manifests', what })
    for (const what of there) if (!here.has(what)) rows.push({ servicePort, onlyIn: 'kernel', what })
  }
  return rows
}

function factsOf(port: ServicePort): string[] {
  const { sourceRanges } = port
  return [
    ...port.frontends.map(each => frontendFact(each.kind, each.address, each.port)),
    ...port.backends.map(each => backendFact(each.address, each.port, each)),
    ...settingFacts({ ...port, sourceRanges: sourceRanges?.ranges }),
  ]
}

function heldFacts({ services, backends }: Inspection): Map<string, Set<string>> {
  const facts = new Map<string, Set<string>>()
  const of = (row: ServicePortName, family: Family) => {
    const id = `${row.namespace}/${row.service}:${row.port}/${row.protocol}/${family}`
    const known = facts.get(id) ?? new Set<string>()
    facts.set(id, known)
    return known
  }
  for (const row of services) {
    const [first] = row.frontends
    // A Service port without frontends serves nobody; it is on its way out.
    if (first === undefined || row.service === '') continue
    const known = of(row, familyOf(first.address))
    for (const { kind, address, port } of row.frontends) known.add(frontendFact(kind, address, port))
    for (const fact of settingFacts(row)) known.add(fact)
  }
  for (const row of backends) {
    if (row.service !== '') of(row, familyOf(row.address)).add(backendFact(row.address, row.backendPort, row))
  }
  return facts
}

function frontendFact(kind: string, address: Address, port: number): string {
  return `frontend ${kind} ${formatEndpoint(address, port)}`
}

function backendFact(
  address: Address,
  port: number,
  { inCluster, inLocal, weight }: { inCluster: boolean; inLocal: boolean; weight: number },
): string {
  const lists = [inCluster && 'cluster', inLocal && 'local'].filter(Boolean).join(' and ')
  return `backend ${formatEndpoint(address, port)}, ${lists ? `in the list ${lists}` : 'in no list'}, weight ${weight}`
}

function settingFacts(port: {
  readonly scheduler: string
  readonly affinitySeconds: number
  readonly internalLocal: boolean
  readonly externalLocal: boolean
  readonly sourceRanges: readonly string[] | undefined
}): string[] {
  const facts = [`scheduler ${port.scheduler}`]
  if (port.affinitySeconds > 0) facts.push(`affinity ${port.affinitySeconds} s`)
  if (port.internalLocal) facts.push('internalTrafficPolicy Local')
  if (port.externalLocal) facts.push('externalTrafficPolicy Local')
  if (port.sourceRanges !== undefined)
    facts.push(`source ranges ${[...port.sourceRanges].sort().join(' ') || 'nobody'}`)
  return facts
}
