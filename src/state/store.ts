import type {
  EndpointSliceObject,
  NodeObject,
  ObjectKey,
  ProblemEvent,
  ServiceObject,
  SourceEvent,
  WatchedKind,
  WatchedObject,
} from '../model/objects.js'
import { equalData } from './equal.js'
import { type Problem, Problems } from './problems.js'

const KINDS: readonly WatchedKind[] = ['Service', 'EndpointSlice', 'Node']

/** What a batch of events changed; the input of plan. */
export interface Change {
  /** Services (namespace/name) that changed themselves or in their slices; they need not exist (any more). */
  readonly services: ReadonlySet<ObjectKey>
  /** Names of the Nodes that came, changed or left. */
  readonly nodes: ReadonlySet<string>
  /** True once every kind has delivered its first full list: from then on dataplanes may prune. */
  readonly synced: boolean
  /** Problems that were not known before this batch, for the log. */
  readonly problems: readonly Problem[]
}

/**
 * The objects of all sources. Work of `apply` is proportional to the batch: an object that
 * comes again unchanged (a relist) makes nothing dirty and keeps its identity.
 */
export class Store {
  readonly #services = new Map<ObjectKey, ServiceObject>()
  readonly #slices = new Map<ObjectKey, EndpointSliceObject>()
  readonly #slicesByService = new Map<ObjectKey, Map<ObjectKey, EndpointSliceObject>>()
  readonly #nodes = new Map<string, NodeObject>()
  readonly #synced = new Set<WatchedKind>()
  readonly #problems = new Problems()

  /** Applies a batch as one. */
  apply(events: readonly SourceEvent[]): Change {
    const services = new Set<ObjectKey>()
    const nodes = new Set<string>()
    const problems: ProblemEvent[] = []
    for (const event of events) {
      switch (event.type) {
        case 'upsert':
          this.#upsert(event.object, services, nodes)
          break
        case 'delete':
          this.#delete(event.kind, event.key, services, nodes)
          break
        case 'synced':
          this.#synced.add(event.kind)
          break
        default:
          problems.push(event)
      }
    }
    return { services, nodes, synced: this.synced, problems: this.#problems.apply(problems) }
  }

  /** True once every kind has delivered its first full list. */
  get synced(): boolean {
    return this.#synced.size === KINDS.length
  }

  /** The kinds whose first full list is still missing. */
  get awaited(): readonly WatchedKind[] {
    return KINDS.filter(kind => !this.#synced.has(kind))
  }

  /** What the sources complain of now. */
  get problems(): readonly Problem[] {
    return this.#problems.list()
  }

  service(key: ObjectKey): ServiceObject | undefined {
    return this.#services.get(key)
  }

  /** Slices of a Service, in no particular order. */
  slicesOf(service: ObjectKey): Iterable<EndpointSliceObject> {
    return this.#slicesByService.get(service)?.values() ?? []
  }

  node(name: string): NodeObject | undefined {
    return this.#nodes.get(name)
  }

  /** All objects. */
  *objects(): Generator<WatchedObject> {
    yield* this.#services.values()
    yield* this.#slices.values()
    yield* this.#nodes.values()
  }

  /** Number of objects of each kind. */
  get size(): Readonly<Record<WatchedKind, number>> {
    return { Service: this.#services.size, EndpointSlice: this.#slices.size, Node: this.#nodes.size }
  }

  #upsert(object: WatchedObject, services: Set<ObjectKey>, nodes: Set<string>): void {
    switch (object.kind) {
      case 'Service': {
        const key = `${object.namespace}/${object.name}`
        if (equalData(this.#services.get(key), object)) return
        this.#services.set(key, object)
        services.add(key)
        return
      }
      case 'EndpointSlice': {
        const key = `${object.namespace}/${object.name}`
        if (equalData(this.#slices.get(key), object)) return
        this.#removeSlice(key, services)
        this.#addSlice(key, object, services)
        return
      }
      case 'Node':
        if (equalData(this.#nodes.get(object.name), object)) return
        this.#nodes.set(object.name, object)
        nodes.add(object.name)
    }
  }

  #delete(kind: WatchedKind, key: ObjectKey, services: Set<ObjectKey>, nodes: Set<string>): void {
    if (kind === 'EndpointSlice') this.#removeSlice(key, services)
    else if (kind === 'Service' && this.#services.delete(key)) services.add(key)
    else if (kind === 'Node' && this.#nodes.delete(key)) nodes.add(key)
  }

  #addSlice(key: ObjectKey, slice: EndpointSliceObject, services: Set<ObjectKey>): void {
    const owner = `${slice.namespace}/${slice.service}`
    const siblings = this.#slicesByService.get(owner) ?? new Map<ObjectKey, EndpointSliceObject>()
    siblings.set(key, slice)
    this.#slicesByService.set(owner, siblings)
    this.#slices.set(key, slice)
    services.add(owner)
  }

  /** Also from the index of its Service, which goes with its last slice: nothing is kept of what is gone. */
  #removeSlice(key: ObjectKey, services: Set<ObjectKey>): void {
    const slice = this.#slices.get(key)
    if (slice === undefined) return
    const owner = `${slice.namespace}/${slice.service}`
    const siblings = this.#slicesByService.get(owner)
    siblings?.delete(key)
    if (siblings?.size === 0) this.#slicesByService.delete(owner)
    this.#slices.delete(key)
    services.add(owner)
  }
}
