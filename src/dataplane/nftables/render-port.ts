import type { Address, Family } from '../../model/address.js'
import type { Backend, Frontend, FrontendKind, ServicePort } from '../../model/desired.js'
import { listsOf } from '../rules/lists.js'
import type { LocalMatch } from '../rules/local-match.js'
import { type Chain, commented, type Declaration, type Element, type PortContent } from './content.js'
import { endpointName, portName } from './names.js'

/** Words of nft that depend on the family. */
export interface Words {
  /** Family of the table, and protocol of a match: `ip saddr`. */
  readonly ip: 'ip' | 'ip6'
  /** Type of an address. */
  readonly address: 'ipv4_addr' | 'ipv6_addr'
}

export function wordsOf(family: Family): Words {
  return family === 'IPv6' ? { ip: 'ip6', address: 'ipv6_addr' } : { ip: 'ip', address: 'ipv4_addr' }
}

/** The match for packets of the cluster's pods, or for all others. */
export function localMatch(local: LocalMatch, words: Words, not: boolean): string {
  const is = not ? '!= ' : ''
  return 'device' in local
    ? `iifname ${is}"${local.device.replace(/\+$/, '*')}"`
    : `${words.ip} saddr ${is}${local.from}`
}

/** Marks a connection for a source address of this node; the bit of kube-proxy. */
export const MARK = 'meta mark set meta mark or 0x4000'

/** What one Service port adds to the table; pure. */
export function renderPort(port: ServicePort, local: LocalMatch | undefined): PortContent {
  return new PortRenderer(port, local).render()
}

class PortRenderer {
  readonly #port: ServicePort
  readonly #local: LocalMatch | undefined
  readonly #words: Words
  readonly #name: string
  readonly #protocol: string
  readonly #sets = new Map<string, Declaration>()
  readonly #chains = new Map<string, Chain>()
  readonly #elements: Element[] = []

  constructor(port: ServicePort, local: LocalMatch | undefined) {
    this.#port = port
    this.#local = local
    this.#words = wordsOf(port.family)
    this.#name = portName(port)
    this.#protocol = port.protocol.toLowerCase()
  }

  render(): PortContent {
    const lists = listsOf(this.#port)
    this.#internal(lists.internal, lists.some)
    if (lists.isExternal) this.#external(lists.external, lists.some)
    if (lists.usesCluster) this.#list('service', lists.cluster)
    if (lists.usesLocal) this.#list('local', lists.local)
    return { sets: this.#sets, chains: this.#chains, elements: this.#elements }
  }

  #internal(list: readonly Backend[], some: boolean): void {
    const chain = `${this.#port.internalLocal ? 'local' : 'service'}-${this.#name}`
    for (const { address, port } of this.#frontends('ClusterIP')) {
      this.#add('cluster-ips', address)
      const key = this.#key(address, port)
      if (list.length > 0) this.#add('service-ips', key, `goto ${chain}`)
      else this.#add('no-endpoint-services', key, refusal(some))
    }
  }

  #external(list: readonly Backend[], some: boolean): void {
    const entry = `external-${this.#name}`
    const firewall = `firewall-${this.#name}`
    const balancers = this.#frontends('LoadBalancer')
    for (const { address, port } of [...this.#frontends('ExternalIP'), ...balancers]) {
      const key = this.#key(address, port)
      if (some) this.#add('service-ips', key, `goto ${entry}`)
      if (list.length === 0) this.#add('no-endpoint-services', key, refusal(some))
    }
    if (some && balancers.length > 0 && this.#port.sourceRanges !== undefined) {
      for (const { address, port } of balancers) this.#add('firewall-ips', this.#key(address, port), `goto ${firewall}`)
      this.#sourceRanges(firewall, balancers)
    }
    for (const { address, port } of this.#frontends('NodePort')) {
      this.#add('nodeport-ips', address)
      const key = `${this.#protocol} . ${port}`
      if (some) this.#add('service-nodeports', key, `goto ${entry}`)
      if (list.length === 0) this.#add('no-endpoint-nodeports', key, refusal(some))
    }
    if (some) this.#entry(entry, list)
  }

  /** The chain of all external frontends: who is translated, who dials past the policy. */
  #entry(chain: string, list: readonly Backend[]): void {
    const { externalLocal } = this.#port
    const rules: string[] = []
    if (externalLocal) {
      const cluster = `goto service-${this.#name}`
      if (this.#local) rules.push(this.#say(`${localMatch(this.#local, this.#words, false)} ${cluster}`, 'from pods'))
      rules.push(
        this.#say(`fib saddr type local ${MARK}`, 'from this node'),
        this.#say(`fib saddr type local ${cluster}`, 'from this node'),
      )
    } else rules.push(this.#say(MARK, 'from outside'))
    if (list.length > 0) rules.push(`goto ${externalLocal ? 'local' : 'service'}-${this.#name}`)
    this.#chain(chain, rules)
  }

  /** Who may not come in is dropped; the node dials with the load-balancer's address when that is bound to it. */
  #sourceRanges(chain: string, balancers: readonly Frontend[]): void {
    const { ranges = [], node = false } = this.#port.sourceRanges ?? {}
    const sources = [...ranges, ...(node ? balancers.map(each => each.address) : [])].filter(
      (each, i, all) => all.indexOf(each) === i,
    )
    if (sources.some(each => each.endsWith('/0'))) {
      this.#chain(chain, [])
      return
    }
    const match = sources.length === 0 ? '' : `${this.#words.ip} saddr != { ${sources.join(', ')} } `
    this.#chain(chain, [this.#say(`${match}drop`, 'source ranges')])
  }

  #list(kind: 'service' | 'local', backends: readonly Backend[]): void {
    const { affinitySeconds } = this.#port
    const chain = `${kind}-${this.#name}`
    for (const backend of backends) {
      const { address, port } = backend
      this.#add('hairpin-connections', `${address} . ${address} . ${this.#protocol} . ${port}`)
    }
    if (affinitySeconds === 0) {
      this.#chain(chain, [this.#say(this.#choice(backends), '')])
      return
    }
    const members = backends.map(backend => {
      const name = endpointName(this.#port, backend)
      // A set keeps the timeout that it was made with, so another one has another name.
      return { backend, name, set: `affinity-${name}_${affinitySeconds}s` }
    })
    const known = members.map(({ name, set }) => `${this.#words.ip} saddr @${set} goto endpoint-${name}`)
    const jumps = members.map(({ name }, i) => `${i} : goto endpoint-${name}`)
    const fresh =
      members.length === 1
        ? `goto endpoint-${members[0]?.name}`
        : `numgen random mod ${members.length} vmap { ${jumps.join(', ')} }`
    this.#chain(chain, [...known.map(each => this.#say(each, '')), this.#say(fresh, '')])
    for (const { backend, name, set } of members) {
      const { address } = this.#words
      this.#sets.set(set, {
        kind: 'set',
        text: `{ type ${address} ; flags dynamic,timeout ; timeout ${affinitySeconds}s ; }`,
      })
      const remember = `update @${set} { ${this.#words.ip} saddr }`
      this.#chain(`endpoint-${name}`, [this.#say(`${remember} ${this.#translate(backend)}`, '')])
    }
  }

  #choice(backends: readonly Backend[]): string {
    const [only] = backends
    if (only !== undefined && backends.length === 1) return this.#translate(only)
    const places = backends.map(({ address, port }, i) => `${i} : ${address} . ${port}`)
    const { ip } = this.#words
    return `meta l4proto ${this.#protocol} dnat ${ip} to numgen random mod ${backends.length} map { ${places.join(', ')} }`
  }

  #translate({ address, port }: Backend): string {
    const to = this.#port.family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
    return `meta l4proto ${this.#protocol} dnat to ${to}`
  }

  #chain(name: string, rules: readonly string[]): void {
    this.#chains.set(name, { hook: '', rules })
  }

  #add(container: string, key: string, verdict = ''): void {
    this.#elements.push({ container, key, verdict })
  }

  #key(address: Address, port: number): string {
    return `${address} . ${this.#protocol} . ${port}`
  }

  #say(rule: string, what: string): string {
    const { namespace, name, portName: port } = this.#port
    return commented(rule, `${namespace}/${name}${port === '' ? '' : `:${port}`}${what === '' ? '' : `: ${what}`}`)
  }

  #frontends(kind: FrontendKind): readonly Frontend[] {
    return this.#port.frontends.filter(each => each.kind === kind)
  }
}

/** No backend anywhere is refused; none here, by policy, is silence, so that a client tries another node. */
function refusal(some: boolean): string {
  return some ? 'drop' : 'goto reject-chain'
}
