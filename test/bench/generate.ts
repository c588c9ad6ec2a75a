import { parseAddress } from '../../src/model/address.js'
import type { DesiredState, Frontend, Protocol, Scheduler, ServicePort } from '../../src/model/desired.js'
import { FAMILIES, type Family } from './paths.js'

/** Input of every size, made up. Pure. */

export interface PortSpec {
  readonly name: string
  readonly protocol: Protocol
  readonly family: Family
  /** Default: random. */
  readonly scheduler?: Scheduler
  readonly frontends: readonly { readonly kind: Frontend['kind']; readonly address: string; readonly port: number }[]
  readonly backends: readonly { readonly address: string; readonly port: number; readonly local?: boolean }[]
}

/** A desired state without detours through API objects; a backend is on another node unless it says otherwise. */
export function desiredState(revision: number, ports: readonly PortSpec[]): DesiredState {
  const services = ports.map((port): [string, ServicePort] => {
    const id = `bench/${port.name}:p/${port.protocol}/${port.family}`
    const { family, protocol } = port
    return [
      id,
      {
        id,
        namespace: 'bench',
        name: port.name,
        portName: 'p',
        protocol,
        family,
        scheduler: port.scheduler ?? 'random',
        affinitySeconds: 0,
        internalLocal: false,
        externalLocal: false,
        frontends: port.frontends.map(each => ({ ...each, address: address(each.address) })),
        backends: port.backends.map(each => ({
          address: address(each.address),
          port: each.port,
          local: each.local === true,
          inCluster: true,
          inLocal: each.local === true,
          weight: 1,
        })),
      },
    ]
  })
  return { revision, services: new Map(services) }
}

function address(text: string) {
  const parsed = parseAddress(text)
  if (parsed === undefined) throw new TypeError(`not an address: ${text}`)
  return parsed
}

/** Every combination of TCP and UDP with both families. */
export const PORT_KINDS = FAMILIES.flatMap(family => (['TCP', 'UDP'] as const).map(protocol => ({ family, protocol })))

/** This node in the generated objects; one endpoint in {@link NODES} runs on it. */
export const NODE_NAME = 'node-0'
const NODES = 100

/** What the API server keeps of an object besides what matters here. */
function metadata(name: string, i: number, labels: Record<string, string>) {
  return {
    name,
    namespace: `team-${i % 50}`,
    uid: uid(i),
    resourceVersion: String(1000 + i),
    generation: 3,
    creationTimestamp: '2026-03-01T08:00:00Z',
    labels: { app: `app-${i}`, 'app.kubernetes.io/managed-by': 'Helm', ...labels },
    annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-03-01T08:00:01Z' },
    managedFields: [
      {
        manager: 'kube-controller-manager',
        operation: 'Update',
        apiVersion: 'v1',
        time: '2026-03-01T08:00:00Z',
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:metadata': { 'f:labels': { '.': {}, 'f:app': {} } }, 'f:spec': { 'f:ports': {}, 'f:type': {} } },
      },
    ],
  }
}

function uid(i: number): string {
  return `5f1c7a90-0000-4000-8000-${i.toString(16).padStart(12, '0')}`
}

/** The `i`-th Service as the API server has it: a ClusterIP, one TCP port. */
export function apiService(i: number): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadata(`svc-${i}`, i, {}),
    spec: {
      type: 'ClusterIP',
      clusterIP: `172.30.${(i + 1) >> 8}.${(i + 1) & 255}`,
      clusterIPs: [`172.30.${(i + 1) >> 8}.${(i + 1) & 255}`],
      internalTrafficPolicy: 'Cluster',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
      selector: { app: `app-${i}` },
      sessionAffinity: 'None',
    },
    status: { loadBalancer: {} },
  }
}

/** The EndpointSlice of the `i`-th Service; of its endpoints `down` is not ready. */
export function apiSlice(i: number, endpoints: number, down?: number, version = 1000 + i): object {
  const base = metadata(`svc-${i}-abcde`, i, {
    'kubernetes.io/service-name': `svc-${i}`,
    'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
  })
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...base, resourceVersion: String(version) },
    addressType: 'IPv4',
    endpoints: Array.from({ length: endpoints }, (_, k) => {
      const n = i * endpoints + k
      return {
        addresses: [`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`],
        conditions: { ready: k !== down, serving: k !== down, terminating: false },
        nodeName: `node-${n % NODES}`,
        targetRef: { kind: 'Pod', name: `app-${i}-${k}`, namespace: `team-${i % 50}`, uid: uid(n) },
        zone: `zone-${n % 3}`,
      }
    }),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  }
}

export function apiNode(): object {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE_NAME, resourceVersion: '999', labels: { 'topology.kubernetes.io/zone': 'zone-0' } },
    status: { addresses: [{ type: 'InternalIP', address: '192.168.0.10' }] },
  }
}

/** Pages of a list as the API server sends them. */
export function listPages(kind: string, apiVersion: string, items: readonly object[], pageSize: number): string[] {
  const pages: string[] = []
  for (let at = 0; at === 0 || at < items.length; at += pageSize) {
    const rest = at + pageSize < items.length ? { continue: String(pages.length + 1) } : {}
    pages.push(
      JSON.stringify({
        kind: `${kind}List`,
        apiVersion,
        metadata: { resourceVersion: '500000', ...rest },
        items: items.slice(at, at + pageSize),
      }),
    )
  }
  return pages
}
