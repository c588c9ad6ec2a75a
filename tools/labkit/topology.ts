import { type AddressPlan, type Host, hostsOf, NETWORKS, type NodeHost, POD_GATEWAY } from './address-plan.js'

/**
 * The commands that build a lab's network, as text: one `ip -batch` for everything that
 * spans namespaces, then for each namespace its sysctls and its own batch. Pure.
 */

export interface NamespaceSetup {
  readonly host: string
  /** Paths below /proc/sys and their values, written before any device comes up. */
  readonly sysctls: readonly (readonly [string, string])[]
  readonly batch: readonly string[]
}

export interface Topology {
  /** Batch for the initial namespace: it makes namespaces and the links between them. */
  readonly links: readonly string[]
  readonly namespaces: readonly NamespaceSetup[]
}

/** Addresses are usable at once: nothing else can own them in a network that is ours alone. */
const NO_DAD = ['net/ipv6/conf/default/accept_dad', '0'] as const
const FORWARDING = [
  ['net/ipv4/ip_forward', '1'],
  ['net/ipv6/conf/all/forwarding', '1'],
] as const

/** `namespaceOf` gives a host's namespace name. */
export function topology(plan: AddressPlan, withApi: boolean, namespaceOf: (host: string) => string): Topology {
  const ns = (host: Host) => namespaceOf(host.name)
  const cable = (inside: Host, outside: Host) =>
    `link add eth0 netns ${ns(inside)} type veth peer name ${inside.name} netns ${ns(outside)}`
  const onNodeNetwork = [...plan.nodes, ...(withApi ? [plan.api] : [])]
  return {
    links: [
      ...hostsOf(plan, withApi).map(host => `netns add ${ns(host)}`),
      `link add nodes netns ${ns(plan.router)} type bridge`,
      cable(plan.client, plan.router),
      ...onNodeNetwork.map(host => cable(host, plan.router)),
      ...plan.nodes.flatMap(node => node.pods.map(pod => cable(pod, node))),
    ],
    namespaces: [
      router(plan, onNodeNetwork),
      client(plan.client),
      ...(withApi ? [api(plan)] : []),
      ...plan.nodes.flatMap(node => [nodeSetup(plan, node), ...node.pods.map(pod)]),
    ],
  }
}

function router(plan: AddressPlan, onNodeNetwork: readonly Host[]): NamespaceSetup {
  const first = plan.nodes[0] as NodeHost
  return {
    host: plan.router.name,
    sysctls: [NO_DAD, ...FORWARDING],
    batch: [
      'link set lo up',
      `address add ${NETWORKS.nodes.router4}/24 dev nodes`,
      `address add ${NETWORKS.nodes.router6}/64 dev nodes nodad`,
      'link set nodes up',
      ...onNodeNetwork.flatMap(host => [`link set ${host.name} master nodes`, `link set ${host.name} up`]),
      `address add ${NETWORKS.outside.router4}/24 dev ${plan.client.name}`,
      `address add ${NETWORKS.outside.router6}/64 dev ${plan.client.name} nodad`,
      `link set ${plan.client.name} up`,
      `route add ${NETWORKS.external.ipv4} via ${first.ipv4}`,
      `route add ${NETWORKS.external.ipv6} via ${first.ipv6}`,
      ...podRoutes(plan.nodes),
    ],
  }
}

function client(host: Host): NamespaceSetup {
  return {
    host: host.name,
    sysctls: [NO_DAD],
    batch: [...uplink(host), ...defaultRoutes(NETWORKS.outside.router4, NETWORKS.outside.router6)],
  }
}

function api(plan: AddressPlan): NamespaceSetup {
  return {
    host: plan.api.name,
    sysctls: [NO_DAD],
    batch: [
      ...uplink(plan.api),
      ...defaultRoutes(NETWORKS.nodes.router4, NETWORKS.nodes.router6),
      ...podRoutes(plan.nodes),
    ],
  }
}

function nodeSetup(plan: AddressPlan, node: NodeHost): NamespaceSetup {
  return {
    host: node.name,
    sysctls: [NO_DAD, ...FORWARDING],
    batch: [
      ...uplink(node),
      ...defaultRoutes(NETWORKS.nodes.router4, NETWORKS.nodes.router6),
      ...podRoutes(plan.nodes.filter(other => other !== node)),
      ...node.pods.flatMap(pod => [
        `address add ${POD_GATEWAY.ipv4}/32 dev ${pod.name}`,
        `address add ${POD_GATEWAY.ipv6}/64 dev ${pod.name} nodad`,
        `link set ${pod.name} up`,
        `route add ${pod.ipv4}/32 dev ${pod.name} src ${node.ipv4}`,
        `route add ${pod.ipv6}/128 dev ${pod.name} src ${node.ipv6}`,
      ]),
    ],
  }
}

function pod(host: Host): NamespaceSetup {
  return {
    host: host.name,
    sysctls: [NO_DAD],
    batch: [
      'link set lo up',
      `address add ${host.ipv4}/32 dev eth0`,
      `address add ${host.ipv6}/128 dev eth0 nodad`,
      'link set eth0 up',
      `route add ${POD_GATEWAY.ipv4}/32 dev eth0 scope link`,
      `route add default via ${POD_GATEWAY.ipv4} src ${host.ipv4}`,
      `route add default via ${POD_GATEWAY.ipv6} dev eth0 src ${host.ipv6}`,
    ],
  }
}

function uplink(host: Host): string[] {
  return [
    'link set lo up',
    `address add ${host.ipv4}/24 dev eth0`,
    `address add ${host.ipv6}/64 dev eth0 nodad`,
    'link set eth0 up',
  ]
}

function defaultRoutes(via4: string, via6: string): string[] {
  return [`route add default via ${via4}`, `route add default via ${via6}`]
}

function podRoutes(nodes: readonly NodeHost[]): string[] {
  return nodes.flatMap(node => [
    `route add ${node.podCidr4} via ${node.ipv4}`,
    `route add ${node.podCidr6} via ${node.ipv6}`,
  ])
}
