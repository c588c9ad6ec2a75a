/**
 * The address plan of a lab: who exists, and under which addresses. It is the same in
 * every lab, since labs share no network namespace; docs/lab.md shows it as a table.
 * Pure: text in, values out.
 */

export interface Host {
  /** `node-a`, `pod-a1`, `client`, `router`; `api` with an API server. */
  readonly name: string
  readonly role: 'router' | 'client' | 'api' | 'node' | 'pod'
  readonly ipv4: string
  readonly ipv6: string
  /** The node it is or runs on; empty for hosts outside the cluster. */
  readonly node: string
}

export interface NodeHost extends Host {
  readonly role: 'node'
  /** Pod networks that are routed to this node. */
  readonly podCidr4: string
  readonly podCidr6: string
  readonly pods: readonly Host[]
}

export interface AddressPlan {
  readonly router: Host
  readonly client: Host
  /** Where the API server listens when the lab has one. */
  readonly api: Host
  readonly nodes: readonly NodeHost[]
}

/** Networks that do not depend on the number of nodes. */
export const NETWORKS = {
  nodes: { ipv4: '192.168.0.0/24', ipv6: '2001:db8:192::/64', router4: '192.168.0.1', router6: '2001:db8:192::1' },
  outside: { ipv4: '203.0.113.0/24', ipv6: '2001:db8:203::/64', router4: '203.0.113.1', router6: '2001:db8:203::1' },
  /** ClusterIPs: routed nowhere. */
  services: { ipv4: '10.96.0.0/16', ipv6: '2001:db8:96::/112' },
  /** Load-balancer and external addresses: the router sends them to the first node. */
  external: { ipv4: '198.51.100.0/24', ipv6: '2001:db8:198::/64' },
  /** All pods of all nodes. */
  pods: { ipv4: '10.244.0.0/16', ipv6: '2001:db8:244::/48' },
} as const

/** What a pod's default route goes through: the node's side of its veth, the same in every pod. */
export const POD_GATEWAY = { ipv4: '169.254.1.1', ipv6: 'fe80::1' } as const

export const PODS_PER_NODE = 2
/** node-a to node-z. */
export const MAX_NODES = 26

/** The hosts of a lab with `nodes` nodes (1 to {@link MAX_NODES}). */
export function addressPlan(nodes: number): AddressPlan {
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > MAX_NODES) {
    throw new RangeError(`a lab has 1 to ${MAX_NODES} nodes, not ${nodes}`)
  }
  return {
    router: { name: 'router', role: 'router', ipv4: '192.168.0.1', ipv6: '2001:db8:192::1', node: '' },
    client: { name: 'client', role: 'client', ipv4: '203.0.113.10', ipv6: '2001:db8:203::10', node: '' },
    api: { name: 'api', role: 'api', ipv4: '192.168.0.100', ipv6: '2001:db8:192::100', node: '' },
    nodes: Array.from({ length: nodes }, (_, index) => nodeHost(index)),
  }
}

function nodeHost(index: number): NodeHost {
  const letter = String.fromCharCode('a'.charCodeAt(0) + index)
  const name = `node-${letter}`
  const subnet = index + 1
  return {
    name,
    role: 'node',
    ipv4: `192.168.0.${10 + subnet}`,
    ipv6: `2001:db8:192::${10 + subnet}`,
    node: name,
    podCidr4: `10.244.${subnet}.0/24`,
    podCidr6: `2001:db8:244:${subnet}::/64`,
    pods: Array.from({ length: PODS_PER_NODE }, (_, pod) => ({
      name: `pod-${letter}${pod + 1}`,
      role: 'pod' as const,
      ipv4: `10.244.${subnet}.${11 + pod}`,
      ipv6: `2001:db8:244:${subnet}::${11 + pod}`,
      node: name,
    })),
  }
}

/** All hosts, the routers first; `api` only where the lab has one. */
export function hostsOf(plan: AddressPlan, withApi: boolean): readonly Host[] {
  return [plan.router, plan.client, ...(withApi ? [plan.api] : []), ...plan.nodes.flatMap(node => [node, ...node.pods])]
}
