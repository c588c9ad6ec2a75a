import { silentLogger } from '../../../src/base/log.js'
import { loadKubeAccess } from '../../../src/k8s/kube-access.js'
import { KubeSource } from '../../../src/k8s/kube-source.js'
import type { Address } from '../../../src/model/address.js'
import type { DesiredState } from '../../../src/model/desired.js'
import type { EndpointSliceObject, NodeObject, ServiceObject, SourceEvent } from '../../../src/model/objects.js'
import { type HealthCheck, HealthChecks } from '../../../src/plan/health-checks.js'
import { type Objects, Planner } from '../../../src/plan/planner.js'
import { type NodeFacts, servicePortsOf } from '../../../src/plan/service-ports.js'
import { Store } from '../../../src/state/store.js'

/** Our side: the control plane as it is shipped, from the API server to desired state, step by step. */
export class OurPlan {
  readonly #nodeName: string
  readonly #source: KubeSource
  readonly #store = new Store()
  readonly #planner: Planner
  readonly #health: HealthChecks
  /** Services that are there, for a look at all of them. */
  readonly #services = new Map<string, ServiceObject>()

  private constructor(nodeName: string, source: KubeSource) {
    this.#nodeName = nodeName
    this.#source = source
    this.#health = new HealthChecks(nodeName)
    this.#planner = new Planner({ nodeName, nodePortAddresses: [], defaultScheduler: 'random' })
  }

  static async start(kubeconfig: string, nodeName: string): Promise<OurPlan> {
    const access = await loadKubeAccess({ kubeconfig })
    const ours = new OurPlan(nodeName, new KubeSource({ access, nodeName, log: silentLogger }))
    await ours.#source.start(events => ours.#take(events))
    return ours
  }

  async stop(): Promise<void> {
    await this.#source.stop()
  }

  get desired(): DesiredState {
    return this.#planner.state
  }

  get healthChecks(): Iterable<HealthCheck> {
    return this.#health.all.values()
  }

  get objects(): Objects {
    return this.#store
  }

  get node(): NodeObject | undefined {
    return this.#store.node(this.#nodeName)
  }

  /** `ADDRESS PORT PROTOCOL` of frontends that more than one Service port claims. */
  contested(): ReadonlySet<string> {
    const claims = new Map<string, number>()
    for (const port of this.#ports(this.#nodeName)) {
      for (const { address, port: number } of port.frontends) {
        const key = `${address} ${number} ${port.protocol}`
        claims.set(key, (claims.get(key) ?? 0) + 1)
      }
    }
    return new Set([...claims].filter(([, count]) => count > 1).map(([key]) => key))
  }

  /**
   * Services (`namespace/name`) about which waggle decides otherwise than kube-proxy: a
   * frontend of theirs is claimed by another, too; source ranges leave a family with none;
   * an address is theirs as external IP and by a load balancer; endpoints share an address.
   */
  ambiguous(): ReadonlySet<string> {
    const contested = this.contested()
    const found = new Set<string>()
    for (const port of this.#ports(this.#nodeName)) {
      const service = `${port.namespace}/${port.name}`
      if (port.frontends.some(each => contested.has(`${each.address} ${each.port} ${port.protocol}`)))
        found.add(service)
      if (port.sourceRanges?.ranges.length === 0) found.add(service)
    }
    for (const [service, { externalIPs, loadBalancerIPs }] of this.#services) {
      // kube-proxy writes such an address twice, and the first of the two rules knows no source ranges.
      if (externalIPs.some(address => loadBalancerIPs.includes(address))) found.add(service)
      const seen = new Set<string>()
      for (const slice of this.#store.slicesOf(service)) {
        for (const address of slice.endpoints.flatMap(each => each.addresses)) {
          if (seen.has(address)) found.add(service)
          seen.add(address)
        }
      }
    }
    return found
  }

  /**
   * The desired state that a planner with a mistake would have: to see that the comparison
   * notices. Endpoints go through `mistake`, and the node is called `nodeName`.
   */
  mistaken(
    nodeName: string,
    change: (service: ServiceObject) => ServiceObject,
    mistake: (slice: EndpointSliceObject) => EndpointSliceObject,
  ): DesiredState {
    const granted = this.#planner.state.services
    const ports = this.#ports(nodeName, change, mistake).flatMap(port => {
      const frontends = granted.get(port.id)?.frontends
      return frontends === undefined ? [] : [[port.id, { ...port, frontends }] as const]
    })
    return { revision: 0, services: new Map(ports) }
  }

  #ports(
    nodeName: string,
    change = (service: ServiceObject) => service,
    mistake = (slice: EndpointSliceObject) => slice,
  ) {
    const internalIPs: readonly Address[] = this.node?.internalIPs ?? []
    const facts: NodeFacts = {
      nodeName,
      zone: this.node?.zone,
      internalIPs,
      podCIDRs: [],
      nodePortAddresses: internalIPs,
      defaultScheduler: 'random',
    }
    return [...this.#services].flatMap(([key, service]) =>
      servicePortsOf(change(service), [...this.#store.slicesOf(key)].map(mistake), facts),
    )
  }

  #take(events: readonly SourceEvent[]): void {
    for (const event of events) {
      if (event.type === 'upsert' && event.object.kind === 'Service') {
        this.#services.set(`${event.object.namespace}/${event.object.name}`, event.object)
      } else if (event.type === 'delete' && event.kind === 'Service') this.#services.delete(event.key)
    }
    const change = this.#store.apply(events)
    this.#planner.update(this.#store, change)
    this.#health.update(this.#store, change.services)
  }
}
