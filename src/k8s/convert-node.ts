import { type Address, familyOf } from '../model/address.js'
import { type Cidr, parseCidr } from '../model/cidr.js'
import type { NodeObject } from '../model/objects.js'
import type { Converted } from './convert.js'
import { identity, usableAddress } from './convert-fields.js'
import { isRecord, Report, show } from './convert-report.js'

const ZONE = 'topology.kubernetes.io/zone'
/** The taint by which the cluster autoscaler says that a Node will go. */
const LEAVING = 'ToBeDeletedByClusterAutoscaler'

/** A Node of API group v1: its addresses in the order of the API, its pods' networks, its zone, and whether it is about to go. */
export function convertNode(raw: unknown): Converted {
  const report = new Report()
  const id = identity('Node', raw, report)
  if (id === undefined || !isRecord(raw)) return report.result(undefined, undefined)
  const internalIPs = addressesOf(raw, report)
  const podCIDRs = podCIDRsOf(raw, report)
  const zone = id.labels[ZONE]
  const place = typeof zone === 'string' && zone !== '' ? { zone } : {}
  const leaving = isLeaving(raw) ? ({ leaving: true } as const) : {}
  return report.result(id.key, { kind: 'Node', name: id.name, internalIPs, ...podCIDRs, ...place, ...leaving })
}

/** Internal addresses; of a family without one the external ones, as in kube-proxy. */
function addressesOf(node: Readonly<Record<string, unknown>>, report: Report): readonly Address[] {
  const path = ['status', 'addresses'] as const
  const status = report.record(node.status, ['status'])
  const internal = new Set<Address>()
  const external = new Set<Address>()
  for (const [i, entry] of report.list(status.addresses, path).entries()) {
    if (!isRecord(entry)) {
      report.warn([...path, i], `is ${show(entry)}; write a mapping with type and address (skipped)`)
      continue
    }
    if (entry.type !== 'InternalIP' && entry.type !== 'ExternalIP') continue
    const address = usableAddress(entry.address, [...path, i, 'address'], report)
    if (address !== undefined) (entry.type === 'InternalIP' ? internal : external).add(address)
  }
  const families = new Set([...internal].map(familyOf))
  return [...internal, ...[...external].filter(address => !families.has(familyOf(address)))]
}

function podCIDRsOf(node: Readonly<Record<string, unknown>>, report: Report): Pick<NodeObject, 'podCIDRs'> {
  const path = ['spec', 'podCIDRs'] as const
  const spec = isRecord(node.spec) ? node.spec : {}
  const podCIDRs: Cidr[] = []
  for (const [i, value] of report.list(spec.podCIDRs, path).entries()) {
    const cidr = typeof value === 'string' ? parseCidr(value) : undefined
    if (cidr !== undefined) podCIDRs.push(cidr)
    else report.warn([...path, i], `is ${show(value)}; write a network such as 10.244.1.0/24 (skipped)`)
  }
  return podCIDRs.length > 0 ? { podCIDRs } : {}
}

function isLeaving(node: Readonly<Record<string, unknown>>): boolean {
  if (isRecord(node.metadata) && node.metadata.deletionTimestamp) return true
  const taints = isRecord(node.spec) ? node.spec.taints : undefined
  return Array.isArray(taints) && taints.some(taint => isRecord(taint) && taint.key === LEAVING)
}
