import type { Cidr } from '../model/cidr.js'
import { SCHEDULERS, type Scheduler } from '../model/desired.js'
import { IPTABLES_PROFILES, IPTABLES_VARIANTS, type IptablesProfile, type IptablesVariant } from '../model/iptables.js'
import type { PortRange } from '../model/port-range.js'
import {
  type BindAddress,
  bindAddress,
  bool,
  choice,
  cidr,
  duration,
  integer,
  list,
  path,
  portRange,
  portRangeOrNone,
  powerOfTwo,
  type SourceSpec,
  sourceSpec,
  text,
  type ValueType,
  wordOr,
} from './types.js'

/** One line of the table that flags, environment, file, reference page and checks come from. */
export interface Option<T> {
  /** Name of the flag without dashes; the environment name follows from it. */
  readonly flag: string
  readonly type: ValueType<T>
  /** A value, or for what only the machine knows a sentence that says how it is found. */
  readonly fallback: { readonly value: T } | { readonly derived: string }
  /** Full sentences, Markdown allowed. */
  readonly description: string
  /** stable: kept until a major version says otherwise. beta: may change, with a note in the changelog. */
  readonly stability: 'stable' | 'beta'
  readonly group: 'General' | 'Kernel objects' | 'Limits' | 'Timing' | 'HTTP' | 'Logging'
}

/** kube-proxy's ways to know a pod. */
const DETECT_LOCAL_MODES = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const
type DetectLocalMode = (typeof DETECT_LOCAL_MODES)[number]

const DAY = 86_400_000

/** Name, or its beginning, of a network device. */
const device = text('device', /^[^\s/"*+]{1,15}$/, 'must be the name of a network device, 15 characters at most')

function option<T>(option: Option<T>): Option<T> {
  return option
}

/**
 * Every setting of `waggle run`. All are read once at start: a change takes a restart,
 * which traffic does not notice. The key is the name in the configuration file.
 */
export const OPTIONS = {
  nodeName: option<string>({
    flag: 'node-name',
    type: text(
      'name',
      /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/,
      'must be the name of a Node object: lower-case letters, digits, dashes and dots',
    ),
    fallback: { derived: "the machine's host name in lower case" },
    description:
      'Name of this node as its Node object has it. Endpoints with this `nodeName` are local. kube-proxy calls it `--hostname-override`.',
    stability: 'stable',
    group: 'General',
  }),
  source: option<SourceSpec>({
    flag: 'source',
    type: sourceSpec,
    fallback: { value: { kind: 'kube' } },
    description:
      'Where Services and EndpointSlices come from: `kube` is the API server, `dir:PATH` a directory of YAML or JSON manifests, watched.',
    stability: 'stable',
    group: 'General',
  }),
  kubeconfig: option<string>({
    flag: 'kubeconfig',
    type: path,
    fallback: { derived: "the pod's service account" },
    description: 'Kubeconfig file for `--source kube`.',
    stability: 'stable',
    group: 'General',
  }),
  kubeServers: option<readonly string[]>({
    flag: 'kube-servers',
    type: list(text('url', /^https?:\/\/[^\s,]+$/, 'must be the URL of an API server, such as https://10.0.0.1:6443')),
    fallback: { derived: "the one in the kubeconfig or of the pod's service account" },
    description:
      'API servers for `--source kube`, asked in turn until one answers. In a pod name the own addresses of the servers: the default is a ClusterIP, which on a node just started only this agent can make work.',
    stability: 'beta',
    group: 'General',
  }),
  checkpointDir: option<string>({
    flag: 'checkpoint-dir',
    type: wordOr(['none'], path),
    fallback: { value: '/var/lib/waggle' },
    description:
      'Directory in which the objects of `--source kube` are kept, so that a node that was booted serves before the API server answers; `none` keeps nothing. Must outlive a boot: on the host, for an agent in a pod.',
    stability: 'beta',
    group: 'General',
  }),
  dataplane: option<'ebpf' | 'nftables' | 'iptables' | 'ipvs'>({
    flag: 'dataplane',
    type: choice('ebpf', 'nftables', 'iptables', 'ipvs'),
    fallback: { value: 'ebpf' },
    description:
      'What programs the kernel: `ebpf` is BPF, `iptables` writes the rules that kube-proxy writes in its iptables mode, `nftables` tables in the layout of its nftables mode. `ipvs` is not available yet.',
    stability: 'stable',
    group: 'General',
  }),
  iptablesProfile: option<IptablesProfile>({
    flag: 'iptables-profile',
    type: choice(...IPTABLES_PROFILES),
    fallback: { value: '1.25' },
    description:
      "The version of kube-proxy from which on rules look as `--dataplane iptables` writes them. `1.25` is every version's up to today, `1.16` every one's before. The shapes are in legacy-dataplanes.md.",
    stability: 'beta',
    group: 'General',
  }),
  iptablesVariant: option<'auto' | IptablesVariant>({
    flag: 'iptables-variant',
    type: choice('auto', ...IPTABLES_VARIANTS),
    fallback: { value: 'auto' },
    description:
      'Which interface of the kernel `--dataplane iptables` uses: `auto` is the one in which the kubelet has its chains, else the one with more rules.',
    stability: 'beta',
    group: 'General',
  }),
  scheduler: option<Scheduler>({
    flag: 'scheduler',
    type: choice(...SCHEDULERS),
    fallback: { value: 'random' },
    description:
      'How a new flow gets its backend where the Service has no annotation `waggle.io/scheduler`: at random, round robin on each CPU, by the address of the client, by the connection (Maglev), or the less busy of two.',
    stability: 'stable',
    group: 'General',
  }),
  nodePortAddresses: option<readonly string[]>({
    flag: 'nodeport-addresses',
    type: list(wordOr(['primary', 'localhost', 'all'], cidr)),
    fallback: { value: Object.freeze(['primary']) },
    description:
      "Which addresses of this machine serve node ports: `primary` is the Node's first InternalIP of each family, `localhost` 127.0.0.1 and ::1, `all` every address, a CIDR those inside it.",
    stability: 'stable',
    group: 'General',
  }),
  localhostNodePorts: option<boolean>({
    flag: 'localhost-node-ports',
    type: bool,
    fallback: { value: true },
    description:
      'Node ports on 127.0.0.1 and ::1 for processes of the node, where `--nodeport-addresses` has these addresses (`localhost`, `all` or a CIDR). Served at the socket: no setting of the kernel is opened for it, and no packet gets there. kube-proxy calls it `--iptables-localhost-nodeports`.',
    stability: 'stable',
    group: 'General',
  }),
  answerPing: option<boolean>({
    flag: 'answer-ping',
    type: bool,
    fallback: { value: false },
    description:
      'Answer echo requests for Service addresses that arrive as packets; otherwise they are dropped. What is also an address of the node is answered by the node.',
    stability: 'beta',
    group: 'General',
  }),
  detectLocalMode: option<DetectLocalMode>({
    flag: 'detect-local-mode',
    type: choice(...DETECT_LOCAL_MODES),
    fallback: { value: 'ClusterCIDR' },
    description:
      "Whose packets are a pod's, so that `externalTrafficPolicy: Local` does not bind them to this node's endpoints: `ClusterCIDR` those from `--cluster-cidr`, of all nodes' pods; the others those of this node's pods, from the Node's `spec.podCIDRs`. Processes of this node's pods are known by their sockets in every mode, whatever bridge or device they use.",
    stability: 'stable',
    group: 'General',
  }),
  podBridgeInterface: option<string>({
    flag: 'pod-bridge-interface',
    type: device,
    fallback: { derived: 'none' },
    description:
      "With `--detect-local-mode BridgeInterface`, the bridge of this node's pods. Rules of `--dataplane iptables` and `nftables` tell pods by it.",
    stability: 'stable',
    group: 'General',
  }),
  podInterfaceNamePrefix: option<string>({
    flag: 'pod-interface-name-prefix',
    type: device,
    fallback: { derived: 'none' },
    description:
      "With `--detect-local-mode InterfaceNamePrefix`, how the names of this node's pods' devices begin. Rules of `--dataplane iptables` and `nftables` tell pods by it.",
    stability: 'stable',
    group: 'General',
  }),
  clusterCidr: option<readonly Cidr[]>({
    flag: 'cluster-cidr',
    type: list(cidr),
    fallback: { derived: "the Node's `spec.podCIDRs`" },
    description:
      "Networks of all pods of the cluster. A packet from there is a pod's, so `externalTrafficPolicy: Local` does not bind it to this node's endpoints.",
    stability: 'stable',
    group: 'General',
  }),
  externalIpCidrs: option<readonly Cidr[]>({
    flag: 'external-ip-cidrs',
    type: list(cidr),
    fallback: { derived: 'every address' },
    description:
      'Which addresses `spec.externalIPs` of a Service may name; others are not served, with a warning at the Service. Whoever may write Services can take traffic to any other address away (CVE-2020-8554).',
    stability: 'stable',
    group: 'General',
  }),
  masqueradeAll: option<boolean>({
    flag: 'masquerade-all',
    type: bool,
    fallback: { value: false },
    description:
      "Give whatever goes to a ClusterIP the node's address. For `--dataplane iptables` and `nftables`; with `ebpf` the log says that it is not done.",
    stability: 'stable',
    group: 'General',
  }),
  sourcePorts: option<readonly PortRange[]>({
    flag: 'source-ports',
    type: list(portRange),
    fallback: {
      value: Object.freeze([
        { min: 1024, max: 29_999 },
        { min: 61_000, max: 65_535 },
      ]),
    },
    description:
      "Source ports of this node that flows to backends on other nodes get: one or two ranges. The default leaves out node ports and what Linux gives to the node's own connections.",
    stability: 'beta',
    group: 'General',
  }),
  sourcePortsLast: option<PortRange | 'none'>({
    flag: 'source-ports-last',
    type: portRangeOrNone,
    fallback: { value: Object.freeze({ min: 32_768, max: 60_999 }) },
    description: 'One more range, used beside `--source-ports` towards a backend that has few ports left there.',
    stability: 'beta',
    group: 'General',
  }),
  adoptConntrack: option<'auto' | 'on' | 'off'>({
    flag: 'adopt-conntrack',
    type: choice('auto', 'on', 'off'),
    fallback: { value: 'auto' },
    description:
      "Leave packets of flows that the kernel's NAT already translates, as kube-proxy's do, to the kernel until they end; otherwise the next datagram of such an exchange gets a backend anew. `auto` does so if connection tracking holds any entry when the agent starts. It costs new flows alone.",
    stability: 'beta',
    group: 'General',
  }),
  devices: option<readonly string[]>({
    flag: 'devices',
    type: list(
      wordOr(
        ['auto'],
        text(
          'name',
          /^[^\s/,]{1,32}$/,
          'must be the name of a device, with * and ? as wildcards, such as eth0 or bond*',
        ),
      ),
    ),
    fallback: { value: Object.freeze(['auto']) },
    description:
      "Devices on which packets for node ports, external and load-balancer addresses arrive. `auto` means those with a default route or one of the Node's InternalIPs. Never `lo`.",
    stability: 'stable',
    group: 'Kernel objects',
  }),
  xdp: option<'auto' | 'native' | 'generic' | 'off'>({
    flag: 'xdp',
    type: choice('auto', 'native', 'generic', 'off'),
    fallback: { value: 'off' },
    description:
      'Serve packets to and from backends on other nodes in XDP, before the kernel makes its own of them, on the devices of `--devices`: `native` in the driver where it can, `auto` the same where the device can also send, `generic` behind the driver. What XDP cannot do, tc does. `waggle show devices` says why a device has none.',
    stability: 'beta',
    group: 'Kernel objects',
  }),
  xdpDropUnknownPorts: option<boolean>({
    flag: 'xdp-drop-unknown-ports',
    type: bool,
    fallback: { value: false },
    description:
      'Where XDP serves, drop packets for ports that no Service has, at addresses that only Services have, instead of refusing them. Cheaper under a scan or a flood; clients wait for their timeout.',
    stability: 'beta',
    group: 'Kernel objects',
  }),
  cgroup: option<string>({
    flag: 'cgroup',
    type: path,
    fallback: { derived: 'where /proc/mounts shows cgroup v2' },
    description: 'Directory of cgroup v2 whose processes use Services: its root means every process of this machine.',
    stability: 'stable',
    group: 'Kernel objects',
  }),
  bpffs: option<string>({
    flag: 'bpffs',
    type: path,
    fallback: { value: '/sys/fs/bpf' },
    description: 'Where the BPF file system is mounted.',
    stability: 'stable',
    group: 'Kernel objects',
  }),
  pinDir: option<string>({
    flag: 'pin-dir',
    type: path,
    fallback: { derived: '`waggle` below `--bpffs`' },
    description:
      'Directory of the BPF file system that holds the maps, programs and links; what is there is adopted at start.',
    stability: 'stable',
    group: 'Kernel objects',
  }),
  runDir: option<string>({
    flag: 'run-dir',
    type: path,
    fallback: { value: '/run/waggle' },
    description:
      'Directory for the lock that keeps two agents from the same pin directory. Agents that share a pin directory must share this one too.',
    stability: 'stable',
    group: 'Kernel objects',
  }),
  maxServices: option<number>({
    flag: 'max-services',
    type: integer(16, 1_000_000),
    fallback: { value: 16_384 },
    description: 'Most Service ports, each family counted. Fixed when the maps are made.',
    stability: 'stable',
    group: 'Limits',
  }),
  maxFrontends: option<number>({
    flag: 'max-frontends',
    type: integer(16, 4_000_000),
    fallback: { value: 65_536 },
    description: 'Most frontends (address, port, protocol) of each family. Fixed when the maps are made.',
    stability: 'stable',
    group: 'Limits',
  }),
  maxSourceRanges: option<number>({
    flag: 'max-source-ranges',
    type: integer(16, 4_000_000),
    fallback: { value: 65_536 },
    description:
      'Most networks of `loadBalancerSourceRanges`, counted once for each Service port, and of `--cluster-cidr`. Fixed when the maps are made.',
    stability: 'beta',
    group: 'Limits',
  }),
  maxBackends: option<number>({
    flag: 'max-backends',
    type: integer(16, 4_000_000),
    fallback: { value: 131_072 },
    description: 'Most backends; an endpoint counts once for each Service port. Fixed when the maps are made.',
    stability: 'stable',
    group: 'Limits',
  }),
  maxSlots: option<number>({
    flag: 'max-slots',
    type: powerOfTwo(256, 67_108_864),
    fallback: { value: 524_288 },
    description:
      'Most places in lists of backends; a backend takes one in the cluster-wide list and one in the local list, and a growing list needs room for its copy. Fixed when the maps are made.',
    stability: 'beta',
    group: 'Limits',
  }),
  maxFlows: option<number>({
    flag: 'max-flows',
    type: integer(256, 16_000_000),
    fallback: { value: 65_536 },
    description:
      'Most flows through node ports, external and load-balancer addresses at a time, rounded up to a power of two; with a flat table so many of each family. Fixed when the maps are made.',
    stability: 'stable',
    group: 'Limits',
  }),
  flowTable: option<'hash' | 'flat'>({
    flag: 'flow-table',
    type: choice('hash', 'flat'),
    fallback: { value: 'hash' },
    description:
      "How flows are kept: `hash` in a hash map of the kernel, `flat` in a table of waggle's own, which takes a seventh of the memory for IPv4 and up to 2,097,152 flows of each family; packets of many flows by turns cost more in it. Fixed when the maps are made.",
    stability: 'beta',
    group: 'Limits',
  }),
  minSyncPeriod: option<number>({
    flag: 'min-sync-period',
    type: duration(0, 60_000),
    fallback: { value: 50 },
    description:
      'Least time between two writes to the kernel while changes keep coming. A change after a pause is written at once.',
    stability: 'stable',
    group: 'Timing',
  }),
  syncPeriod: option<number>({
    flag: 'sync-period',
    type: duration(1000, DAY),
    fallback: { value: 30_000 },
    description:
      'How often everything is compared although nothing changed. A change that waits twice as long makes `/healthz` answer 503.',
    stability: 'stable',
    group: 'Timing',
  }),
  flowTcpEstablishedTimeout: option<number>({
    flag: 'flow-tcp-established-timeout',
    type: duration(1000, 30 * DAY),
    fallback: { value: 7_440_000 },
    description: 'How long a TCP or SCTP flow may be idle, a half-closed one included (RFC 5382: not less than 2h4m).',
    stability: 'stable',
    group: 'Timing',
  }),
  flowTcpTransitoryTimeout: option<number>({
    flag: 'flow-tcp-transitory-timeout',
    type: duration(1000, DAY),
    fallback: { value: 240_000 },
    description: 'The same for a TCP or SCTP flow that is opening (RFC 5382: not less than 4m).',
    stability: 'stable',
    group: 'Timing',
  }),
  flowTcpClosedTimeout: option<number>({
    flag: 'flow-tcp-closed-timeout',
    type: duration(1000, DAY),
    fallback: { value: 10_000 },
    description: 'The same for a TCP or SCTP flow that both sides have closed, or one has reset.',
    stability: 'stable',
    group: 'Timing',
  }),
  flowUdpTimeout: option<number>({
    flag: 'flow-udp-timeout',
    type: duration(1000, DAY),
    fallback: { value: 120_000 },
    description:
      'How long a UDP flow may be idle whose client has sent nothing after a reply (RFC 4787: not less than 2m).',
    stability: 'stable',
    group: 'Timing',
  }),
  flowUdpStreamTimeout: option<number>({
    flag: 'flow-udp-stream-timeout',
    type: duration(1000, DAY),
    fallback: { value: 300_000 },
    description: 'The same for a UDP flow whose client has.',
    stability: 'stable',
    group: 'Timing',
  }),
  oomScoreAdj: option<number>({
    flag: 'oom-score-adj',
    type: integer(-1000, 1000),
    fallback: { derived: 'as it is' },
    description:
      'How gladly the kernel ends the agent when memory runs out, -1000 (never) to 1000. Below what it was takes CAP_SYS_RESOURCE; without it a warning says so. Services go on without the agent.',
    stability: 'stable',
    group: 'General',
  }),
  metricsBindAddress: option<BindAddress>({
    flag: 'metrics-bind-address',
    type: bindAddress(10249),
    fallback: { value: Object.freeze({ host: '127.0.0.1', port: 10249 }) },
    description: 'Where `/metrics` and `/proxyMode` are served. Port 10249 is added where it is missing.',
    stability: 'stable',
    group: 'HTTP',
  }),
  healthzBindAddress: option<BindAddress>({
    flag: 'healthz-bind-address',
    type: bindAddress(10256),
    fallback: { value: Object.freeze({ host: '0.0.0.0', port: 10256 }) },
    description: 'Where `/healthz`, `/livez` and `/readyz` are served. Port 10256 is added where it is missing.',
    stability: 'stable',
    group: 'HTTP',
  }),
  bindAddressHardFail: option<boolean>({
    flag: 'bind-address-hard-fail',
    type: bool,
    fallback: { value: false },
    description: 'End with status 1 where one of these addresses cannot be had at start, instead of trying again.',
    stability: 'stable',
    group: 'HTTP',
  }),
  logLevel: option<'error' | 'warn' | 'info' | 'debug'>({
    flag: 'log-level',
    type: choice('error', 'warn', 'info', 'debug'),
    fallback: { value: 'info' },
    description: 'Least important lines that are written.',
    stability: 'stable',
    group: 'Logging',
  }),
  logFormat: option<'text' | 'json'>({
    flag: 'log-format',
    type: choice('text', 'json'),
    fallback: { value: 'text' },
    description: 'Lines for people or for machines; both go to standard error.',
    stability: 'stable',
    group: 'Logging',
  }),
} as const

export type OptionKey = keyof typeof OPTIONS

/** What the table says about a key's value. */
export type OptionValue<K extends OptionKey> = (typeof OPTIONS)[K] extends Option<infer T> ? T : never

/** Settings that were given somewhere or have a plain default; derived ones may be absent. */
export type Settings = { readonly [K in OptionKey]?: OptionValue<K> }

/** Keys in the order of the table. */
export const OPTION_KEYS = Object.keys(OPTIONS) as OptionKey[]

/** The table's line for a key, its type forgotten: for code that walks the table. */
export function optionOf(key: OptionKey): Option<unknown> {
  return OPTIONS[key] as Option<unknown>
}

/** `max-services` -> `WAGGLE_MAX_SERVICES`. */
export function environmentName(flag: string): string {
  return `WAGGLE_${flag.toUpperCase().replaceAll('-', '_')}`
}
