import { type Address, formatEndpoint } from '../../model/address.js'
import type { Backend, Frontend, FrontendKind, ServicePort } from '../../model/desired.js'
import type { LocalMatch } from '../rules/local-match.js'
import { endpointChain, type PortChain, portChain, portText } from './names.js'
import type { Layout } from './profile.js'
import { network, probability, rule } from './rule.js'

/** What the rules of every Service port depend on beside it. */
export interface PortContext {
  readonly layout: Layout
  /** Every connection through a ClusterIP leaves with the node's address. */
  readonly masqueradeAll: boolean
  /** How a pod of the cluster is told from others; undefined = it is not. One match each, `-s` or `-i`. */
  readonly local: LocalMatch | undefined
  /** In large clusters the rules of endpoints carry no comment. */
  readonly endpointComments: boolean
}

/** The rules of one Service port, by where they go. */
export interface PortRules {
  /** nat KUBE-SERVICES */
  readonly services: readonly string[]
  /** nat KUBE-NODEPORTS */
  readonly nodePorts: readonly string[]
  /** filter KUBE-SERVICES */
  readonly refusedInside: readonly string[]
  /** filter KUBE-EXTERNAL-SERVICES */
  readonly refusedOutside: readonly string[]
  /** filter KUBE-PROXY-FIREWALL */
  readonly firewall: readonly string[]
  /** filter KUBE-NODEPORTS */
  readonly healthChecks: readonly string[]
  /** Its own nat chains; every chain that a rule above or here jumps to. */
  readonly chains: ReadonlyMap<string, readonly string[]>
}

export const MARK_MASQ = 'KUBE-MARK-MASQ'
export const MARK_DROP = 'KUBE-MARK-DROP'
export const FIREWALL = 'KUBE-PROXY-FIREWALL'

/** What the rules of one Service port are made with, whatever their shape. */
export abstract class PortWriter {
  protected readonly port: ServicePort
  protected readonly context: PortContext
  /** `default/web:http` */
  protected readonly text: string
  /** Lower case: `tcp`. */
  protected readonly protocol: string
  protected readonly services: string[] = []
  protected readonly nodePorts: string[] = []
  protected readonly refusedInside: string[] = []
  protected readonly refusedOutside: string[] = []
  protected readonly firewall: string[] = []
  readonly #chains = new Map<string, string[]>()

  constructor(port: ServicePort, context: PortContext) {
    this.port = port
    this.context = context
    this.text = portText(port, context.layout.unnamedColon)
    this.protocol = port.protocol.toLowerCase()
  }

  /** Fills the lists above and the chains. */
  protected abstract write(): void

  render(): PortRules {
    this.write()
    return {
      services: this.services,
      nodePorts: this.nodePorts,
      refusedInside: this.refusedInside,
      refusedOutside: this.refusedOutside,
      firewall: this.firewall,
      healthChecks: this.#healthChecks(),
      chains: this.#chains,
    }
  }

  /** A list of backends and the chains of those; appended to a chain that may begin with masquerading. */
  protected list(kind: 'SVC' | 'SVL' | 'XLB', backends: readonly Backend[]): void {
    const chain = this.chain(kind)
    const { affinitySeconds } = this.port
    const { layout, endpointComments } = this.context
    const named = (text: string) => (layout.endpointsNamed ? `${this.text} -> ${text}` : this.text)
    const rules = this.rules(chain)
    const members = backends.map(each => ({
      text: formatEndpoint(each.address, each.port),
      chain: endpointChain(this.text, this.protocol, each.address, each.port),
      comment: endpointComments ? { comment: named(formatEndpoint(each.address, each.port)) } : {},
      backend: each,
    }))
    // kube-proxy's order: by text, the port in it.
    members.sort((a, b) => (a.text < b.text ? -1 : 1))
    if (affinitySeconds > 0) {
      for (const member of members) {
        const known = this.#recent(member.chain, `--rcheck --seconds ${affinitySeconds} --reap`)
        rules.push(rule(chain, { ...member.comment, matches: [known], target: member.chain }))
      }
    }
    members.forEach((member, i) => {
      const left = members.length - i
      const matches = left === 1 ? [] : [probability(left, layout.probabilityDigits)]
      rules.push(rule(chain, { ...member.comment, matches, target: member.chain }))
      if (!this.#chains.has(member.chain)) this.#endpoint(member.chain, member.backend)
    })
  }

  #endpoint(chain: string, { address, port }: Backend): void {
    const { endpointComments } = this.context
    const comment = endpointComments ? { comment: this.text } : {}
    const matches = this.port.affinitySeconds > 0 ? [this.#recent(chain, '--set')] : []
    matches.push(`-m ${this.protocol}`)
    this.rules(chain).push(
      // A pod that reaches itself would answer itself directly without this.
      rule(chain, { from: host(address), ...comment, target: MARK_MASQ }),
      rule(chain, {
        protocol: this.protocol,
        ...comment,
        matches,
        target: `DNAT --to-destination ${formatEndpoint(address, port)}`,
      }),
    )
  }

  #recent(chain: string, what: string): string {
    const mask = this.port.family === 'IPv6' ? 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' : '255.255.255.255'
    return `-m recent ${what} --name ${chain} --mask ${mask} --rsource`
  }

  #healthChecks(): string[] {
    const { healthCheckNodePort: port } = this.port
    if (port === undefined || !this.context.layout.healthChecks) return []
    const comment = `${this.text} health check node port`
    return [rule('KUBE-NODEPORTS', { protocol: 'tcp', port, comment, target: 'ACCEPT' })]
  }

  /** No backend anywhere is refused; none here, by policy, is silence, so that a client tries another node. */
  protected refusal(some: boolean): { comment: string; target: string } {
    if (some) return { comment: `${this.text} has no local endpoints`, target: 'DROP' }
    const with_ = this.port.family === 'IPv6' ? 'icmp6-port-unreachable' : 'icmp-port-unreachable'
    return { comment: `${this.text} has no endpoints`, target: `REJECT --reject-with ${with_}` }
  }

  protected chain(kind: PortChain): string {
    return portChain(kind, this.text, this.protocol)
  }

  protected rules(chain: string): string[] {
    const rules = this.#chains.get(chain) ?? []
    this.#chains.set(chain, rules)
    return rules
  }

  protected frontends(kind: FrontendKind): readonly Frontend[] {
    return this.port.frontends.filter(each => each.kind === kind)
  }
}

/** An address as a rule names it. */
export function host(address: Address): string {
  return address.includes(':') ? `${address}/128` : `${address}/32`
}

export function isLocal(match: LocalMatch): { from?: string; device?: string } {
  if ('device' in match) return { device: match.device }
  const from = network(match.from)
  return from === undefined ? {} : { from }
}

/** Undefined: nobody is told apart, so nobody is an outsider. */
export function notLocal(match: LocalMatch | undefined): { from?: string; device?: string } | undefined {
  if (match === undefined) return undefined
  if ('device' in match) return { device: `! ${match.device}` }
  const from = network(match.from)
  return from === undefined ? undefined : { from: `! ${from}` }
}
