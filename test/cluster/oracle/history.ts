import fc from 'fast-check'

/**
 * Random lives of Services with their EndpointSlices: a first state and what changes in
 * each step after it. Whatever comes out is valid for the API server.
 */

export const ZONES = ['a', 'b', 'c'] as const
/** Where the histories live; each namespace has every second one. */
export const NAMESPACES = ['oracle-a', 'oracle-b'] as const

type Family = 'IPv4' | 'IPv6'

interface Port {
  readonly name: string
  readonly protocol: 'TCP' | 'UDP' | 'SCTP'
  readonly port: number
}

interface Endpoint {
  /** Number of the address in the slice's own pool, or in the one that all slices of a Service share. */
  readonly address: number
  readonly shared: boolean
  readonly conditions: Readonly<Record<string, boolean | undefined>>
  readonly node: string | undefined
  readonly zones: readonly string[]
  readonly nodes: readonly string[]
}

interface Slice {
  readonly ports: readonly (Port & { readonly all: boolean })[]
  readonly endpoints: readonly Endpoint[]
  readonly away: string | undefined
}

/** Where an address of the load balancer comes from: of the Service alone, or shared with its neighbour. */
type Which = 'own' | 'shared'

interface Ingress {
  readonly which: Which | 'host name'
  readonly family: Family
  readonly ipMode: 'VIP' | 'Proxy' | undefined
}

/** What may change from one step to the next. */
export interface State {
  readonly exists: boolean
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  readonly headless: boolean
  readonly primary: Family
  readonly dual: boolean
  readonly ports: readonly Port[]
  /** Seconds; undefined = none. */
  readonly affinity: number | undefined
  readonly internal: 'Cluster' | 'Local'
  readonly external: 'Cluster' | 'Local'
  readonly externalIPs: readonly { readonly which: Which | 'balancer'; readonly family: Family }[]
  readonly ingress: readonly Ingress[]
  readonly ranges: readonly string[]
  readonly allocate: boolean
  readonly away: string | undefined
  readonly publish: boolean
  readonly distribution: string | undefined
  readonly slice0: Slice | undefined
  readonly slice1: Slice | undefined
  readonly slice2: Slice | undefined
  readonly slice6: Slice | undefined
  readonly slice7: Slice | undefined
}

export interface History {
  readonly start: State
  readonly edits: readonly Partial<State>[]
}

const SLICES = ['slice0', 'slice1', 'slice2', 'slice6', 'slice7'] as const
/** Those of IPv6. */
const SLICES_6: readonly string[] = ['slice6', 'slice7']

const rarely = <T, U>(usual: fc.Arbitrary<T>, rare: fc.Arbitrary<U>): fc.Arbitrary<T | U> =>
  fc.oneof({ arbitrary: usual, weight: 9 }, { arbitrary: rare, weight: 1 })
const never = fc.constant(undefined)

const away = rarely(
  never,
  fc.constantFrom('service.kubernetes.io/service-proxy-name', 'service.kubernetes.io/headless'),
)
const family = fc.constantFrom<Family>('IPv4', 'IPv6')
const protocol = fc.oneof(
  { arbitrary: fc.constant('TCP' as const), weight: 6 },
  { arbitrary: fc.constant('UDP' as const), weight: 3 },
  { arbitrary: fc.constant('SCTP' as const), weight: 1 },
)
const named = fc.record({
  name: fc.constantFrom('http', 'dns', 'metrics'),
  protocol,
  port: fc.constantFrom(80, 53, 443),
})
const unnamed = named.map(port => [{ ...port, name: '' }])
const ports = fc.oneof(
  unnamed,
  fc.uniqueArray(named, {
    minLength: 1,
    maxLength: 3,
    comparator: (a, b) => a.name === b.name || (a.port === b.port && a.protocol === b.protocol),
  }),
)

const flag = fc.constantFrom(true, false, undefined)
const hints = (names: readonly string[]) =>
  fc.oneof(
    { arbitrary: fc.constant<string[]>([]), weight: 1 },
    { arbitrary: fc.subarray([...names], { minLength: 1, maxLength: 2 }), weight: 3 },
  )
const endpoint = (hinted: boolean): fc.Arbitrary<Endpoint> =>
  fc.record({
    address: fc.nat(3),
    shared: rarely(fc.constant(false), fc.constant(true)),
    conditions: fc.oneof(
      { arbitrary: fc.constant({}), weight: 3 },
      { arbitrary: fc.record({ ready: flag, serving: flag, terminating: flag }), weight: 5 },
      { arbitrary: fc.constant({ ready: false, serving: true, terminating: true }), weight: 3 },
    ),
    node: fc.constantFrom('node-a', 'node-a', 'node-b', 'node-a2', undefined),
    zones: hinted ? hints(ZONES) : fc.constant<string[]>([]),
    nodes: hinted ? rarely(fc.constant<string[]>([]), hints(['node-a', 'node-b'])) : fc.constant<string[]>([]),
  })
/** Mostly each address once. */
const listOf = (one: fc.Arbitrary<Endpoint>): fc.Arbitrary<Endpoint[]> =>
  rarely(
    fc.uniqueArray(one, { maxLength: 4, selector: ({ address, shared }) => `${address} ${shared}` }),
    fc.array(one, { maxLength: 4 }),
  )
const endpoints = fc.oneof(
  listOf(endpoint(false)),
  listOf(endpoint(true)),
  // Hints for nodes on all of them, as trafficDistribution PreferSameNode makes them.
  listOf(
    fc
      .tuple(endpoint(true), fc.subarray(['node-a', 'node-b', 'node-c'], { minLength: 1 }))
      .map(([each, nodes]) => ({ ...each, nodes })),
  ),
)
const slice: fc.Arbitrary<Slice | undefined> = fc.option(
  fc.record({
    ports: fc.oneof(
      unnamed.map(([port]) => [{ ...port, port: 8080, all: false }] as Slice['ports']),
      fc.uniqueArray(
        named.chain(port =>
          fc.record({
            name: fc.constant(port.name),
            protocol: fc.constant(port.protocol),
            port: fc.constantFrom(8080, 9090, 5353),
            all: rarely(fc.constant(false), fc.constant(true)),
          }),
        ),
        { maxLength: 3, selector: port => port.name },
      ),
    ),
    endpoints,
    away,
  }),
  { nil: undefined, freq: 3 },
)

const fields: { readonly [K in keyof State]: fc.Arbitrary<State[K]> } = {
  exists: rarely(fc.constant(true), fc.constant(false)),
  type: fc.oneof(
    { arbitrary: fc.constantFrom('ClusterIP' as const, 'NodePort' as const, 'LoadBalancer' as const), weight: 12 },
    { arbitrary: fc.constant('ExternalName' as const), weight: 1 },
  ),
  headless: fc.integer({ min: 0, max: 19 }).map(n => n === 0),
  primary: fc.constantFrom<Family>('IPv4', 'IPv4', 'IPv6'),
  dual: fc.boolean(),
  ports,
  affinity: fc.option(fc.constantFrom(1, 60, 10_800, 86_400), { freq: 2 }).map(seconds => seconds ?? undefined),
  internal: fc.constantFrom('Cluster', 'Cluster', 'Local'),
  external: fc.constantFrom('Cluster', 'Local'),
  externalIPs: fc.uniqueArray(
    fc.record({ which: fc.constantFrom('own' as const, 'shared' as const, 'balancer' as const), family }),
    { maxLength: 3, comparator: (a, b) => a.which === b.which && a.family === b.family },
  ),
  ingress: fc.uniqueArray(
    fc.record({
      which: fc.constantFrom('own' as const, 'own' as const, 'shared' as const, 'host name' as const),
      family,
      ipMode: fc.constantFrom('VIP' as const, 'Proxy' as const, undefined, undefined),
    }),
    { maxLength: 3, comparator: (a, b) => a.which === b.which && a.family === b.family },
  ),
  ranges: fc.oneof(
    { arbitrary: fc.constant<string[]>([]), weight: 2 },
    {
      arbitrary: fc.subarray(
        ['203.0.113.0/24', ' 192.0.2.0/25 ', '192.168.0.0/24', '2001:db8:5::/48', ' 2001:db8:192::/64', '10.1.2.3/32'],
        { minLength: 1 },
      ),
      weight: 3,
    },
    { arbitrary: fc.constantFrom(['0.0.0.0/0'], ['::/0', '203.0.113.0/24'], ['0.0.0.0/0', '::/0']), weight: 1 },
  ),
  allocate: rarely(fc.constant(true), fc.constant(false)),
  away,
  publish: fc.boolean(),
  distribution: fc.constantFrom(undefined, 'PreferClose', 'PreferSameZone', 'PreferSameNode'),
  slice0: slice,
  slice1: slice,
  slice2: slice,
  slice6: slice,
  slice7: slice,
}

const keys = Object.keys(fields) as (keyof State)[]
const edit = fc
  .subarray([...keys, ...SLICES], { minLength: 1, maxLength: 3 })
  .chain(some => fc.record(Object.fromEntries(some.map(key => [key, fields[key]])) as object)) as fc.Arbitrary<
  Partial<State>
>

/** A history of `steps` states. */
export const history = (steps: number): fc.Arbitrary<History> =>
  fc.record({
    start: fc.record(fields) as fc.Arbitrary<State>,
    edits: fc.array(edit, { minLength: steps - 1, maxLength: steps - 1 }),
  })

/** The state of each step. */
export function statesOf({ start, edits }: History): readonly State[] {
  const states = [start]
  for (const change of edits) states.push({ ...(states.at(-1) as State), ...change })
  return states
}

/** The objects of a state, complete: a field that is not set is null, so that a merge patch takes it away. */
export interface Rendered {
  readonly service:
    | { readonly body: object; readonly status: object | undefined; readonly identity: string }
    | undefined
  readonly slices: ReadonlyMap<string, object>
}

/** `index` of the history gives names and addresses; neighbours (0 and 1, 2 and 3, …) share some. */
export function render(state: State, index: number): Rendered {
  const namespace = NAMESPACES[index % 2] as string
  const slices = new Map<string, object>()
  for (const key of SLICES) {
    const content = state[key]
    if (content !== undefined) slices.set(`s${index}-${key}`, sliceBody(key, content, index, namespace))
  }
  return { service: state.exists ? serviceBody(state, index, namespace) : undefined, slices }
}

function addressOf(family: Family, what: 'own' | 'shared' | 'balancer' | 'shared balancer', index: number): string {
  const number = what.startsWith('shared') ? index >> 1 : index
  const net = { own: 18, shared: 19, balancer: 20, 'shared balancer': 21 }[what]
  return family === 'IPv4' ? `198.${net}.${number >> 8}.${number & 255}` : `2001:db8:${net}::${hex(number)}`
}

/** As a part of an IPv6 address in canonical form, so never 0. */
function hex(number: number): string {
  return (number + 0x1000).toString(16)
}

function serviceBody(state: State, index: number, namespace: string): Rendered['service'] {
  const named = state.type === 'ExternalName'
  const headless = state.headless && !named
  const type = headless ? 'ClusterIP' : state.type
  const balancer = type === 'LoadBalancer'
  const externalIPs = named
    ? []
    : state.externalIPs.map(({ which, family }) => addressOf(family, which === 'balancer' ? 'balancer' : which, index))
  const outside = type === 'NodePort' || balancer || (type === 'ClusterIP' && externalIPs.length > 0)
  const families = named ? null : state.dual ? ['IPv4', 'IPv6'] : [state.primary]
  if (families !== null && state.dual && state.primary === 'IPv6') families.reverse()
  const spec = {
    type,
    ports: state.ports.map(({ name, protocol, port }) => ({ ...(name !== '' && { name }), protocol, port })),
    ...(headless && { clusterIP: 'None' }),
    externalName: named ? 'example.com' : null,
    ipFamilyPolicy: named ? null : state.dual ? 'RequireDualStack' : 'SingleStack',
    ipFamilies: families,
    externalIPs: externalIPs.length > 0 ? externalIPs : null,
    sessionAffinity: state.affinity === undefined ? 'None' : 'ClientIP',
    sessionAffinityConfig: state.affinity === undefined ? null : { clientIP: { timeoutSeconds: state.affinity } },
    internalTrafficPolicy: named ? null : state.internal,
    externalTrafficPolicy: outside ? state.external : null,
    allocateLoadBalancerNodePorts: balancer ? state.allocate : null,
    loadBalancerClass: balancer && index % 5 === 0 ? 'example.com/balancer' : null,
    loadBalancerSourceRanges: balancer && state.ranges.length > 0 ? state.ranges : null,
    publishNotReadyAddresses: state.publish,
    trafficDistribution: named ? null : (state.distribution ?? null),
  }
  const ingress = state.ingress.map(({ which, family, ipMode }) =>
    which === 'host name'
      ? { hostname: 'balancer.example.com' }
      : {
          ip: addressOf(family, which === 'own' ? 'balancer' : 'shared balancer', index),
          ...(ipMode && { ipMode }),
        },
  )
  return {
    body: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: `s${index}`, namespace, labels: labels({}, state.away) },
      spec,
    },
    status: balancer ? { loadBalancer: { ingress } } : undefined,
    // What the API server lets nobody change.
    identity: named ? 'named' : `${headless} ${state.primary}`,
  }
}

function sliceBody(key: string, { ports, endpoints, away: label }: Slice, index: number, namespace: string): object {
  const v6 = SLICES_6.includes(key)
  const pool = Number(key.slice(-1)) * 4
  const address = ({ address: number, shared }: Endpoint) => {
    const last = (shared ? 100 : pool) + number + 1
    return v6 ? `2001:db8:aa:${hex(index)}::${last.toString(16)}` : `10.${64 + (index >> 8)}.${index & 255}.${last}`
  }
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `s${index}-${key}`,
      namespace,
      labels: labels({ 'kubernetes.io/service-name': `s${index}` }, label),
    },
    addressType: v6 ? 'IPv6' : 'IPv4',
    ports: ports.map(({ name, protocol, port, all }) => ({ name, protocol, ...(!all && { port }) })),
    endpoints: endpoints.map(each => ({
      addresses: [address(each)],
      conditions: each.conditions,
      ...(each.node !== undefined && { nodeName: each.node }),
      ...((each.zones.length > 0 || each.nodes.length > 0) && {
        hints: {
          ...(each.zones.length > 0 && { forZones: each.zones.map(name => ({ name })) }),
          ...(each.nodes.length > 0 && { forNodes: each.nodes.map(name => ({ name })) }),
        },
      }),
    })),
  }
}

function labels(
  own: Readonly<Record<string, string>>,
  label: string | undefined,
): Readonly<Record<string, string | null>> {
  return {
    'service.kubernetes.io/service-proxy-name': null,
    'service.kubernetes.io/headless': null,
    ...own,
    ...(label !== undefined && { [label]: 'other' }),
  }
}
