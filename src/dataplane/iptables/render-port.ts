import { type Address, formatEndpoint } from '../../model/address.js'
import type { Cidr } from '../../model/cidr.js'
import type { Backend, Frontend, FrontendKind, ServicePort } from '../../model/desired.js'
import { listsOf } from '../rules/lists.js'
import { endpointChain, portChain, portText } from './names.js'
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

/** kube-proxy's detectors of local traffic: by source network or by the device. */
export type LocalMatch = { readonly from: Cidr } | { readonly device: string }

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

/** A Service port's rules as kube-proxy writes them since 1.24; pure. */
export function renderPort(port: ServicePort, context: PortContext): PortRules {
  return new PortRenderer(port, context).render()
}

class PortRenderer {
  readonly #port: ServicePort
  readonly #context: PortContext
  readonly #text: string
  readonly #protocol: string
  readonly #services: string[] = []
  readonly #nodePorts: string[] = []
  readonly #refusedInside: string[] = []
  readonly #refusedOutside: string[] = []
  readonly #firewall: string[] = []
  readonly #chains = new Map<string, string[]>()

  constructor(port: ServicePort, context: PortContext) {
    this.#port = port
    this.#context = context
    this.#text = portText(port, context.layout.unnamedColon)
    this.#protocol = port.protocol.toLowerCase()
  }

  render(): PortRules {
    const lists = listsOf(this.#port)
    this.#internal(lists.internal, lists.some)
    if (lists.isExternal) this.#external(lists.external, lists.some)
    if (lists.usesCluster) this.#list('SVC', lists.cluster)
    if (lists.usesLocal) this.#list('SVL', lists.local)
    return {
      services: this.#services,
      nodePorts: this.#nodePorts,
      refusedInside: this.#refusedInside,
      refusedOutside: this.#refusedOutside,
      firewall: this.#firewall,
      healthChecks: this.#healthChecks(),
      chains: this.#chains,
    }
  }

  /** Connections to the ClusterIP; `list` is what its policy leaves of the backends. */
  #internal(list: readonly Backend[], some: boolean): void {
    const chain = this.#chain(this.#port.internalLocal ? 'SVL' : 'SVC')
    const comment = `${this.#text} cluster IP`
    for (const { address, port } of this.#frontends('ClusterIP')) {
      const dialled = { to: host(address), protocol: this.#protocol, port }
      if (list.length === 0) {
        this.#refusedInside.push(rule('KUBE-SERVICES', { ...dialled, ...this.#refusal(some) }))
        continue
      }
      this.#services.push(rule('KUBE-SERVICES', { ...dialled, comment, target: chain }))
      const outsiders = this.#context.masqueradeAll ? {} : notLocal(this.#context.local)
      if (outsiders) this.#rules(chain).push(rule(chain, { ...outsiders, ...dialled, comment, target: MARK_MASQ }))
    }
  }

  /** Connections to every other frontend. */
  #external(list: readonly Backend[], some: boolean): void {
    const entry = this.#chain('EXT')
    const balancers = this.#frontends('LoadBalancer')
    const restricted = some && balancers.length > 0 && this.#port.sourceRanges !== undefined
    const ranges = restricted ? this.#chain('FW') : entry
    const protocol = this.#protocol
    for (const { address, port } of this.#frontends('ExternalIP')) {
      const dialled = { to: host(address), protocol, port }
      const comment = `${this.#text} external IP`
      if (some) this.#services.push(rule('KUBE-SERVICES', { ...dialled, comment, target: entry }))
      this.#refuseOutside(dialled, list, some)
    }
    for (const { address, port } of balancers) {
      const dialled = { to: host(address), protocol, port }
      const comment = `${this.#text} loadbalancer IP`
      if (some) this.#services.push(rule('KUBE-SERVICES', { ...dialled, comment, target: ranges }))
      if (restricted && this.#context.layout.firewallChain) {
        const unaccepted = `${this.#text} traffic not accepted by ${ranges}`
        this.#firewall.push(rule(FIREWALL, { ...dialled, comment: unaccepted, target: 'DROP' }))
      }
      this.#refuseOutside(dialled, list, some)
    }
    for (const port of new Set(this.#frontends('NodePort').map(each => each.port))) {
      const comment = this.#text
      if (some) this.#nodePorts.push(rule('KUBE-NODEPORTS', { protocol, port, comment, target: entry }))
      this.#refuseOutside({ protocol, port, matches: ['-m addrtype --dst-type LOCAL'] }, list, some)
    }
    if (!some) return
    this.#entry(entry, list)
    if (restricted) this.#sourceRanges(ranges, entry)
  }

  #refuseOutside(dialled: Parameters<typeof rule>[1], list: readonly Backend[], some: boolean): void {
    if (list.length > 0) return
    this.#refusedOutside.push(rule('KUBE-EXTERNAL-SERVICES', { ...dialled, ...this.#refusal(some) }))
  }

  /** No backend anywhere is refused; none here, by policy, is silence, so that a client tries another node. */
  #refusal(some: boolean): { comment: string; target: string } {
    if (some) return { comment: `${this.#text} has no local endpoints`, target: 'DROP' }
    const with_ = this.#port.family === 'IPv6' ? 'icmp6-port-unreachable' : 'icmp-port-unreachable'
    return { comment: `${this.#text} has no endpoints`, target: `REJECT --reject-with ${with_}` }
  }

  /** The chain of all external frontends: who is translated, who dials past the policy. */
  #entry(chain: string, list: readonly Backend[]): void {
    const { externalLocal } = this.#port
    const rules = this.#rules(chain)
    const where = `${this.#text} external destinations`
    if (externalLocal) {
      const cluster = this.#chain('SVC')
      const { local } = this.#context
      const fromNode = ['-m addrtype --src-type LOCAL']
      if (local) rules.push(rule(chain, { ...isLocal(local), comment: `pod traffic for ${where}`, target: cluster }))
      rules.push(
        rule(chain, { comment: `masquerade LOCAL traffic for ${where}`, matches: fromNode, target: MARK_MASQ }),
        rule(chain, { comment: `route LOCAL traffic for ${where}`, matches: fromNode, target: cluster }),
      )
    } else rules.push(rule(chain, { comment: `masquerade traffic for ${where}`, target: MARK_MASQ }))
    if (list.length > 0) rules.push(rule(chain, { target: this.#chain(externalLocal ? 'SVL' : 'SVC') }))
  }

  #healthChecks(): string[] {
    const { healthCheckNodePort: port } = this.#port
    if (port === undefined) return []
    const comment = `${this.#text} health check node port`
    return [rule('KUBE-NODEPORTS', { protocol: 'tcp', port, comment, target: 'ACCEPT' })]
  }

  #sourceRanges(chain: string, entry: string): void {
    const { ranges = [], node = false } = this.#port.sourceRanges ?? {}
    const rules = this.#rules(chain)
    const comment = `${this.#text} loadbalancer IP`
    const accept = (from: string | undefined) =>
      rules.push(rule(chain, { ...(from && { from }), comment, target: entry }))
    for (const range of ranges) accept(network(range))
    // The node dials with the load-balancer's address when that is bound to it.
    if (node) for (const { address } of this.#frontends('LoadBalancer')) accept(host(address))
    if (this.#context.layout.firewallChain) {
      const rest = `other traffic to ${this.#text} will be dropped by ${FIREWALL}`
      rules.push(rule(chain, { comment: rest }))
    } else rules.push(rule(chain, { comment, target: MARK_DROP }))
  }

  /** A list of backends and the chains of those; appended to a chain that may begin with masquerading. */
  #list(kind: 'SVC' | 'SVL', backends: readonly Backend[]): void {
    const chain = this.#chain(kind)
    const { affinitySeconds } = this.#port
    const { layout, endpointComments } = this.#context
    const rules = this.#rules(chain)
    const members = backends.map(each => ({
      text: formatEndpoint(each.address, each.port),
      chain: endpointChain(this.#text, this.#protocol, each.address, each.port),
      comment: endpointComments ? { comment: `${this.#text} -> ${formatEndpoint(each.address, each.port)}` } : {},
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
    const { endpointComments } = this.#context
    const comment = endpointComments ? { comment: this.#text } : {}
    const matches = this.#port.affinitySeconds > 0 ? [this.#recent(chain, '--set')] : []
    matches.push(`-m ${this.#protocol}`)
    this.#rules(chain).push(
      // A pod that reaches itself would answer itself directly without this.
      rule(chain, { from: host(address), ...comment, target: MARK_MASQ }),
      rule(chain, {
        protocol: this.#protocol,
        ...comment,
        matches,
        target: `DNAT --to-destination ${formatEndpoint(address, port)}`,
      }),
    )
  }

  #recent(chain: string, what: string): string {
    const mask = this.#port.family === 'IPv6' ? 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' : '255.255.255.255'
    return `-m recent ${what} --name ${chain} --mask ${mask} --rsource`
  }

  #chain(kind: 'SVC' | 'SVL' | 'EXT' | 'FW'): string {
    return portChain(kind, this.#text, this.#protocol)
  }

  #rules(chain: string): string[] {
    const rules = this.#chains.get(chain) ?? []
    this.#chains.set(chain, rules)
    return rules
  }

  #frontends(kind: FrontendKind): readonly Frontend[] {
    return this.#port.frontends.filter(each => each.kind === kind)
  }
}

/** An address as a rule names it. */
export function host(address: Address): string {
  return address.includes(':') ? `${address}/128` : `${address}/32`
}

function isLocal(match: LocalMatch): { from?: string; device?: string } {
  if ('device' in match) return { device: match.device }
  const from = network(match.from)
  return from === undefined ? {} : { from }
}

/** Undefined: nobody is told apart, so nobody is an outsider. */
function notLocal(match: LocalMatch | undefined): { from?: string; device?: string } | undefined {
  if (match === undefined) return undefined
  if ('device' in match) return { device: `! ${match.device}` }
  const from = network(match.from)
  return from === undefined ? undefined : { from: `! ${from}` }
}
