import { type Family, familyOf } from '../model/address.js'
import type { EndpointObject, EndpointSliceObject } from '../model/objects.js'
import type { Converted } from './convert.js'
import { identity, isLabelledAway, isPort, portNameOf, protocolOf, usableAddress } from './convert-fields.js'
import { isRecord, type Path, Report, show } from './convert-report.js'

const SERVICE_NAME = 'kubernetes.io/service-name'
const WEIGHT = 'waggle.io/weight'
const WEIGHT_MAX = 100
const TRIGGERED = 'endpoints.kubernetes.io/last-change-trigger-time'

/** An EndpointSlice of discovery.k8s.io/v1. Absent: labelled away, or of type FQDN. */
export function convertEndpointSlice(raw: unknown): Converted {
  const report = new Report()
  const id = identity('EndpointSlice', raw, report)
  if (id === undefined || !isRecord(raw)) return report.result(undefined, undefined)
  const { key, namespace, name } = id
  if (isLabelledAway('EndpointSlice', id.labels) || raw.addressType === 'FQDN')
    return { key, object: undefined, problems: [] }

  const service = id.labels[SERVICE_NAME]
  if (typeof service !== 'string' || service === '') {
    report.refuse(['metadata', 'labels', SERVICE_NAME], 'is missing; write the name of the Service')
    return report.result(key, undefined)
  }
  const family = raw.addressType
  if (family !== 'IPv4' && family !== 'IPv6') {
    report.refuse(['addressType'], `is ${show(family)}; write IPv4 or IPv6`)
    return report.result(key, undefined)
  }
  const ports = portsOf(raw.ports, report)
  const endpoints = endpointsOf(raw.endpoints, family, report)
  const extras = { ...weightOf(id.annotations[WEIGHT], report), ...triggeredOf(id.annotations[TRIGGERED]) }
  return report.result(key, { kind: 'EndpointSlice', namespace, name, service, family, ...extras, endpoints, ports })
}

/** Weight 0 is not one of them: an endpoint that is to get nothing is not ready. */
function weightOf(value: unknown, report: Report): Pick<EndpointSliceObject, 'weight'> {
  if (value === undefined || value === null) return {}
  const weight = typeof value === 'string' && /^[0-9]{1,3}$/.test(value) ? Number(value) : 0
  if (weight >= 1 && weight <= WEIGHT_MAX) return { weight }
  const message = `is ${show(value)}; write a number from 1 to ${WEIGHT_MAX} in quotes (1 used)`
  report.warn(['metadata', 'annotations', WEIGHT], message)
  return {}
}

/** For a metric alone, so one that cannot be read is none, as in kube-proxy. */
function triggeredOf(value: unknown): Pick<EndpointSliceObject, 'triggered'> {
  const triggered = typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isNaN(triggered) ? {} : { triggered }
}

/** A port without a number would mean all ports, which no proxy implements: skipped with a warning. */
function portsOf(value: unknown, report: Report): EndpointSliceObject['ports'] {
  const ports: EndpointSliceObject['ports'][number][] = []
  for (const [i, entry] of report.list(value, ['ports']).entries()) {
    const path: Path = ['ports', i]
    if (!isRecord(entry)) {
      report.warn(path, `is ${show(entry)}; write a mapping with name, port and protocol (port skipped)`)
      continue
    }
    const name = portNameOf(entry.name, [...path, 'name'], report)
    const protocol = protocolOf(entry.protocol, [...path, 'protocol'], report)
    if (name === undefined || protocol === undefined) continue
    if (isPort(entry.port)) ports.push({ name, protocol, port: entry.port })
    else report.warn([...path, 'port'], `is ${show(entry.port)}; write a number from 1 to 65535 (port skipped)`)
  }
  return ports
}

function endpointsOf(value: unknown, family: Family, report: Report): EndpointObject[] {
  const endpoints: EndpointObject[] = []
  const list = report.list(value, ['endpoints'])
  for (let i = 0; i < list.length; i++) {
    const endpoint = endpointOf(list[i], i, family, report)
    if (endpoint !== undefined) endpoints.push(endpoint)
  }
  return endpoints
}

/** Only the first address counts: the others are the same pod's (API documentation of EndpointSlice). */
function endpointOf(entry: unknown, index: number, family: Family, report: Report): EndpointObject | undefined {
  const at = (...rest: Path): Path => ['endpoints', index, ...rest]
  if (!isRecord(entry)) {
    report.warn(at(), `is ${show(entry)}; write a mapping with addresses (endpoint skipped)`)
    return undefined
  }
  if (!Array.isArray(entry.addresses) || entry.addresses.length === 0) {
    report.warn(at('addresses'), `is ${show(entry.addresses)}; write a list of one address (endpoint skipped)`)
    return undefined
  }
  const address = usableAddress(entry.addresses[0], () => at('addresses', 0), report)
  if (address === undefined) return undefined
  if (familyOf(address) !== family) {
    report.warn(at('addresses', 0), `${address} is not ${family} as addressType says (endpoint skipped)`)
    return undefined
  }
  const conditions = entry.conditions ?? {}
  if (!isRecord(conditions)) {
    report.warn(at('conditions'), `is ${show(conditions)}; write a mapping (endpoint skipped)`)
    return undefined
  }
  const flag = (name: string, unset: boolean): boolean | undefined => {
    const value = conditions[name] ?? unset
    if (typeof value === 'boolean') return value
    report.warn(at('conditions', name), `is ${show(value)}; write true or false (endpoint skipped)`)
    return undefined
  }
  const ready = flag('ready', true)
  const serving = flag('serving', true)
  const terminating = flag('terminating', false)
  const nodeName = entry.nodeName ?? undefined
  if (nodeName !== undefined && typeof nodeName !== 'string') {
    report.warn(at('nodeName'), `is ${show(nodeName)}; write the name of a Node (endpoint skipped)`)
    return undefined
  }
  if (ready === undefined || serving === undefined || terminating === undefined) return undefined
  return {
    addresses: [address],
    ready,
    serving,
    terminating,
    nodeName: nodeName === '' ? undefined : nodeName,
    ...(entry.hints !== undefined && hintsOf(entry.hints, at('hints'), report)),
  }
}

/** Hints only save distance: what is wrong with them makes an endpoint one without hints. */
function hintsOf(value: unknown, path: Path, report: Report): Pick<EndpointObject, 'zones' | 'nodes'> {
  if (value === undefined || value === null) return {}
  if (!isRecord(value)) {
    report.warn(path, `is ${show(value)}; write a mapping with forZones (hints ignored)`)
    return {}
  }
  const names = (field: 'forZones' | 'forNodes'): readonly string[] => {
    const entries = value[field] ?? []
    if (Array.isArray(entries) && entries.every(e => isRecord(e) && typeof e.name === 'string')) {
      return entries.map(e => e.name)
    }
    report.warn([...path, field], `is ${show(entries)}; write a list of mappings with name (hints ignored)`)
    return []
  }
  const zones = names('forZones')
  const nodes = names('forNodes')
  return { ...(zones.length > 0 && { zones }), ...(nodes.length > 0 && { nodes }) }
}
