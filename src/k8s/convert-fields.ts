import { type Address, familyOf, parseAddress } from '../model/address.js'
import type { Protocol } from '../model/desired.js'
import type { WatchedKind } from '../model/objects.js'
import { isRecord, type Path, type Report, show } from './convert-report.js'

const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP']
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const DNS_SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

/**
 * The label whose presence, whatever the value, means: not for this proxy. As in kube-proxy
 * 1.36 each counts on one kind alone: a Service with a cluster IP is served although it is
 * labelled headless, and a slice although it names another proxy.
 */
export const NOT_OURS = {
  Service: 'service.kubernetes.io/service-proxy-name',
  EndpointSlice: 'service.kubernetes.io/headless',
} as const

/** What every object has in its metadata. */
export interface Identity {
  /** Empty for a Node. */
  readonly namespace: string
  readonly name: string
  /** `namespace/name`, or the name for a Node. */
  readonly key: string
  readonly labels: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, unknown>>
  /** metadata.creationTimestamp in seconds since the epoch. */
  readonly created: number | undefined
  readonly uid: string | undefined
}

/** Metadata of `raw`; undefined when the object cannot be named (it is refused then). An unset namespace is `default`. */
export function identity(kind: WatchedKind, raw: unknown, report: Report): Identity | undefined {
  if (!isRecord(raw)) {
    report.refuse([], `is ${show(raw)}; write a ${kind} object`)
    return undefined
  }
  const metadata = report.record(raw.metadata, ['metadata'])
  const name = metadata.name
  // The name goes into keys, logs and the kernel, hence no other characters than the API allows.
  const pattern = kind === 'Service' ? DNS_LABEL : DNS_SUBDOMAIN
  if (typeof name !== 'string' || !pattern.test(name)) {
    report.refuse(['metadata', 'name'], `is ${show(name)}; write a DNS name in lower case`)
    return undefined
  }
  const namespace = kind === 'Node' ? '' : (metadata.namespace ?? 'default')
  if (typeof namespace !== 'string' || (kind !== 'Node' && !DNS_LABEL.test(namespace))) {
    report.refuse(['metadata', 'namespace'], `is ${show(namespace)}; write a DNS label in lower case`)
    return undefined
  }
  return {
    namespace,
    name,
    key: kind === 'Node' ? name : `${namespace}/${name}`,
    labels: report.record(metadata.labels, ['metadata', 'labels']),
    annotations: report.record(metadata.annotations, ['metadata', 'annotations']),
    created: timestamp(metadata.creationTimestamp),
    uid: typeof metadata.uid === 'string' && metadata.uid !== '' ? metadata.uid : undefined,
  }
}

/** RFC 3339 text, or a Date (as the Kubernetes client gives), in seconds; undefined when it is neither. */
function timestamp(value: unknown): number | undefined {
  const ms = value instanceof Date ? value.getTime() : typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000)
}

/** True when a label hands the Service to another proxy, or marks the slice as a headless Service's. */
export function isLabelledAway(kind: keyof typeof NOT_OURS, labels: Readonly<Record<string, unknown>>): boolean {
  return labels[NOT_OURS[kind]] !== undefined
}

/**
 * An IPv4 address, or network, without the leading zeros that the API let through for years:
 * its parts are decimal for every proxy, as they were then (CVE-2021-29923). Other text is
 * left as it is.
 */
export function withoutLeadingZeros(text: string): string {
  return DECIMAL_PARTS.test(text) ? text.replace(/(^|\.)0+(?=[0-9])/g, '$1') : text
}

const DECIMAL_PARTS = /^[0-9]{1,15}(?:\.[0-9]{1,15}){3}(?:\/[0-9]+)?$/

/**
 * An address that may become a frontend or a backend, or undefined with a warning:
 * malformed, or loopback, link-local, multicast, unspecified (CVE-2021-25737).
 */
export function usableAddress(value: unknown, path: Path | (() => Path), report: Report): Address | undefined {
  const address =
    typeof value === 'string' ? (parseAddress(value) ?? parseAddress(withoutLeadingZeros(value))) : undefined
  if (address === undefined) {
    report.warn(path, `is ${show(value)}; write an IPv4 or IPv6 address (skipped)`)
    return undefined
  }
  const special = specialRange(address)
  if (special === undefined) return address
  report.warn(path, `${address} is ${special}, which no Service may use; write another address (skipped)`)
  return undefined
}

/** Name of the range that no Service traffic may go to; undefined for all other addresses. */
function specialRange(address: Address): string | undefined {
  if (familyOf(address) === 'IPv4') {
    const first = Number.parseInt(address, 10)
    if (first === 0) return 'an unspecified address'
    if (first === 127) return 'a loopback address'
    if (address.startsWith('169.254.')) return 'a link-local address'
    if (first >= 224 && first < 240) return 'a multicast address'
    return address === '255.255.255.255' ? 'the broadcast address' : undefined
  }
  if (address === '::') return 'an unspecified address'
  if (address === '::1') return 'a loopback address'
  if (/^fe[89ab][0-9a-f]:/.test(address)) return 'a link-local address'
  return /^ff[0-9a-f]{2}:/.test(address) ? 'a multicast address' : undefined
}

/** TCP when unset; undefined with a warning when it is no protocol of the API. */
export function protocolOf(value: unknown, path: Path, report: Report): Protocol | undefined {
  if (value === undefined || value === null || value === '') return 'TCP'
  const found = PROTOCOLS.find(protocol => protocol === value)
  if (found === undefined) report.warn(path, `is ${show(value)}; write TCP, UDP or SCTP (port skipped)`)
  return found
}

/** A port name, empty when unset; undefined with a warning when it is no DNS label. */
export function portNameOf(value: unknown, path: Path, report: Report): string | undefined {
  if (value === undefined || value === null || value === '') return ''
  if (typeof value === 'string' && DNS_LABEL.test(value)) return value
  report.warn(path, `is ${show(value)}; write a DNS label in lower case (port skipped)`)
  return undefined
}

/** True for 1-65535. */
export function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65535
}
