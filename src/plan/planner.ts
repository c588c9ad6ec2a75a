import { type Address, type Family, familyOf, formatEndpoint } from '../model/address.js'
import { type Cidr, cidrHas } from '../model/cidr.js'
import type { DesiredState, Frontend, Scheduler, ServicePort } from '../model/desired.js'
import type { EndpointSliceObject, NodeObject, ObjectKey, ProblemEvent, ServiceObject } from '../model/objects.js'
import { Claims } from './claims.js'
import { keepIdentity } from './keep.js'
import { nodePortAddresses } from './node-addresses.js'
import { type NodeFacts, servicePortsOf } from './service-ports.js'
import { SnapshotMap } from './snapshot-map.js'

/** The Service whose endpoints are the API servers; what they listen on is never taken away from them. */
const API_SERVICE: ObjectKey = 'default/kubernetes'
const FAMILIES: readonly Family[] = ['IPv4', 'IPv6']

export interface PlannerOptions {
  /** As the Node object is called: endpoints with this nodeName are local. */
  readonly nodeName: string
  /** CIDRs, `primary`, `localhost` or `all`; empty means `primary`. */
  readonly nodePortAddresses: readonly string[]
  /** Whether loopback addresses may serve node ports, where nodePortAddresses has them. */
  readonly localhostNodePorts?: boolean
  /** Networks of all pods of the cluster; unset means those of this node's pods. */
  readonly clusterCIDRs?: readonly Cidr[] | undefined
  /** Which addresses may be external IPs; unset means every one. */
  readonly externalIPCIDRs?: readonly Cidr[] | undefined
  readonly defaultScheduler: Scheduler
}

/** The objects a plan is made of; the store is one. */
export interface Objects {
  service(key: ObjectKey): ServiceObject | undefined
  slicesOf(service: ObjectKey): Iterable<EndpointSliceObject>
  node(name: string): NodeObject | undefined
}

/** What changed in them since the last plan. */
export interface Dirty {
  readonly services: ReadonlySet<ObjectKey>
  readonly nodes: ReadonlySet<string>
  /** Every kind has delivered its first full list. */
  readonly synced: boolean
}

export interface Plan {
  /** The same object as before when nothing changed. */
  readonly state: DesiredState
  /** Ids of the Service ports that differ from the last plan, removed ones included. */
  readonly changed: ReadonlySet<string>
  /** News only: a problem that appeared, or one that is gone. */
  readonly problems: readonly ProblemEvent[]
}

/** What one Service claims, before clashes with others are decided. */
interface Draft {
  readonly port: ServicePort
  readonly created: number | undefined
}

/**
 * Keeps the desired state up to date. Work is proportional to the dirty Services, to the
 * Services with node ports when the node's addresses change, and to those that share a
 * frontend with a dirty one.
 */
export class Planner {
  readonly #options: PlannerOptions
  readonly #claims = new Claims()
  readonly #idsByService = new Map<ObjectKey, readonly string[]>()
  readonly #drafts = new Map<string, Draft>()
  /** Services that depend on this node's addresses, zone or pod networks. */
  readonly #withNodePort: Readonly<Record<Family, Set<ObjectKey>>> = { IPv4: new Set(), IPv6: new Set() }
  readonly #withHints = new Set<ObjectKey>()
  readonly #withSourceRanges = new Set<ObjectKey>()
  /** Standing problems by where; the value is their text. */
  readonly #standing = new Map<string, string>()
  #apiServers: ReadonlySet<string> = new Set()
  #facts: NodeFacts
  #hostAddresses: readonly Address[] = []
  #hostChanged = false
  #state: DesiredState

  constructor(options: PlannerOptions) {
    this.#options = options
    const { nodeName, defaultScheduler, clusterCIDRs = [] } = options
    const nobody = { zone: undefined, nodePortAddresses: [], internalIPs: [], podCIDRs: clusterCIDRs }
    this.#facts = { nodeName, defaultScheduler, ...nobody }
    this.#state = { revision: 0, services: SnapshotMap.empty<ServicePort>(), podNetworks: sorted(clusterCIDRs) }
  }

  /** Every address of this machine; the next update looks at node ports anew when they changed. */
  setHostAddresses(addresses: readonly Address[]): void {
    if (sameTexts(addresses, this.#hostAddresses)) return
    this.#hostAddresses = addresses
    this.#hostChanged = true
  }

  /** The desired state of the last update. */
  get state(): DesiredState {
    return this.#state
  }

  /** The addresses that serve node ports since the last update. */
  get nodePortAddresses(): readonly Address[] {
    return this.#facts.nodePortAddresses
  }

  /** Brings the desired state up to date with `objects`, of which `dirty` says what changed. */
  update(objects: Objects, dirty: Dirty): Plan {
    const problems: ProblemEvent[] = []
    const keys = new Set(dirty.services)
    const podNetworks = this.#state.podNetworks
    if (dirty.nodes.has(this.#options.nodeName) || this.#hostChanged) this.#nodeChanged(objects, keys)
    const touched = new Set<string>()
    if (dirty.services.has(API_SERVICE) && this.#apiServersChanged(objects)) {
      for (const id of this.#drafts.keys()) touched.add(id)
    }
    this.#redraft(objects, [...keys].sort(), touched)
    const changes = this.#decide(touched, problems)
    this.#reportNode(objects, dirty, problems)
    if (changes.size > 0 || this.#state.podNetworks !== podNetworks) {
      const services = (this.#state.services as SnapshotMap<ServicePort>).with(changes)
      this.#state = { ...this.#state, revision: this.#state.revision + 1, services }
    }
    return { state: this.#state, changed: new Set(changes.keys()), problems }
  }

  /**
   * Adds the Services that depend on what changed of this node. A Node that is deleted
   * keeps its last known addresses, zone and pod networks: it may be about to come back.
   */
  #nodeChanged(objects: Objects, keys: Set<ObjectKey>): void {
    this.#hostChanged = false
    const before = this.#facts
    const { localhostNodePorts: localhost = false, clusterCIDRs, nodePortAddresses: wanted } = this.#options
    const node = objects.node(this.#options.nodeName)
    const internalIPs = node === undefined ? before.internalIPs : node.internalIPs
    const zone = node === undefined ? before.zone : node.zone
    // Sockets here are this node's pods', so their own networks say more than the cluster's.
    const podCIDRs = node === undefined ? before.podCIDRs : (node.podCIDRs ?? clusterCIDRs ?? [])
    const addresses = nodePortAddresses({ internalIPs, hostAddresses: this.#hostAddresses, localhost }, wanted)
    const add = (dependent: ReadonlySet<ObjectKey>) => {
      for (const key of dependent) keys.add(key)
    }
    if (!sameTexts(addresses, before.nodePortAddresses)) {
      for (const family of FAMILIES) add(this.#withNodePort[family])
    }
    if (zone !== before.zone) add(this.#withHints)
    const sameInside = sameTexts(internalIPs, before.internalIPs) && sameTexts(podCIDRs, before.podCIDRs)
    if (!sameInside) add(this.#withSourceRanges)
    this.#facts = { ...before, nodePortAddresses: addresses, zone, internalIPs, podCIDRs }
    const podNetworks = sorted(clusterCIDRs ?? podCIDRs)
    if (!sameTexts(podNetworks, this.#state.podNetworks ?? [])) this.#state = { ...this.#state, podNetworks }
  }

  /**
   * A wrong node name makes node ports silent and every endpoint remote, a node without an
   * address of a family the node ports of that family: say so, once everything is known.
   */
  #reportNode(objects: Objects, dirty: Dirty, problems: ProblemEvent[]): void {
    const { nodeName } = this.#options
    const where = `node ${nodeName}`
    if (!dirty.synced) return
    if (objects.node(nodeName) === undefined) {
      const message = 'no Node object has this name, so no node port is served; correct the node name or add the Node'
      this.#report(where, 'metadata.name', message, problems)
      return
    }
    const served = new Set(this.#facts.nodePortAddresses.map(familyOf))
    const silent = FAMILIES.filter(family => this.#withNodePort[family].size > 0 && !served.has(family)).join(' and ')
    const remedy = 'add one to the Node, or widen --nodeport-addresses'
    const message =
      silent && `has no ${silent} address for node ports, so node ports of that family are silent; ${remedy}`
    this.#report(where, 'status.addresses', message || undefined, problems)
  }

  #apiServersChanged(objects: Objects): boolean {
    const found = new Set<string>()
    for (const slice of objects.slicesOf(API_SERVICE)) {
      for (const { port, protocol } of slice.ports) {
        for (const { addresses } of slice.endpoints) {
          for (const address of addresses) found.add(`${address} ${port} ${protocol}`)
        }
      }
    }
    if (found.size === this.#apiServers.size && [...found].every(entry => this.#apiServers.has(entry))) return false
    this.#apiServers = found
    return true
  }

  /**
   * Plans the Services `keys` anew and records what they claim. Claims are withdrawn
   * before others are made, so a frontend may change hands within one batch. Adds the ids
   * to look at again to `touched`.
   */
  #redraft(objects: Objects, keys: readonly ObjectKey[], touched: Set<string>): void {
    const drafts = new Map<string, Draft>()
    const replaced: string[] = []
    for (const key of keys) {
      const service = objects.service(key)
      const slices = service === undefined ? [] : [...objects.slicesOf(key)]
      const ports = service === undefined ? [] : servicePortsOf(service, slices, this.#facts)
      for (const port of ports) drafts.set(port.id, { port, created: service?.created })
      replaced.push(...(this.#idsByService.get(key) ?? []))
      this.#remember(key, service, slices, ports)
    }
    for (const id of replaced) {
      const old = this.#drafts.get(id)
      const next = drafts.get(id)
      if (old !== undefined) this.#withdraw(old.port, next?.port, touched)
      if (next === undefined) {
        this.#drafts.delete(id)
        touched.add(id)
      }
    }
    for (const [id, next] of drafts) {
      this.#claim(this.#drafts.get(id), next, touched)
      this.#drafts.set(id, next)
      touched.add(id)
    }
  }

  #remember(
    key: ObjectKey,
    service: ServiceObject | undefined,
    slices: readonly EndpointSliceObject[],
    ports: readonly ServicePort[],
  ): void {
    if (ports.length === 0) this.#idsByService.delete(key)
    else
      this.#idsByService.set(
        key,
        ports.map(port => port.id),
      )
    const hasNodePort = service?.ports.some(port => port.nodePort !== 0) === true
    for (const family of FAMILIES) {
      const isOfFamily = service?.clusterIPs.some(address => familyOf(address) === family) === true
      keepIn(this.#withNodePort[family], key, hasNodePort && isOfFamily)
    }
    keepIn(this.#withSourceRanges, key, service?.sourceRanges !== undefined)
    keepIn(
      this.#withHints,
      key,
      slices.some(slice => slice.endpoints.some(endpoint => endpoint.zones !== undefined)),
    )
  }

  #withdraw(old: ServicePort, next: ServicePort | undefined, touched: Set<string>): void {
    const kept = new Set(next?.frontends.map(frontend => claimKey(next, frontend)))
    for (const frontend of old.frontends) {
      const key = claimKey(old, frontend)
      if (kept.has(key)) continue
      for (const id of this.#claims.remove(key, old.id)) touched.add(id)
    }
  }

  #claim(old: Draft | undefined, next: Draft, touched: Set<string>): void {
    const { port, created } = next
    const same = old !== undefined && old.created === created
    for (const frontend of port.frontends) {
      if (
        same &&
        old.port.frontends.some(
          f => f.address === frontend.address && f.port === frontend.port && f.kind === frontend.kind,
        )
      )
        continue
      for (const id of this.#claims.add(claimKey(port, frontend), { id: port.id, kind: frontend.kind, created }))
        touched.add(id)
    }
  }

  /** The Service ports of `ids` with the frontends that are theirs; what differs from the last plan. */
  #decide(ids: ReadonlySet<string>, problems: ProblemEvent[]): Map<string, ServicePort | undefined> {
    const changes = new Map<string, ServicePort | undefined>()
    for (const id of ids) {
      const previous = this.#state.services.get(id)
      const draft = this.#drafts.get(id)
      const next = draft && this.#grant(draft, previous, problems)
      if (draft === undefined) this.#report(id, 'frontends', undefined, problems)
      if (next !== previous) changes.set(id, next)
    }
    return changes
  }

  /** A draft without the frontends it does not get, sharing with `previous` what is equal. */
  #grant(draft: Draft, previous: ServicePort | undefined, problems: ProblemEvent[]): ServicePort {
    const { port, created } = draft
    const refused: string[] = []
    const frontends = port.frontends.filter(frontend => {
      const reason = this.#refusal(port, frontend)
      if (reason !== undefined) refused.push(`${formatEndpoint(frontend.address, frontend.port)} ${reason}`)
      return reason === undefined
    })
    const message = refused.length === 0 ? undefined : `not served: ${refused.join('; ')}`
    this.#report(port.id, 'frontends', message, problems)
    const granted = keepIdentity(previous, { ...port, frontends })
    // The draft shares the lists, so that backends are in memory once.
    this.#drafts.set(port.id, { port: { ...granted, frontends: port.frontends }, created })
    return granted
  }

  /** Why a Service port does not get a frontend it claims; undefined = it does. */
  #refusal(draft: ServicePort, frontend: Frontend): string | undefined {
    const key = claimKey(draft, frontend)
    if (frontend.kind !== 'ClusterIP' && this.#apiServers.has(key))
      return "is an API server's; choose another address or port"
    const { externalIPCIDRs } = this.#options
    if (frontend.kind === 'ExternalIP' && externalIPCIDRs?.some(cidr => cidrHas(cidr, frontend.address)) === false)
      return 'is outside of --external-ip-cidrs; choose another address, or add its network there'
    const owner = this.#claims.owner(key)
    if (owner === undefined || owner.id === draft.id) return undefined
    return `is ${owner.kind} of ${owner.id}; choose another address or port`
  }

  #report(where: string, field: string, message: string | undefined, problems: ProblemEvent[]): void {
    if (this.#standing.get(where) === message) return
    if (this.#standing.delete(where)) problems.push({ type: 'resolved', where })
    if (message === undefined) return
    this.#standing.set(where, message)
    problems.push({ type: 'problem', where, field, message })
  }
}

function keepIn<T>(set: Set<T>, value: T, member: boolean): void {
  if (member) set.add(value)
  else set.delete(value)
}

function claimKey(port: ServicePort, frontend: Frontend): string {
  return `${frontend.address} ${frontend.port} ${port.protocol}`
}

function sorted(cidrs: readonly Cidr[]): readonly Cidr[] {
  return [...new Set(cidrs)].sort()
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, i) => text === b[i])
}
