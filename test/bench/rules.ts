import type { Family } from './paths.js'

/**
 * Rules of the kernel's own filters for the same Services as ours, laid out as kube-proxy
 * lays them out (v1.33). Pure.
 *
 * Left out is what does not touch the packets of this benchmark: comments, chains for the
 * node's own processes, policies and firewalls.
 */

export interface RuleService {
  readonly protocol: 'tcp' | 'udp'
  /** The cluster IP; none = a node port alone. */
  readonly address?: string
  /** Of the cluster IP. */
  readonly port: number
  readonly nodePort?: number
  readonly backends: readonly string[]
  readonly backendPort: number
}

export interface RuleOptions {
  readonly family: Family
  /** Addresses of the node that serve node ports. */
  readonly nodeAddresses?: readonly string[]
}

/** Whose packets are no outside client's (kube-proxy's --cluster-cidr). */
const PODS = { IPv4: '10.0.0.0/8', IPv6: '2001:db8::/32' }
/** kube-proxy's mark of packets to be masqueraded. */
const MASQUERADE = '0x4000'

const NFT = {
  IPv4: { table: 'ip', type: 'ipv4_addr' },
  IPv6: { table: 'ip6', type: 'ipv6_addr' },
}
/** Elements of a map in one command. */
const ELEMENTS_A_COMMAND = 1000

/**
 * For `nft -f`: one look-up in a verdict map, then the Service's chain, then the endpoint's.
 *
 * A Service with one backend goes straight to it. kube-proxy writes a map of one element
 * there, too, which costs a packet a little more and makes 10,000 Services load in a minute
 * instead of six seconds (nft 1.0.6, Linux 6.18).
 */
export function nftRules(services: readonly RuleService[], { family, nodeAddresses = [] }: RuleOptions): string {
  const { table, type } = NFT[family]
  const service = `${table} daddr . meta l4proto . th dport`
  const clusterIps = services.flatMap((each, i) =>
    each.address === undefined ? [] : [`${each.address} . ${each.protocol} . ${each.port} : goto service-${i}`],
  )
  const nodePorts = services.flatMap(({ nodePort, protocol }, i) =>
    nodePort === undefined ? [] : [`${protocol} . ${nodePort} : goto external-${i}`],
  )
  const lines = [
    `table ${table} kube-proxy {`,
    `set nodeport-ips { type ${type}; ${elements(nodeAddresses)} }`,
    `map service-ips { type ${type} . inet_proto . inet_service : verdict; }`,
    `map no-endpoint-services { type ${type} . inet_proto . inet_service : verdict; }`,
    `map service-nodeports { type inet_proto . inet_service : verdict; }`,
    `chain mark-for-masquerade { meta mark set meta mark or ${MASQUERADE}; }`,
    ...services.flatMap((each, i) => nftService(each, i, family)),
    'chain services {',
    `${service} vmap @service-ips;`,
    `${table} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports; }`,
    `chain service-endpoints-check { ${service} vmap @no-endpoint-services; }`,
    `chain masquerading { meta mark and ${MASQUERADE} == 0 return;`,
    `meta mark set meta mark xor ${MASQUERADE}; masquerade fully-random; }`,
    'chain filter-forward { type filter hook forward priority -110; ct state new jump service-endpoints-check; }',
    'chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }',
    'chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }',
    '}',
    ...addElements(table, 'service-ips', clusterIps),
    ...addElements(table, 'service-nodeports', nodePorts),
  ]
  return `${lines.join('\n')}\n`
}

function nftService(service: RuleService, i: number, family: Family): string[] {
  const { table } = NFT[family]
  const { protocol, address, port, backends, backendPort } = service
  const endpoints = backends.map((backend, k) => {
    const to = endpoint(backend, backendPort, family)
    return (
      `chain endpoint-${i}-${k} { ${table} saddr ${backend} jump mark-for-masquerade; ` +
      `meta l4proto ${protocol} dnat to ${to}; }`
    )
  })
  const choices = backends.map((_, k) => `${k} : goto endpoint-${i}-${k}`).join(', ')
  const choice =
    backends.length === 1 ? `goto endpoint-${i}-0;` : `numgen random mod ${backends.length} vmap { ${choices} };`
  const fromOutside =
    address === undefined
      ? ''
      : `${table} daddr ${address} ${protocol} dport ${port} ${table} saddr != ${PODS[family]} jump mark-for-masquerade;`
  return [
    ...endpoints,
    `chain service-${i} { ${fromOutside} ${choice} }`,
    ...(service.nodePort === undefined ? [] : [`chain external-${i} { jump mark-for-masquerade; goto service-${i}; }`]),
  ]
}

function elements(list: readonly string[]): string {
  return list.length === 0 ? '' : `elements = { ${list.join(', ')} }`
}

function addElements(table: string, map: string, list: readonly string[]): string[] {
  return Array.from({ length: Math.ceil(list.length / ELEMENTS_A_COMMAND) }, (_, i) => {
    const part = list.slice(i * ELEMENTS_A_COMMAND, (i + 1) * ELEMENTS_A_COMMAND)
    return `add element ${table} kube-proxy ${map} { ${part.join(', ')} }`
  })
}

/** For `iptables-restore` and `ip6tables-restore`: a chain of jumps, a chain a Service, a chain an endpoint. */
export function iptablesRules(services: readonly RuleService[], { family }: RuleOptions): string {
  return [
    '*filter',
    ':KUBE-SERVICES - [0:0]',
    ':KUBE-EXTERNAL-SERVICES - [0:0]',
    ':KUBE-FORWARD - [0:0]',
    '-A FORWARD -j KUBE-FORWARD',
    '-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES',
    '-A FORWARD -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES',
    '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
    `-A KUBE-FORWARD -m mark --mark ${MASQUERADE}/${MASQUERADE} -j ACCEPT`,
    '-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    'COMMIT',
    '*nat',
    ':KUBE-SERVICES - [0:0]',
    ':KUBE-NODEPORTS - [0:0]',
    ':KUBE-MARK-MASQ - [0:0]',
    ':KUBE-POSTROUTING - [0:0]',
    ...services.flatMap(iptablesChains),
    '-A PREROUTING -j KUBE-SERVICES',
    '-A POSTROUTING -j KUBE-POSTROUTING',
    `-A KUBE-POSTROUTING -m mark ! --mark ${MASQUERADE}/${MASQUERADE} -j RETURN`,
    `-A KUBE-POSTROUTING -j MARK --xor-mark ${MASQUERADE}`,
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
    `-A KUBE-MARK-MASQ -j MARK --or-mark ${MASQUERADE}`,
    ...services.flatMap((service, i) => iptablesService(service, i, family)),
    '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    'COMMIT',
    '',
  ].join('\n')
}

const chain = (kind: 'SVC' | 'EXT', i: number) => `KUBE-${kind}-${String(i).padStart(16, '0')}`
/** The chain of the `k`-th backend of the `i`-th Service. */
export const endpointChain = (i: number, k: number) =>
  `KUBE-SEP-${String(i).padStart(13, '0')}${String(k).padStart(3, '0')}`

function iptablesChains(service: RuleService, i: number): string[] {
  const names = [
    chain('SVC', i),
    ...(service.nodePort === undefined ? [] : [chain('EXT', i)]),
    ...service.backends.map((_, k) => endpointChain(i, k)),
  ]
  return names.map(name => `:${name} - [0:0]`)
}

function iptablesService(service: RuleService, i: number, family: Family): string[] {
  const { protocol, address, port, nodePort, backends, backendPort } = service
  const length = family === 'IPv4' ? 32 : 128
  const match = `-p ${protocol} -m ${protocol}`
  const clusterIp = `${match} -d ${address}/${length} --dport ${port}`
  const endpoints = backends.flatMap((backend, k) => {
    const left = backends.length - k
    const share = left === 1 ? '' : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `
    return [
      `-A ${chain('SVC', i)} ${share}-j ${endpointChain(i, k)}`,
      `-A ${endpointChain(i, k)} -s ${backend}/${length} -j KUBE-MARK-MASQ`,
      `-A ${endpointChain(i, k)} ${match} -j DNAT --to-destination ${endpoint(backend, backendPort, family)}`,
    ]
  })
  return [
    ...(address === undefined
      ? []
      : [
          `-A KUBE-SERVICES ${clusterIp} -j ${chain('SVC', i)}`,
          `-A ${chain('SVC', i)} ! -s ${PODS[family]} ${clusterIp} -j KUBE-MARK-MASQ`,
        ]),
    ...(nodePort === undefined
      ? []
      : [
          `-A KUBE-NODEPORTS ${match} --dport ${nodePort} -j ${chain('EXT', i)}`,
          `-A ${chain('EXT', i)} -j KUBE-MARK-MASQ`,
          `-A ${chain('EXT', i)} -j ${chain('SVC', i)}`,
        ]),
    ...endpoints,
  ]
}

function endpoint(address: string, port: number, family: Family): string {
  return family === 'IPv4' ? `${address}:${port}` : `[${address}]:${port}`
}
