import type { Backend, Frontend } from '../../model/desired.js'
import { listsOf } from '../rules/lists.js'
import { host, isLocal, MARK_DROP, MARK_MASQ, notLocal, PortWriter } from './port-writer.js'
import { network, type RuleParts, rule } from './rule.js'

/**
 * Rules as kube-proxy wrote them up to 1.23: one list, and for externalTrafficPolicy Local
 * a chain KUBE-XLB beside it. What nobody may reach is marked for the kubelet to drop.
 */
export class PortUntil123 extends PortWriter {
  protected write(): void {
    const { internalLocal, externalLocal } = this.port
    const { cluster, local, isExternal, some } = listsOf(this.port)
    const list = internalLocal && !isExternal ? local : cluster
    if (!some || list.length === 0) {
      this.#refuse(some)
      return
    }
    this.#internal()
    for (const frontend of this.frontends('ExternalIP')) this.#dialled(frontend, 'external IP')
    for (const frontend of this.frontends('LoadBalancer')) this.#balanced(frontend)
    for (const port of new Set(this.frontends('NodePort').map(each => each.port))) this.#nodePort(port)
    this.list('SVC', list)
    if (externalLocal && isExternal) this.#local(local)
  }

  /** Of the policies that are silent where no backend is, this shape knows the external one alone, in its chain. */
  #refuse(some: boolean): void {
    const refusal = this.refusal(some)
    for (const { address, port } of this.frontends('ClusterIP')) {
      this.refusedInside.push(rule('KUBE-SERVICES', { to: host(address), protocol: this.protocol, port, ...refusal }))
    }
    const outside = (parts: RuleParts) =>
      this.refusedOutside.push(rule('KUBE-EXTERNAL-SERVICES', { protocol: this.protocol, ...parts, ...refusal }))
    for (const { address, port } of [...this.frontends('ExternalIP'), ...this.frontends('LoadBalancer')]) {
      outside({ to: host(address), port })
    }
    for (const port of new Set(this.frontends('NodePort').map(each => each.port))) {
      outside({ port, matches: ['-m addrtype --dst-type LOCAL'] })
    }
  }

  #internal(): void {
    const comment = `${this.text} cluster IP`
    const outsiders = this.context.masqueradeAll ? {} : notLocal(this.context.local)
    for (const { address, port } of this.frontends('ClusterIP')) {
      const dialled = { to: host(address), protocol: this.protocol, port, comment }
      if (outsiders) this.#masquerade('KUBE-SERVICES', this.services, { ...outsiders, ...dialled })
      this.services.push(rule('KUBE-SERVICES', { ...dialled, target: this.chain('SVC') }))
    }
  }

  /** An external IP: masqueraded unless the policy keeps the client's address. */
  #dialled({ address, port }: Frontend, what: string): void {
    const dialled = { to: host(address), protocol: this.protocol, port, comment: `${this.text} ${what}` }
    if (!this.port.externalLocal) this.#masquerade('KUBE-SERVICES', this.services, dialled)
    this.services.push(rule('KUBE-SERVICES', { ...dialled, target: this.#outside }))
  }

  /** A load balancer's address has a chain of its own, whether source ranges are set or not. */
  #balanced({ address, port }: Frontend): void {
    const chain = this.chain('FW')
    const comment = `${this.text} loadbalancer IP`
    this.services.push(
      rule('KUBE-SERVICES', { to: host(address), protocol: this.protocol, port, comment, target: chain }),
    )
    const rules = this.rules(chain)
    const { sourceRanges, externalLocal } = this.port
    const target = this.#outside
    if (rules.length === 0) {
      if (!externalLocal) rules.push(rule(chain, { comment, target: MARK_MASQ }))
      if (sourceRanges === undefined) rules.push(rule(chain, { comment, target }))
      for (const range of sourceRanges?.ranges ?? []) {
        const from = network(range)
        rules.push(rule(chain, { ...(from && { from }), comment, target }))
      }
    } else rules.pop()
    if (sourceRanges?.node === true) rules.push(rule(chain, { from: host(address), comment, target }))
    // Whoever is still here has not been let in.
    rules.push(rule(chain, { comment, target: MARK_DROP }))
  }

  #nodePort(port: number): void {
    const dialled = { protocol: this.protocol, port, comment: this.text }
    if (this.port.externalLocal) {
      const from = this.port.family === 'IPv6' ? '::1/128' : '127.0.0.0/8'
      this.nodePorts.push(rule('KUBE-NODEPORTS', { from, ...dialled, target: MARK_MASQ }))
    } else this.#masquerade('KUBE-NODEPORTS', this.nodePorts, dialled)
    this.nodePorts.push(rule('KUBE-NODEPORTS', { ...dialled, target: this.#outside }))
  }

  /** externalTrafficPolicy Local: pods and the node dial past it. */
  #local(backends: readonly Backend[]): void {
    const chain = this.chain('XLB')
    const rules = this.rules(chain)
    const cluster = this.chain('SVC')
    const { local } = this.context
    const fromNode = ['-m addrtype --src-type LOCAL']
    if (local) {
      const comment = 'Redirect pods trying to reach external loadbalancer VIP to clusterIP'
      rules.push(rule(chain, { ...isLocal(local), comment, target: cluster }))
    }
    rules.push(
      rule(chain, { comment: `masquerade LOCAL traffic for ${this.text} LB IP`, matches: fromNode, target: MARK_MASQ }),
      rule(chain, {
        comment: `route LOCAL traffic for ${this.text} LB IP to service chain`,
        matches: fromNode,
        target: cluster,
      }),
    )
    if (backends.length > 0) this.list('XLB', backends)
    else rules.push(rule(chain, { comment: `${this.text} has no local endpoints`, target: MARK_DROP }))
  }

  /** Where connections of outside clients go. */
  get #outside(): string {
    return this.chain(this.port.externalLocal ? 'XLB' : 'SVC')
  }

  /** In the Service's own chain, or before the jump to it. */
  #masquerade(beside: string, list: string[], parts: RuleParts): void {
    const { masqueradeBeside } = this.context.layout
    const chain = masqueradeBeside ? beside : this.chain('SVC')
    const into = masqueradeBeside ? list : this.rules(chain)
    into.push(rule(chain, { ...parts, target: MARK_MASQ }))
  }
}
