import type { Family } from '../../model/address.js'
import type { LocalMatch } from '../rules/local-match.js'
import type { Chain, Declaration } from './content.js'
import { localMatch, MARK, wordsOf } from './render-port.js'

/** How rules are written; one for each family. */
export interface RenderOptions {
  readonly family: Family
  readonly masqueradeAll: boolean
  /** Every address of the node serves node ports; otherwise those of the frontends do. */
  readonly anyNodeAddress: boolean
  /** Overrides the cluster's pod networks of the desired state. */
  readonly local?: LocalMatch
}

/** What is there whatever the Services are: containers, base chains and what those lead to. */
export interface Skeleton {
  readonly sets: ReadonlyMap<string, Declaration>
  readonly chains: ReadonlyMap<string, Chain>
}

/** The skeleton of kube-proxy's table, as it has been since 1.34; pure. */
export function skeleton(options: RenderOptions, local: LocalMatch | undefined): Skeleton {
  const words = wordsOf(options.family)
  const { ip, address } = words
  const service = `${address} . inet_proto . inet_service`
  const set = (type: string): Declaration => ({ kind: 'set', text: `{ type ${type} ; }` })
  const verdicts = (type: string): Declaration => ({ kind: 'map', text: `{ type ${type} : verdict ; }` })
  const frontend = `${ip} daddr . meta l4proto . th dport`
  const loopback = ip === 'ip6' ? '::1' : '127.0.0.0/8'
  const toNode = options.anyNodeAddress
    ? `fib daddr type local ${ip} daddr != ${loopback}`
    : `${ip} daddr @nodeport-ips`
  const base = (type: string, hook: string, priority: number, ...rules: string[]): Chain => ({
    hook: `{ type ${type} hook ${hook} priority ${priority} ; }`,
    rules,
  })
  const plain = (...rules: string[]): Chain => ({ hook: '', rules })
  const NEW = 'ct state new'
  return {
    sets: new Map([
      ['cluster-ips', set(address)],
      ['nodeport-ips', set(address)],
      ['hairpin-connections', set(`${address} . ${service}`)],
      ['service-ips', verdicts(service)],
      ['service-nodeports', verdicts('inet_proto . inet_service')],
      ['firewall-ips', verdicts(service)],
      ['no-endpoint-services', verdicts(service)],
      ['no-endpoint-nodeports', verdicts('inet_proto . inet_service')],
    ]),
    chains: new Map([
      ['reject-chain', plain('reject')],
      ['firewall-check', plain(`${frontend} vmap @firewall-ips`)],
      ['nodeport-endpoints-check', plain(`${toNode} meta l4proto . th dport vmap @no-endpoint-nodeports`)],
      ['service-endpoints-check', plain(`${frontend} vmap @no-endpoint-services`)],
      ['cluster-ips-check', plain(`${ip} daddr @cluster-ips reject comment "a port that the Service does not have"`)],
      [
        'services',
        plain(
          ...masquerade(options, local),
          `${frontend} vmap @service-ips`,
          `${toNode} meta l4proto . th dport vmap @service-nodeports`,
        ),
      ],
      [
        'masquerading',
        plain(
          // Cleared, so that what is encapsulated is not translated once more.
          'meta mark and 0x4000 != 0 meta mark set meta mark xor 0x4000 masquerade fully-random',
          `ct status dnat ${ip} saddr . ${frontend} @hairpin-connections masquerade fully-random`,
        ),
      ],
      ['filter-prerouting-pre-dnat', base('filter', 'prerouting', -110, `${NEW} jump firewall-check`)],
      ['filter-output-pre-dnat', base('filter', 'output', -110, `${NEW} jump firewall-check`)],
      [
        'filter-input',
        base('filter', 'input', 0, `${NEW} jump nodeport-endpoints-check`, `${NEW} jump service-endpoints-check`),
      ],
      [
        'filter-forward',
        base('filter', 'forward', 0, `${NEW} jump service-endpoints-check`, `${NEW} jump cluster-ips-check`),
      ],
      [
        'filter-output',
        base('filter', 'output', 0, `${NEW} jump service-endpoints-check`, `${NEW} jump cluster-ips-check`),
      ],
      ['nat-prerouting', base('nat', 'prerouting', -100, 'jump services')],
      ['nat-output', base('nat', 'output', -100, 'jump services')],
      ['nat-postrouting', base('nat', 'postrouting', 100, 'jump masquerading')],
    ]),
  }

  function masquerade({ masqueradeAll }: RenderOptions, from: LocalMatch | undefined): string[] {
    const toService = `${ip} daddr @cluster-ips`
    if (masqueradeAll) return [`${toService} ${MARK}`]
    return from === undefined ? [] : [`${toService} ${localMatch(from, words, true)} ${MARK}`]
  }
}
