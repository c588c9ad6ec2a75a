import { type Address, familyOf } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'
import { type DesiredState, SCHEDULERS } from '../../src/model/desired.js'
import type {
  EndpointObject,
  EndpointSliceObject,
  NodeObject,
  ServiceObject,
  SourceEvent,
} from '../../src/model/objects.js'
import { Planner } from '../../src/plan/planner.js'
import { Store } from '../../src/state/store.js'
import { ownAddresses } from './differential-node.js'
import type { Random } from './differential-random.js'

/** Random Services, endpoints and Nodes, and what the planner makes of them. Addresses: tc-node.ts. */

const HERE = 'node-a'
const NAMES = ['a', 'b', 'c', 'd', 'e'] as const
const FAMILIES = ['IPv4', 'IPv6'] as const
/** So many kinds of addresses that some Services share one. */
const EXTERNAL = {
  IPv4: ['198.51.100.1', '198.51.100.2', '198.51.100.3', '192.168.0.1', '192.168.1.1', '203.0.113.9'],
  IPv6: ['2001:db8:e::1', '2001:db8:e::2', '2001:db8:e::3', '2001:db8:c0::1', '2001:db8:c1::1', '2001:db8:f::9'],
} as Record<'IPv4' | 'IPv6', Address[]>
const PODS = {
  IPv4: { here: '10.0.1.', there: '10.0.2.', noSource: '10.0.3.', narrow: '10.0.4.', nowhere: '10.0.9.' },
  IPv6: {
    here: '2001:db8:a1::',
    there: '2001:db8:a2::',
    noSource: '2001:db8:a3::',
    narrow: '2001:db8:a4::',
    nowhere: '2001:db8:a9::',
  },
} as const
const HOSTS = {
  IPv4: { here: '192.168.0.1', there: '192.168.1.2' },
  IPv6: { here: '2001:db8:c0::1', there: '2001:db8:c1::2' },
} as const
const RANGES = [
  '203.0.113.0/28',
  '203.0.113.7/32',
  '10.0.0.0/16',
  '0.0.0.0/0',
  '2001:db8:f::/125',
  '2001:db8:f::7/128',
  '2001:db8:a0::/44',
  '::/0',
] as Cidr[]
/** What `--cluster-cidr` may say. */
const CLUSTER: readonly (readonly Cidr[] | undefined)[] = [undefined, ['10.0.0.0/16', '2001:db8:a0::/44'] as Cidr[]]
const NODE_PORT_ADDRESSES = [[], ['all'], ['primary', 'localhost'], ['192.168.1.0/24', '2001:db8:c1::/64']] as const
export const SERVICE_PORTS = [53, 80] as const
export const FIRST_NODE_PORT = 30000

/** The objects of a node's world, changed at random. */
export class RandomState {
  readonly #store = new Store()
  readonly #planner: Planner
  readonly #affinity: boolean

  /** `affinity` false: no Service has session affinity. */
  constructor(random: Random, affinity: boolean) {
    this.#affinity = affinity
    this.#planner = new Planner({
      nodeName: HERE,
      nodePortAddresses: random.pick(NODE_PORT_ADDRESSES),
      localhostNodePorts: random.once(2),
      clusterCIDRs: random.pick(CLUSTER),
      defaultScheduler: 'random',
    })
    this.#planner.setHostAddresses(ownAddresses)
    this.#update([
      ...(['Service', 'EndpointSlice', 'Node'] as const).map(kind => ({ type: 'synced' as const, kind })),
      { type: 'upsert', object: nodeObject(random) },
    ])
  }

  get desired(): DesiredState {
    return this.#planner.state
  }

  /** A few Services from nothing. */
  fill(random: Random): ReadonlySet<string> {
    const names = NAMES.filter(() => !random.once(3))
    return this.#update(names.flatMap(name => [service(random, name), ...slices(random, name)]))
  }

  /** No Services. */
  empty(): ReadonlySet<string> {
    return this.#update(NAMES.flatMap(name => removal(name)))
  }

  /** Something else than before: a Service, its endpoints, the Node. */
  change(random: Random): ReadonlySet<string> {
    const name = random.pick(NAMES)
    const events = random.weighted<() => SourceEvent[]>([
      [6, () => slices(random, name)],
      [4, () => [service(random, name)]],
      [2, () => [service(random, name), ...slices(random, name)]],
      [2, () => removal(name)],
      [1, () => [...removal(name), service(random, random.pick(NAMES))]],
      [1, () => [{ type: 'upsert', object: nodeObject(random) }]],
    ])()
    return this.#update(events)
  }

  #update(events: readonly SourceEvent[]): ReadonlySet<string> {
    const wanted = this.#affinity ? events : events.map(withoutAffinity)
    return this.#planner.update(this.#store, this.#store.apply(wanted)).changed
  }
}

function withoutAffinity(event: SourceEvent): SourceEvent {
  if (event.type !== 'upsert' || event.object.kind !== 'Service') return event
  return { ...event, object: { ...event.object, affinitySeconds: 0 } }
}

function nodeObject(random: Random): NodeObject {
  const zone = random.pick(['z1', 'z2', undefined])
  return {
    kind: 'Node',
    name: HERE,
    internalIPs: ['192.168.0.1', '2001:db8:c0::1'] as Address[],
    podCIDRs: ['10.0.1.0/24', '2001:db8:a1::/64'] as Cidr[],
    ...(zone && { zone }),
  }
}

function removal(name: string): SourceEvent[] {
  const slice = (family: string) => ({
    type: 'delete' as const,
    kind: 'EndpointSlice' as const,
    key: `x/${name}-${family}`,
  })
  return [{ type: 'delete', kind: 'Service', key: `x/${name}` }, ...FAMILIES.map(slice)]
}

function service(random: Random, name: string): SourceEvent {
  const at = NAMES.indexOf(name as 'a')
  const clusterIPs = random.pick([
    [`172.30.0.${at + 1}`],
    [`2001:db8:30::${at + 1}`],
    [`172.30.0.${at + 1}`, `2001:db8:30::${at + 1}`],
  ]) as Address[]
  const all = [...EXTERNAL.IPv4, ...EXTERNAL.IPv6]
  const protocols = random.pick([['TCP'], ['UDP'], ['TCP', 'UDP'], ['SCTP']] as const)
  const ports = protocols.flatMap((protocol, i) => {
    const port = random.pick(SERVICE_PORTS)
    return [
      { name: protocol.toLowerCase(), protocol, port, nodePort: random.once(3) ? 0 : FIRST_NODE_PORT + 2 * at + i },
    ]
  })
  const object: ServiceObject = {
    kind: 'Service',
    namespace: 'x',
    name,
    type: 'LoadBalancer',
    clusterIPs,
    externalIPs: random.some(all, 5),
    loadBalancerIPs: random.some(all, 6),
    ...(random.once(3) && { sourceRanges: random.some(RANGES, 3).sort() }),
    ports,
    affinitySeconds: random.pick([0, 0, 20, 333, 10800]),
    internalLocal: random.once(4),
    externalLocal: random.once(3),
    scheduler: random.weighted([
      [4, 'random'],
      [4, 'rr'],
      [1, random.pick(SCHEDULERS)],
      [1, undefined],
    ] as const),
    created: at,
  }
  return { type: 'upsert', object }
}

function slices(random: Random, name: string): SourceEvent[] {
  return FAMILIES.map(family => {
    const weight = random.pick([undefined, undefined, 1, 3, 100])
    const object: EndpointSliceObject = {
      kind: 'EndpointSlice',
      namespace: 'x',
      name: `${name}-${family}`,
      service: name,
      family,
      ...(weight && { weight }),
      endpoints: endpoints(random, family),
      ports: (['TCP', 'UDP', 'SCTP'] as const).map(protocol => ({
        name: protocol.toLowerCase(),
        protocol,
        port: random.pick([8080, 8080, 9090]),
      })),
    }
    return { type: 'upsert', object }
  })
}

function endpoints(random: Random, family: 'IPv4' | 'IPv6'): EndpointObject[] {
  const hints = random.once(4)
  const count = random.pick([0, 1, 1, 2, 3, 5])
  return Array.from({ length: count }, () => {
    const [address, node] = place(random, family)
    const ready = !random.once(4)
    return {
      addresses: [address as Address],
      ready,
      serving: ready || !random.once(3),
      terminating: !ready && random.once(2),
      nodeName: node,
      ...(hints && { zones: [random.pick(['z1', 'z2'])] }),
    }
  })
}

function place(random: Random, family: 'IPv4' | 'IPv6'): readonly [string, string] {
  const pods = PODS[family]
  const hosts = HOSTS[family]
  const last = 1 + random.below(4)
  return random.weighted([
    [8, [pods.here + last, HERE]],
    [8, [pods.there + last, 'node-b']],
    [1, [pods.noSource + last, 'node-c']],
    [4, [pods.narrow + last, 'node-d']],
    [1, [pods.nowhere + last, 'node-e']],
    [1, [hosts.here, HERE]],
    [1, [hosts.there, 'node-b']],
    // A pod that is also a client.
    [1, [`${pods.here}7`, HERE]],
    [1, [`${pods.there}7`, 'node-b']],
  ] as const)
}

/** Who sends packets: outside clients, pods of other nodes and of this one, forged ones. */
export function client(random: Random, family: 'IPv4' | 'IPv6'): Address {
  const pods = PODS[family]
  const v4 = family === 'IPv4'
  return random.weighted([
    [12, (v4 ? '203.0.113.' : '2001:db8:f::') + (7 + random.below(3))],
    [3, `${pods.there}7`],
    [2, `${pods.here}7`],
    [1, `${pods.narrow}7`],
    [1, `${pods.nowhere}7`],
    [1, random.pick(ownAddresses.filter(each => familyOf(each) === family))],
    [
      1,
      random.pick(v4 ? ['127.0.0.1', '0.0.0.0', '224.0.0.1', '255.255.255.255'] : ['::1', '::', 'ff02::1', 'ff0e::7']),
    ],
    [1, v4 ? '172.30.0.1' : '2001:db8:30::1'],
  ]) as Address
}
