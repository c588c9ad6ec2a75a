import type { Address, Family } from '../../model/address.js'
import { familyOf } from '../../model/address.js'
import type { DesiredState, ServicePort } from '../../model/desired.js'
import { type LocalMatch, localOf } from '../rules/local-match.js'
import { FIREWALL, host, MARK_DROP, MARK_MASQ, type PortContext, type PortRules } from './port-writer.js'
import type { Layout } from './profile.js'
import { renderPort } from './render-port.js'
import { network, rule } from './rule.js'

/** Tables that get rules, in the order in which they are written. */
export const TABLES = ['filter', 'nat'] as const
export type Table = (typeof TABLES)[number]

/** What one table is to hold of ours. */
export interface WantedTable {
  /** Our chains with their rules, in iptables-save's words. */
  readonly chains: ReadonlyMap<string, readonly string[]>
  /** Rules in the built-in chains that lead to ours. */
  readonly jumps: readonly string[]
}

export type WantedTables = Readonly<Record<Table, WantedTable>>

/** How rules are written; one for each family. */
export interface RenderOptions {
  readonly family: Family
  readonly layout: Layout
  readonly masqueradeAll: boolean
  /** Whether MASQUERADE picks its ports at random (iptables 1.6.2). */
  readonly randomFully: boolean
  /** Every address of the node serves node ports; otherwise those of the frontends do. */
  readonly anyNodeAddress: boolean
  /** Node ports on 127.0.0.0/8, too; without net.ipv4.conf.all.route_localnet such connections get no answer. */
  readonly localhostNodePorts: boolean
  /** nf_conntrack_tcp_be_liberal is on, so that INVALID says nothing. */
  readonly liberalConntrack: boolean
  /** Overrides the cluster's pod networks of the desired state. */
  readonly local?: LocalMatch
}

/** From that many backends on, endpoint rules carry no comments, as with kube-proxy. */
const LARGE_CLUSTER = 1000

/** Present in each table as long as nobody has flushed it. */
export const CANARY = 'KUBE-PROXY-CANARY'

const NO_RULES: readonly string[] = []

/** What rules of every Service port depend on, taken from the desired state. */
export function portContext(state: DesiredState, options: RenderOptions): PortContext {
  const { layout, masqueradeAll, family } = options
  return {
    layout,
    masqueradeAll,
    local: localOf(state, options),
    endpointComments: !isLarge(state, family),
  }
}

function isLarge(state: DesiredState, family: Family): boolean {
  let backends = 0
  for (const port of state.services.values()) {
    if (port.family === family) backends += port.backends.length
    if (backends > LARGE_CLUSTER) return true
  }
  return false
}

/** A Service port and its rules. */
export interface Rendered {
  readonly port: ServicePort
  readonly rules: PortRules
}

/** Every rule of a desired state, by Service port and as the tables that they make; pure. */
export function renderAll(
  state: DesiredState,
  options: RenderOptions,
): { readonly ports: readonly Rendered[]; readonly wanted: WantedTables } {
  const context = portContext(state, options)
  const ports = [...state.services.values()]
    .filter(port => port.family === options.family)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .map(port => ({ port, rules: renderPort(port, context) }))
  return { ports, wanted: assemble(ports, options, context.local) }
}

/** The tables alone: what `waggle render` prints. */
export function render(state: DesiredState, options: RenderOptions): WantedTables {
  return renderAll(state, options).wanted
}

/** The tables made of the rules of all Service ports of the family, in the order given. */
export function assemble(
  ports: readonly Rendered[],
  options: RenderOptions,
  local: LocalMatch | undefined,
): WantedTables {
  const all = (pick: (rules: PortRules) => readonly string[]) => ports.flatMap(({ rules }) => pick(rules))
  const { layout } = options
  const nat = new Map<string, readonly string[]>([
    [CANARY, NO_RULES],
    ['KUBE-SERVICES', [...all(each => each.services), ...nodePortJumps(ports, options)]],
    ['KUBE-NODEPORTS', all(each => each.nodePorts)],
    ['KUBE-POSTROUTING', postrouting(options)],
    [MARK_MASQ, [rule(MARK_MASQ, { target: 'MARK --set-xmark 0x4000/0x4000' })]],
  ])
  for (const { rules } of ports) for (const [chain, lines] of rules.chains) nat.set(chain, lines)
  const filter = new Map<string, readonly string[]>([
    [CANARY, NO_RULES],
    ['KUBE-SERVICES', all(each => each.refusedInside)],
    ['KUBE-EXTERNAL-SERVICES', all(each => each.refusedOutside)],
    ['KUBE-NODEPORTS', all(each => each.healthChecks)],
    ['KUBE-FORWARD', forward(options, local)],
  ])
  if (layout.firewallChain)
    filter.set(
      FIREWALL,
      all(each => each.firewall),
    )
  if (!layout.healthChecks) filter.delete('KUBE-NODEPORTS')
  if (!layout.firewallChain) {
    nat.set(MARK_DROP, [rule(MARK_DROP, { target: 'MARK --set-xmark 0x8000/0x8000' })])
    filter.set(KUBELET_FIREWALL, DROP_MARKED)
  }
  return {
    filter: { chains: filter, jumps: filterJumps(layout) },
    nat: { chains: nat, jumps: NAT_JUMPS },
  }
}

const KUBELET_FIREWALL = 'KUBE-FIREWALL'
/** Chains that the kubelet made in the versions that need them: written where they are missing, never changed. */
export const KUBELET_CHAINS: ReadonlySet<string> = new Set([MARK_DROP, KUBELET_FIREWALL])

const DROP_MARKED = [
  rule(KUBELET_FIREWALL, {
    comment: 'kubernetes firewall for dropping marked packets',
    matches: ['-m mark --mark 0x8000/0x8000'],
    target: 'DROP',
  }),
]

/** The last rules of KUBE-SERVICES: what is for the node itself may be for a node port. */
function nodePortJumps(ports: readonly Rendered[], options: RenderOptions): string[] {
  const comment = 'kubernetes service nodeports; NOTE: this must be the last rule in this chain'
  const target = 'KUBE-NODEPORTS'
  const { family, localhostNodePorts } = options
  if (options.anyNodeAddress) {
    const loopback = family === 'IPv6' ? '! ::1/128' : localhostNodePorts ? undefined : '! 127.0.0.0/8'
    const matches = ['-m addrtype --dst-type LOCAL']
    return [rule('KUBE-SERVICES', { ...(loopback && { to: loopback }), comment, matches, target })]
  }
  return nodePortAddresses(ports, options).map(address => rule('KUBE-SERVICES', { to: host(address), comment, target }))
}

function nodePortAddresses(ports: readonly Rendered[], { family, localhostNodePorts }: RenderOptions): Address[] {
  const addresses = new Set<Address>()
  for (const { port } of ports) {
    for (const { kind, address } of port.frontends) if (kind === 'NodePort') addresses.add(address)
  }
  return [...addresses]
    .filter(each => familyOf(each) === family && each !== '::1')
    .filter(each => localhostNodePorts || !each.startsWith('127.'))
    .sort()
}

function postrouting({ randomFully, layout }: RenderOptions): string[] {
  const chain = 'KUBE-POSTROUTING'
  const comment = 'kubernetes service traffic requiring SNAT'
  const target = randomFully ? 'MASQUERADE --random-fully' : 'MASQUERADE'
  if (!layout.markCleared) return [rule(chain, { comment, matches: ['-m mark --mark 0x4000/0x4000'], target })]
  return [
    rule(chain, { matches: ['-m mark ! --mark 0x4000/0x4000'], target: 'RETURN' }),
    // Cleared, so that what is encapsulated is not translated once more.
    rule(chain, { target: 'MARK --set-xmark 0x4000/0x0' }),
    rule(chain, { comment, target }),
  ]
}

function forward({ liberalConntrack, layout }: RenderOptions, local: LocalMatch | undefined): string[] {
  const chain = 'KUBE-FORWARD'
  const marked = '-m mark --mark 0x4000/0x4000'
  const answers = ['-m conntrack --ctstate RELATED,ESTABLISHED']
  const rules = [rule(chain, { comment: 'kubernetes forwarding rules', matches: [marked], target: 'ACCEPT' })]
  if (layout.forwardByPodNetwork) {
    const pods = local !== undefined && 'from' in local ? network(local.from) : undefined
    if (pods !== undefined) {
      const by = (end: string) => `kubernetes forwarding conntrack pod ${end} rule`
      rules.push(
        rule(chain, { from: pods, comment: by('source'), matches: answers, target: 'ACCEPT' }),
        rule(chain, { to: pods, comment: by('destination'), matches: answers, target: 'ACCEPT' }),
      )
    }
  } else {
    const comment = 'kubernetes forwarding conntrack rule'
    rules.push(rule(chain, { comment, matches: answers, target: 'ACCEPT' }))
  }
  // A packet outside of the window is not translated back, so it would reach the client from a stranger.
  const invalid = rule(chain, { matches: ['-m conntrack --ctstate INVALID'], target: 'DROP' })
  return liberalConntrack ? rules : [invalid, ...rules]
}

const NEW = '-m conntrack --ctstate NEW'

function jump(from: string, comment: string, target: string, onlyNew: boolean): string {
  return onlyNew ? `-A ${from} ${NEW} -m comment --comment "${comment}" -j ${target}` : rule(from, { comment, target })
}

const NAT_JUMPS: readonly string[] = [
  jump('OUTPUT', 'kubernetes service portals', 'KUBE-SERVICES', false),
  jump('PREROUTING', 'kubernetes service portals', 'KUBE-SERVICES', false),
  jump('POSTROUTING', 'kubernetes postrouting rules', 'KUBE-POSTROUTING', false),
]

function filterJumps(layout: Layout): readonly string[] {
  const portals = 'kubernetes service portals'
  const external = 'kubernetes externally-visible service portals'
  const firewall = (from: string) => jump(from, 'kubernetes load balancer firewall', FIREWALL, true)
  return [
    jump('INPUT', external, 'KUBE-EXTERNAL-SERVICES', true),
    jump('FORWARD', external, 'KUBE-EXTERNAL-SERVICES', true),
    ...(layout.healthChecks ? [jump('INPUT', 'kubernetes health check service ports', 'KUBE-NODEPORTS', false)] : []),
    jump('FORWARD', portals, 'KUBE-SERVICES', true),
    jump('OUTPUT', portals, 'KUBE-SERVICES', true),
    jump('FORWARD', 'kubernetes forwarding rules', 'KUBE-FORWARD', false),
    ...(layout.firewallChain
      ? ['INPUT', 'OUTPUT', 'FORWARD'].map(firewall)
      : ['INPUT', 'OUTPUT'].map(from => rule(from, { target: KUBELET_FIREWALL }))),
  ]
}
