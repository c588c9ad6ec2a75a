import { LAYOUTS } from '../../src/dataplane/iptables/profile.js'
import type { RenderOptions } from '../../src/dataplane/iptables/render.js'
import { convert } from '../../src/k8s/convert.js'
import { parseCidr } from '../../src/model/cidr.js'
import type { DesiredState } from '../../src/model/desired.js'
import type { WatchedKind, WatchedObject } from '../../src/model/objects.js'
import { bench } from './plan-kit.js'

/** As a node of a cluster with the pod network 10.244.0.0/16 has it; node ports at every address. */
export const OPTIONS: RenderOptions = {
  family: 'IPv4',
  layout: LAYOUTS['1.25'],
  masqueradeAll: false,
  randomFully: true,
  anyNodeAddress: true,
  localhostNodePorts: true,
  liberalConntrack: false,
}

/** Objects of the API as a node with the pod networks 10.244.0.0/16 and 2001:db8:244::/48 plans them. */
export function desired(objects: readonly object[]): DesiredState {
  const clusterCIDRs = ['10.244.0.0/16', '2001:db8:244::/48'].flatMap(text => parseCidr(text) ?? [])
  const { put, planner } = bench({ clusterCIDRs, nodePortAddresses: ['primary'] })
  put(
    ...objects.map((raw): WatchedObject => {
      const { object, problems } = convert((raw as { kind: WatchedKind }).kind, raw)
      if (object === undefined) throw new TypeError(JSON.stringify(problems))
      return object
    }),
  )
  return planner.state
}

interface ServiceParts {
  readonly ip: string
  readonly ports: readonly { name?: string; protocol?: string; port: number; nodePort?: number }[]
  /** IPv4 addresses; the target port is the port. */
  readonly endpoints: readonly string[]
  readonly namespace?: string
  readonly spec?: object
  readonly status?: object
  readonly here?: readonly string[]
}

/** A Service and its slice. */
export function service(name: string, parts: ServiceParts): object[] {
  const { namespace = 'default', ip, ports, endpoints, spec = {}, status = {}, here = [] } = parts
  const metadata = { name, namespace }
  return [
    {
      kind: 'Service',
      apiVersion: 'v1',
      metadata,
      spec: { type: 'ClusterIP', clusterIP: ip, clusterIPs: [ip], ports, ...spec },
      status,
    },
    {
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      metadata: { ...metadata, name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
      addressType: ip.includes(':') ? 'IPv6' : 'IPv4',
      ports: ports.map(({ name: portName = '', protocol = 'TCP', port }) => ({ name: portName, protocol, port })),
      endpoints: endpoints.map(address => ({
        addresses: [address],
        conditions: { ready: true },
        nodeName: here.includes(address) ? 'node-a' : 'node-b',
      })),
    },
  ]
}

export const NODE = {
  kind: 'Node',
  apiVersion: 'v1',
  metadata: { name: 'node-a' },
  status: { addresses: [{ type: 'InternalIP', address: '192.168.0.104' }] },
}

/** The Services of the documents that kube-proxy's modes are explained with. */
export const DOCUMENTED = [
  NODE,
  ...service('kubernetes', {
    ip: '10.96.0.1',
    ports: [{ name: 'https', port: 443 }],
    endpoints: ['192.168.0.104'],
  }),
  ...service('nginx-service', {
    ip: '10.101.57.97',
    ports: [{ port: 80 }],
    endpoints: ['10.244.0.27', '10.244.0.28', '10.244.0.30'],
  }),
  ...service('my-service', {
    ip: '10.101.164.222',
    ports: [{ name: '80-80', port: 80 }],
    endpoints: ['10.244.0.3', '10.244.0.4'],
  }),
  ...service('kube-dns', {
    namespace: 'kube-system',
    ip: '10.96.0.10',
    ports: [
      { name: 'dns', protocol: 'UDP', port: 53 },
      { name: 'dns-tcp', port: 53 },
      { name: 'metrics', port: 9153 },
    ],
    endpoints: ['10.244.0.29'],
  }),
]

/** What iptables-save lists for them, as the documents have it; the port matches that their excerpt leaves out are in. */
export const DOCUMENTED_RULES = `
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y
-A KUBE-SERVICES -d 10.101.57.97/32 -p tcp -m comment --comment "default/nginx-service cluster IP" -m tcp --dport 80 -j KUBE-SVC-V2OKYYMBY3REGZOG
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "kube-system/kube-dns:dns-tcp cluster IP" -m tcp --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "kube-system/kube-dns:metrics cluster IP" -m tcp --dport 9153 -j KUBE-SVC-JD5MR3NA4I4DYORP
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-V2OKYYMBY3REGZOG ! -s 10.244.0.0/16 -d 10.101.57.97/32 -p tcp -m comment --comment "default/nginx-service cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-V2OKYYMBY3REGZOG -m comment --comment "default/nginx-service -> 10.244.0.27:80" -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-POZMZY2HDLRATSJV
-A KUBE-SVC-V2OKYYMBY3REGZOG -m comment --comment "default/nginx-service -> 10.244.0.28:80" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-Z3HXRORN5VDCFRJU
-A KUBE-SVC-V2OKYYMBY3REGZOG -m comment --comment "default/nginx-service -> 10.244.0.30:80" -j KUBE-SEP-S46ZL6MIFVWDY42O
-A KUBE-SEP-POZMZY2HDLRATSJV -s 10.244.0.27/32 -m comment --comment "default/nginx-service" -j KUBE-MARK-MASQ
-A KUBE-SEP-POZMZY2HDLRATSJV -p tcp -m comment --comment "default/nginx-service" -m tcp -j DNAT --to-destination 10.244.0.27:80
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -d 10.101.164.222/32 -p tcp -m comment --comment "default/my-service:80-80 cluster IP" -m tcp --dport 80 -j KUBE-SVC-JLFZCDARX7J7XLB7
-A KUBE-SVC-JLFZCDARX7J7XLB7 -m comment --comment "default/my-service:80-80 -> 10.244.0.3:80" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-4BQUF3WY4YN4VT6H
-A KUBE-SVC-JLFZCDARX7J7XLB7 -m comment --comment "default/my-service:80-80 -> 10.244.0.4:80" -j KUBE-SEP-GGSVNIZKCFPBLJPS
`
  .trim()
  .split('\n')

/** A Service with everything that makes rules of its own. */
export const WEB = {
  ip: '10.96.0.7',
  ports: [{ name: 'http', port: 80, nodePort: 30080 }],
  endpoints: ['10.244.1.11', '10.244.2.11'],
  here: ['10.244.1.11'],
  spec: {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    externalIPs: ['198.51.100.7'],
    loadBalancerSourceRanges: ['203.0.113.0/24', '192.168.0.0/16'],
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 50 } },
  },
  status: { loadBalancer: { ingress: [{ ip: '198.51.100.9', ipMode: 'VIP' }] } },
}
/** A Service for each kind of rule, and those of the documents. */
export const EVERY_KIND = [
  ...DOCUMENTED,
  ...service('web', WEB),
  ...service('empty', { ip: '10.96.0.8', ports: [{ port: 80 }], endpoints: [] }),
  ...service('six', {
    ip: '2001:db8:96::7',
    ports: [{ port: 80 }, { name: 'dns', protocol: 'UDP', port: 53 }],
    endpoints: ['2001:db8:244:1::11', '2001:db8:244:2::11'],
  }),
]
