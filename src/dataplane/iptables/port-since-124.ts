import type { Backend } from '../../model/desired.js'
import { listsOf } from '../rules/lists.js'
import { FIREWALL, host, isLocal, MARK_DROP, MARK_MASQ, notLocal, PortWriter } from './port-writer.js'
import { network, rule } from './rule.js'

/** Rules as kube-proxy writes them since 1.24. */
export class PortSince124 extends PortWriter {
  protected write(): void {
    const lists = listsOf(this.port)
    this.#internal(lists.internal, lists.some)
    if (lists.isExternal) this.#external(lists.external, lists.some)
    if (lists.usesCluster) this.list('SVC', lists.cluster)
    if (lists.usesLocal) this.list('SVL', lists.local)
  }

  /** Connections to the ClusterIP; `list` is what its policy leaves of the backends. */
  #internal(list: readonly Backend[], some: boolean): void {
    const chain = this.chain(this.port.internalLocal ? 'SVL' : 'SVC')
    const comment = `${this.text} cluster IP`
    for (const { address, port } of this.frontends('ClusterIP')) {
      const dialled = { to: host(address), protocol: this.protocol, port }
      if (list.length === 0) {
        this.refusedInside.push(rule('KUBE-SERVICES', { ...dialled, ...this.refusal(some) }))
        continue
      }
      this.services.push(rule('KUBE-SERVICES', { ...dialled, comment, target: chain }))
      const outsiders = this.context.masqueradeAll ? {} : notLocal(this.context.local)
      if (outsiders) this.rules(chain).push(rule(chain, { ...outsiders, ...dialled, comment, target: MARK_MASQ }))
    }
  }

  /** Connections to every other frontend. */
  #external(list: readonly Backend[], some: boolean): void {
    const entry = this.chain('EXT')
    const balancers = this.frontends('LoadBalancer')
    const restricted = some && balancers.length > 0 && this.port.sourceRanges !== undefined
    const ranges = restricted ? this.chain('FW') : entry
    const protocol = this.protocol
    for (const { address, port } of this.frontends('ExternalIP')) {
      const dialled = { to: host(address), protocol, port }
      const comment = `${this.text} external IP`
      if (some) this.services.push(rule('KUBE-SERVICES', { ...dialled, comment, target: entry }))
      this.#refuseOutside(dialled, list, some)
    }
    for (const { address, port } of balancers) {
      const dialled = { to: host(address), protocol, port }
      const comment = `${this.text} loadbalancer IP`
      if (some) this.services.push(rule('KUBE-SERVICES', { ...dialled, comment, target: ranges }))
      if (restricted && this.context.layout.firewallChain) {
        const unaccepted = `${this.text} traffic not accepted by ${ranges}`
        this.firewall.push(rule(FIREWALL, { ...dialled, comment: unaccepted, target: 'DROP' }))
      }
      this.#refuseOutside(dialled, list, some)
    }
    for (const port of new Set(this.frontends('NodePort').map(each => each.port))) {
      const comment = this.text
      if (some) this.nodePorts.push(rule('KUBE-NODEPORTS', { protocol, port, comment, target: entry }))
      this.#refuseOutside({ protocol, port, matches: ['-m addrtype --dst-type LOCAL'] }, list, some)
    }
    if (!some) return
    this.#entry(entry, list)
    if (restricted) this.#sourceRanges(ranges, entry)
  }

  #refuseOutside(dialled: Parameters<typeof rule>[1], list: readonly Backend[], some: boolean): void {
    if (list.length > 0) return
    this.refusedOutside.push(rule('KUBE-EXTERNAL-SERVICES', { ...dialled, ...this.refusal(some) }))
  }

  /** The chain of all external frontends: who is translated, who dials past the policy. */
  #entry(chain: string, list: readonly Backend[]): void {
    const { externalLocal } = this.port
    const rules = this.rules(chain)
    const where = `${this.text} external destinations`
    if (externalLocal) {
      const cluster = this.chain('SVC')
      const { local } = this.context
      const fromNode = ['-m addrtype --src-type LOCAL']
      if (local) rules.push(rule(chain, { ...isLocal(local), comment: `pod traffic for ${where}`, target: cluster }))
      rules.push(
        rule(chain, { comment: `masquerade LOCAL traffic for ${where}`, matches: fromNode, target: MARK_MASQ }),
        rule(chain, { comment: `route LOCAL traffic for ${where}`, matches: fromNode, target: cluster }),
      )
    } else rules.push(rule(chain, { comment: `masquerade traffic for ${where}`, target: MARK_MASQ }))
    if (list.length > 0) rules.push(rule(chain, { target: this.chain(externalLocal ? 'SVL' : 'SVC') }))
  }

  #sourceRanges(chain: string, entry: string): void {
    const { ranges = [], node = false } = this.port.sourceRanges ?? {}
    const rules = this.rules(chain)
    const comment = `${this.text} loadbalancer IP`
    const accept = (from: string | undefined) =>
      rules.push(rule(chain, { ...(from && { from }), comment, target: entry }))
    for (const range of ranges) accept(network(range))
    // The node dials with the load-balancer's address when that is bound to it.
    if (node) for (const { address } of this.frontends('LoadBalancer')) accept(host(address))
    if (this.context.layout.firewallChain) {
      const rest = `other traffic to ${this.text} will be dropped by ${FIREWALL}`
      rules.push(rule(chain, { comment: rest }))
    } else rules.push(rule(chain, { comment, target: MARK_DROP }))
  }
}
