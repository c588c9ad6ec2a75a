import { type Address, type Family, familyOf } from '../model/address.js'
import { type Cidr, familyOfCidr, parseCidr } from '../model/cidr.js'
import { SCHEDULERS, type Scheduler } from '../model/desired.js'
import type { ServiceObject, ServicePortObject } from '../model/objects.js'
import type { Converted } from './convert.js'
import {
  type Identity,
  identity,
  isLabelledAway,
  isPort,
  portNameOf,
  protocolOf,
  usableAddress,
  withoutLeadingZeros,
} from './convert-fields.js'
import { isRecord, type Path, Report, show } from './convert-report.js'

const SCHEDULER = 'waggle.io/scheduler'
/** The API server's default for sessionAffinityConfig.clientIP.timeoutSeconds, and its largest value. */
const AFFINITY_DEFAULT_S = 10800
const AFFINITY_MAX_S = 86400

type Fields = Readonly<Record<string, unknown>>

/**
 * A Service of API group v1. Absent: headless (clusterIP None), ExternalName, labelled
 * away. As in kube-proxy, targetPort, selector and ipFamilies are not read: slices say it.
 */
export function convertService(raw: unknown): Converted {
  const report = new Report()
  const id = identity('Service', raw, report)
  if (id === undefined || !isRecord(raw)) return report.result(undefined, undefined)
  const spec = report.record(raw.spec, ['spec'])
  if (isLabelledAway('Service', id.labels) || spec.type === 'ExternalName' || isHeadless(spec)) {
    return { key: id.key, object: undefined, problems: [] }
  }
  return report.result(id.key, serviceOf(id, spec, report.record(raw.status, ['status']), report))
}

function isHeadless(spec: Fields): boolean {
  return spec.clusterIP === 'None' || (Array.isArray(spec.clusterIPs) && spec.clusterIPs[0] === 'None')
}

function serviceOf(id: Identity, spec: Fields, status: Fields, report: Report): ServiceObject {
  const clusterIPs = clusterIPsOf(spec, report)
  const families = clusterIPs.map(familyOf)
  const externalIPs = externalIPsOf(spec, families, report)
  const loadBalancerIPs = loadBalancerIPsOf(status, families, report)
  const policy = (name: string) => report.oneOf(spec[name], ['spec', name], ['Cluster', 'Local'], 'Cluster')
  const type = report.oneOf(spec.type, ['spec', 'type'], ['ClusterIP', 'NodePort', 'LoadBalancer'], 'ClusterIP')
  const externalLocal = policy('externalTrafficPolicy') === 'Local'
  return {
    kind: 'Service',
    namespace: id.namespace,
    name: id.name,
    type,
    clusterIPs,
    externalIPs,
    loadBalancerIPs,
    ...sourceRangesOf(spec, loadBalancerIPs, report),
    ports: portsOf(spec.ports, report),
    affinitySeconds: affinityOf(spec, report),
    internalLocal: policy('internalTrafficPolicy') === 'Local',
    externalLocal,
    ...(type === 'LoadBalancer' && externalLocal && healthCheckNodePortOf(spec, report)),
    scheduler: schedulerOf(id.annotations, report),
    created: id.created,
    ...(id.uid !== undefined && { uid: id.uid }),
  }
}

/** One address a family, the first of each. A family without one is not served at all, as in kube-proxy. */
function clusterIPsOf(spec: Fields, report: Report): Address[] {
  const listed = report.list(spec.clusterIPs, ['spec', 'clusterIPs'])
  const single = spec.clusterIP ?? ''
  if (listed.length === 0 && single === '') {
    const remedy = 'write an address of your Service range, or None for a headless Service'
    report.warn(['spec', 'clusterIP'], `is missing, so nothing is served; ${remedy}`)
    return []
  }
  const entries: readonly (readonly [unknown, Path])[] =
    listed.length > 0 ? listed.map((value, i) => [value, ['spec', 'clusterIPs', i]]) : [[single, ['spec', 'clusterIP']]]
  const addresses: Address[] = []
  for (const [value, path] of entries) {
    const address = usableAddress(value, path, report)
    if (address === undefined) continue
    if (addresses.some(other => familyOf(other) === familyOf(address))) {
      report.warn(
        path,
        `${address} is the second ${familyOf(address)} address; a Service has one of each family (skipped)`,
      )
    } else {
      addresses.push(address)
    }
  }
  if (addresses.length === 0) report.refuse(entries[0]?.[1] ?? [], 'leaves the Service without a cluster IP')
  return addresses
}

function externalIPsOf(spec: Fields, families: readonly Family[], report: Report): Address[] {
  const path = ['spec', 'externalIPs'] as const
  const addresses: Address[] = []
  for (const [i, value] of report.list(spec.externalIPs, path).entries()) {
    addFrontend(addresses, value, [...path, i], families, report)
  }
  return addresses
}

/** Addresses of the load balancer that the node itself answers: ipMode VIP or unset (KEP-1860). */
function loadBalancerIPsOf(status: Fields, families: readonly Family[], report: Report): Address[] {
  const path = ['status', 'loadBalancer', 'ingress'] as const
  const balancer = report.record(status.loadBalancer, ['status', 'loadBalancer'])
  const addresses: Address[] = []
  for (const [i, entry] of report.list(balancer.ingress, path).entries()) {
    if (!isRecord(entry)) {
      report.warn([...path, i], `is ${show(entry)}; write a mapping with ip (skipped)`)
      continue
    }
    if (entry.ip === undefined || entry.ip === null || entry.ip === '' || entry.ipMode === 'Proxy') continue
    const mode = entry.ipMode ?? 'VIP'
    if (mode === 'VIP') addFrontend(addresses, entry.ip, [...path, i, 'ip'], families, report)
    else report.warn([...path, i, 'ipMode'], `is ${show(mode)}; write VIP or Proxy (address skipped)`)
  }
  return addresses
}

/**
 * Who may use the load-balancer addresses. An empty list restricts nobody, as in the API;
 * one of which no entry can be read lets nobody in: a list that restricts must not come
 * to mean open. Spaces around an entry are cut off, bits beyond its prefix too.
 */
function sourceRangesOf(
  spec: Fields,
  balancers: readonly Address[],
  report: Report,
): Pick<ServiceObject, 'sourceRanges'> {
  const path = ['spec', 'loadBalancerSourceRanges'] as const
  const listed = report.list(spec.loadBalancerSourceRanges, path)
  if (listed.length === 0) return {}
  const ranges = new Set<Cidr>()
  for (const [i, entry] of listed.entries()) {
    const range = typeof entry === 'string' ? parseCidr(withoutLeadingZeros(entry.trim())) : undefined
    if (range !== undefined) ranges.add(range)
    else report.warn([...path, i], `is ${show(entry)}; write a network such as 192.0.2.0/24 (skipped)`)
  }
  const families = new Set([...ranges].map(familyOfCidr))
  for (const family of new Set(balancers.map(familyOf))) {
    if (families.has(family)) continue
    const message = `lets nobody in by ${family}; add a network of that family for those who may`
    report.warn(path, message)
  }
  return { sourceRanges: [...ranges].sort() }
}

function addFrontend(into: Address[], value: unknown, path: Path, families: readonly Family[], report: Report): void {
  const address = usableAddress(value, path, report)
  if (address === undefined || into.includes(address)) return
  if (families.includes(familyOf(address))) into.push(address)
  else report.warn(path, `${address} is ${familyOf(address)}, and the Service has no such cluster IP (skipped)`)
}

function portsOf(value: unknown, report: Report): ServicePortObject[] {
  const ports: ServicePortObject[] = []
  for (const [i, entry] of report.list(value, ['spec', 'ports']).entries()) {
    const port = portOf(entry, ['spec', 'ports', i], report)
    if (port === undefined) continue
    const same = ports.find(p => p.protocol === port.protocol && (p.name === port.name || p.port === port.port))
    if (same === undefined) ports.push(port)
    else {
      const field = same.port === port.port ? 'port' : 'name'
      const message = `${show(port[field])} stands twice for ${port.protocol}; write another one (port skipped)`
      report.warn(['spec', 'ports', i, field], message)
    }
  }
  return ports
}

function portOf(entry: unknown, path: Path, report: Report): ServicePortObject | undefined {
  if (!isRecord(entry)) {
    report.warn(path, `is ${show(entry)}; write a mapping with name, port and protocol (port skipped)`)
    return undefined
  }
  const name = portNameOf(entry.name, [...path, 'name'], report)
  const protocol = protocolOf(entry.protocol, [...path, 'protocol'], report)
  if (name === undefined || protocol === undefined) return undefined
  if (!isPort(entry.port)) {
    report.warn([...path, 'port'], `is ${show(entry.port)}; write a number from 1 to 65535 (port skipped)`)
    return undefined
  }
  const nodePort = entry.nodePort ?? 0
  if (nodePort === 0 || isPort(nodePort)) return { name, protocol, port: entry.port, nodePort }
  report.warn([...path, 'nodePort'], `is ${show(nodePort)}; write a number from 1 to 65535 (no node port)`)
  return { name, protocol, port: entry.port, nodePort: 0 }
}

/** The API server allocates one where it is needed; a manifest may leave it out. */
function healthCheckNodePortOf(spec: Fields, report: Report): Pick<ServiceObject, 'healthCheckNodePort'> {
  const port = spec.healthCheckNodePort ?? 0
  if (port === 0) return {}
  if (isPort(port)) return { healthCheckNodePort: port }
  const message = `is ${show(port)}; write a number from 1 to 65535 (no health check)`
  report.warn(['spec', 'healthCheckNodePort'], message)
  return {}
}

/** Seconds; 0 = no affinity. */
function affinityOf(spec: Fields, report: Report): number {
  if (report.oneOf(spec.sessionAffinity, ['spec', 'sessionAffinity'], ['None', 'ClientIP'], 'None') === 'None') return 0
  const path = ['spec', 'sessionAffinityConfig'] as const
  const config = report.record(spec.sessionAffinityConfig, path)
  const client = report.record(config.clientIP, [...path, 'clientIP'])
  const seconds = client.timeoutSeconds ?? AFFINITY_DEFAULT_S
  if (typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= 1 && seconds <= AFFINITY_MAX_S) {
    return seconds
  }
  const message = `is ${show(seconds)}; write seconds from 1 to ${AFFINITY_MAX_S} (${AFFINITY_DEFAULT_S} used)`
  report.warn([...path, 'clientIP', 'timeoutSeconds'], message)
  return AFFINITY_DEFAULT_S
}

function schedulerOf(annotations: Fields, report: Report): Scheduler | undefined {
  const value = annotations[SCHEDULER]
  if (value === undefined || value === null) return undefined
  const scheduler = SCHEDULERS.find(each => each === value)
  if (scheduler === undefined) {
    const message = `is ${show(value)}; write one of ${SCHEDULERS.join(', ')} (node's default used)`
    report.warn(['metadata', 'annotations', SCHEDULER], message)
  }
  return scheduler
}
