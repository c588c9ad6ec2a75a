import type { Scheduler } from '../../src/model/desired.js'
import { addressPlan } from '../../tools/labkit/address-plan.js'

/** Builders of the API objects that the tests apply; addresses are those of docs/lab.md. */

export interface PortSpec {
  readonly name?: string
  readonly protocol?: 'TCP' | 'UDP'
  readonly port: number
  readonly nodePort?: number
  /** Default: the echo services' 8080. */
  readonly targetPort?: number
}

export interface ServiceSpec {
  readonly name: string
  /** Last part of 10.96.0.N and 2001:db8:96::N. */
  readonly ip: number
  readonly ports: readonly PortSpec[]
  /** Names of pods, or of nodes for backends in the host network; an object adds the conditions of its endpoint. */
  readonly pods: readonly (string | { pod: string; conditions: object })[]
  /** Last part of 198.51.100.N and 2001:db8:198::N. */
  readonly loadBalancer?: number
  readonly external?: number
  readonly spec?: object
  readonly scheduler?: Scheduler
}

const PODS = new Map(
  addressPlan(2)
    .nodes.flatMap(node => [node, ...node.pods])
    .map(pod => [pod.name, pod]),
)

/** A dual-stack Service with one EndpointSlice for each family. */
export function service(spec: ServiceSpec): object[] {
  const pair = (v4: string, v6: string, last: number | undefined) =>
    last === undefined ? [] : [`${v4}.${last}`, `${v6}::${last}`]
  const clusterIPs = pair('10.96.0', '2001:db8:96', spec.ip)
  const ingress = pair('198.51.100', '2001:db8:198', spec.loadBalancer).map(ip => ({ ip, ipMode: 'VIP' }))
  const named = spec.ports.map(port => ({ name: '', protocol: 'TCP', targetPort: 8080, ...port }))
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        name: spec.name,
        namespace: 'default',
        ...(spec.scheduler ? { annotations: { 'waggle.io/scheduler': spec.scheduler } } : {}),
      },
      spec: {
        type: spec.loadBalancer ? 'LoadBalancer' : spec.ports.some(port => port.nodePort) ? 'NodePort' : 'ClusterIP',
        ipFamilyPolicy: 'RequireDualStack',
        ipFamilies: ['IPv4', 'IPv6'],
        clusterIP: clusterIPs[0],
        clusterIPs,
        externalIPs: pair('198.51.100', '2001:db8:198', spec.external),
        ports: named,
        ...spec.spec,
      },
      ...(spec.loadBalancer ? { status: { loadBalancer: { ingress } } } : {}),
    },
    ...(['IPv4', 'IPv6'] as const).map(family => ({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `${spec.name}-${family.toLowerCase()}`,
        namespace: 'default',
        labels: { 'kubernetes.io/service-name': spec.name },
      },
      addressType: family,
      ports: named.map(({ name, protocol, targetPort }) => ({ name, protocol, port: targetPort })),
      endpoints: spec.pods.map(entry => endpoint(entry, family)),
    })),
  ]
}

function endpoint(entry: string | { pod: string; conditions: object }, family: 'IPv4' | 'IPv6'): object {
  const { pod: name, conditions } = typeof entry === 'string' ? { pod: entry, conditions: { ready: true } } : entry
  const pod = PODS.get(name)
  if (!pod) throw new Error(`no pod ${name}`)
  return { addresses: [family === 'IPv4' ? pod.ipv4 : pod.ipv6], nodeName: pod.node, conditions }
}
