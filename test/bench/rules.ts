import type { Family } from './paths.js'

/**
 * Rule sets of the kernel's own packet filters that do what a dataplane does, in the shape
 * that kube-proxy gives them, with one endpoint a Service. Pure.
 */

export interface RuleService {
  readonly address: string
  readonly port: number
  readonly backend: string
  readonly backendPort: number
}

const NFT = {
  IPv4: { table: 'ip', type: 'ipv4_addr', match: 'ip daddr' },
  IPv6: { table: 'ip6', type: 'ipv6_addr', match: 'ip6 daddr' },
}
/** Elements of a map in one command. */
const ELEMENTS_A_COMMAND = 1000

/** For `nft -f`: one look-up in a verdict map, then the Service's chain; TCP and UDP. */
export function nftRules(services: readonly RuleService[], family: Family): string {
  const { table, type, match } = NFT[family]
  const elements = services.flatMap((service, i) =>
    ['tcp', 'udp'].map(proto => `${service.address} . ${proto} . ${service.port} : goto svc-${i}`),
  )
  const lines = [
    `table ${table} bench {`,
    `map services { type ${type} . inet_proto . inet_service : verdict; }`,
    ...services.map((service, i) => {
      const to = endpoint(service.backend, service.backendPort, family)
      return `chain svc-${i} { meta l4proto tcp dnat to ${to}; meta l4proto udp dnat to ${to}; }`
    }),
    `chain services { ${match} . meta l4proto . th dport vmap @services; }`,
    'chain prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }',
    'chain postrouting { type nat hook postrouting priority srcnat; policy accept; }',
    '}',
  ]
  for (let at = 0; at < elements.length; at += ELEMENTS_A_COMMAND) {
    lines.push(`add element ${table} bench services { ${elements.slice(at, at + ELEMENTS_A_COMMAND).join(', ')} }`)
  }
  return `${lines.join('\n')}\n`
}

/** For `nft -f`: a node port with its backends at random, masqueraded on the way out. */
export function nftNodePort(
  node: string,
  port: number,
  backends: readonly string[],
  backendPort: number,
  family: Family,
): string {
  const { table, match } = NFT[family]
  const choices = backends.map((_, i) => `${i} : goto ep-${i}`)
  return [
    `table ${table} bench {`,
    ...backends.map((backend, i) => {
      const to = endpoint(backend, backendPort, family)
      return `chain ep-${i} { meta l4proto tcp dnat to ${to}; meta l4proto udp dnat to ${to}; }`
    }),
    `chain svc { meta mark set mark or 0x4000; numgen random mod ${backends.length} vmap { ${choices.join(', ')} }; }`,
    'chain prerouting { type nat hook prerouting priority dstnat; policy accept;',
    `${match} ${node} meta l4proto . th dport vmap { tcp . ${port} : goto svc, udp . ${port} : goto svc }; }`,
    'chain postrouting { type nat hook postrouting priority srcnat; policy accept;',
    'mark and 0x4000 != 0 meta mark set mark xor 0x4000 masquerade fully-random; }',
    '}',
    '',
  ].join('\n')
}

/** For `iptables-restore` and `ip6tables-restore`: one chain of jumps, a chain a Service behind it; TCP. */
export function iptablesRules(services: readonly RuleService[], family: Family): string {
  const length = family === 'IPv4' ? 32 : 128
  const name = (i: number) => `KUBE-SVC-${String(i).padStart(8, '0')}`
  return [
    '*nat',
    ':KUBE-SERVICES - [0:0]',
    ...services.map((_, i) => `:${name(i)} - [0:0]`),
    '-A PREROUTING -j KUBE-SERVICES',
    ...services.map(
      ({ address, port }, i) => `-A KUBE-SERVICES -d ${address}/${length} -p tcp -m tcp --dport ${port} -j ${name(i)}`,
    ),
    ...services.map(
      ({ backend, backendPort }, i) =>
        `-A ${name(i)} -p tcp -m tcp -j DNAT --to-destination ${endpoint(backend, backendPort, family)}`,
    ),
    'COMMIT',
    '',
  ].join('\n')
}

function endpoint(address: string, port: number, family: Family): string {
  return family === 'IPv4' ? `${address}:${port}` : `[${address}]:${port}`
}
