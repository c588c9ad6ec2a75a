import { type Address, familyOf, parseAddress } from '../../src/model/address.js'
import type { EndpointObject, EndpointSliceObject, ServiceObject, WatchedObject } from '../../src/model/objects.js'
import { Planner, type PlannerOptions } from '../../src/plan/planner.js'
import { type Change, Store } from '../../src/state/store.js'

/** The node that plans in these tests. */
export const HERE = 'node-a'

export function address(text: string): Address {
  const parsed = parseAddress(text)
  if (parsed === undefined) throw new TypeError(`${text} is no address`)
  return parsed
}

/**
 * An endpoint in words: `198.51.100.11 ready here`. Words: ready, serving, terminating
 * (each false when not said; ready implies serving), here, node=NAME, zones=A,B, nodes=A,B.
 */
export function endpoint(text: string): EndpointObject {
  const [first = '', ...words] = text.split(' ')
  const list = (name: string) =>
    words
      .find(word => word.startsWith(`${name}=`))
      ?.slice(name.length + 1)
      .split(',')
  const zones = list('zones')
  const nodes = list('nodes')
  return {
    addresses: [address(first)],
    ready: words.includes('ready'),
    serving: words.includes('ready') || words.includes('serving'),
    terminating: words.includes('terminating'),
    nodeName: words.includes('here') ? HERE : list('node')?.[0],
    ...(zones && { zones }),
    ...(nodes && { nodes }),
  }
}

/** A slice of default/web with the port http=8080/TCP, its family taken from the endpoints. */
export function slice(
  name: string,
  endpoints: readonly string[],
  part: Partial<EndpointSliceObject> = {},
): EndpointSliceObject {
  const made = endpoints.map(endpoint)
  return {
    kind: 'EndpointSlice',
    namespace: 'default',
    name,
    service: 'web',
    family: familyOf(made[0]?.addresses[0] ?? address('0.0.0.0')),
    endpoints: made,
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    ...part,
  }
}

/** default/web, port http=80/TCP at 203.0.113.10. */
export function service(part: Partial<ServiceObject> = {}): ServiceObject {
  return {
    kind: 'Service',
    namespace: 'default',
    name: 'web',
    type: 'ClusterIP',
    clusterIPs: [address('203.0.113.10')],
    externalIPs: [],
    loadBalancerIPs: [],
    ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    scheduler: undefined,
    ...part,
  }
}

/** Freezes plain data through and through, so that whoever changes an input fails the test. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) frozen(inner)
  }
  return value
}

/** A store with its planner; objects are frozen on the way in. */
export function bench(options: Partial<PlannerOptions> = {}) {
  const store = new Store()
  const planner = new Planner({ nodeName: HERE, nodePortAddresses: [], defaultScheduler: 'random', ...options })
  const plan = (change: Change) => planner.update(store, change)
  return {
    store,
    planner,
    put: (...objects: WatchedObject[]) =>
      plan(store.apply(objects.map(object => ({ type: 'upsert', object: frozen(object) })))),
    remove: (kind: WatchedObject['kind'], ...keys: string[]) =>
      plan(store.apply(keys.map(key => ({ type: 'delete', kind, key })))),
    /** `KIND ADDRESS:PORT` of a Service port, or undefined when there is none. */
    frontends: (id: string) => planner.state.services.get(id)?.frontends.map(f => `${f.kind} ${f.address} ${f.port}`),
  }
}
