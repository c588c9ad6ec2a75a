import { parseAddress } from '../model/address.js'
import type { OptionKey } from './options.js'
import {
  anyText,
  bindAddress,
  bool,
  choice,
  cidr,
  duration,
  integer,
  list,
  mapping,
  path,
  text,
  type ValueType,
  wordOr,
} from './types.js'

/** What kube-proxy can be told to program the kernel with on Linux; unset means iptables. */
export type ProxyMode = 'iptables' | 'ipvs' | 'nftables'

/** One field of KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), or a flag of kube-proxy that has no field. */
export interface KubeProxyField {
  /** `iptables.syncPeriod`; undefined = a flag only. */
  readonly path?: string
  /** The flag without dashes, where it has one. */
  readonly flag?: string
  readonly type: ValueType<unknown>
  /** kube-proxy's default as text; the same value needs no remark. */
  readonly standard: string
  /** The setting of ours that it becomes. */
  readonly key?: OptionKey
  /**
   * The value for `key`, by default the printed one; undefined = there is none, so `effect`
   * is reported. Without `key` any text means that nothing has to be reported.
   */
  readonly translate?: (value: unknown) => string | undefined
  /** Modes in which kube-proxy reads it; in others it is ignored without a word, as there. */
  readonly modes?: readonly ProxyMode[]
  /** What waggle does with it. Where it does not become a setting, this is what happens instead. */
  readonly effect: string
}

const DAY = 86_400_000
const seconds = duration(0, 365 * DAY)

/** Durations of kube-proxy: 0 means unset or "leave as it is". */
const ALWAYS_ZERO = '0s'

const IPVS_SCHEDULERS: Readonly<Record<string, string>> = {
  rr: 'rr',
  wrr: 'rr',
  lc: 'least-conn',
  wlc: 'least-conn',
  sh: 'source-hash',
  mh: 'maglev',
}

const OWN_MARK = "The dataplane ebpf marks nothing; iptables and nftables use kube-proxy's default."
/** Why `masqueradeAll` has no effect with the dataplane ebpf. */
export const NO_MASQUERADE =
  "Not done by the dataplane ebpf: a socket has the address that the route to the backend gives it, and a packet gets the node's where its backend is on another node; the answers of a backend on this node need not come back through a translation, so it sees the client."
const RESYNC = '`--sync-period`, from the section of `mode`.'
const MIN_RESYNC = '`--min-sync-period`, from the section of `mode`.'
const KERNEL_CONNTRACK = "The kernel's conntrack settings are left alone: flows are kept in a table of their own."
const FEW_REQUESTS = 'Not limited: the agent has three watches and sends a few requests a minute at most.'
const WINDOWS = 'Windows is not supported.'
const sections = ['iptables', 'ipvs', 'nftables'] as const

/** Every field and flag of kube-proxy, in the order of its configuration type. */
export const KUBE_PROXY_FIELDS: readonly KubeProxyField[] = [
  {
    path: 'featureGates',
    flag: 'feature-gates',
    type: mapping,
    standard: '',
    effect: "There are no feature gates; kube-proxy's have no meaning here.",
  },
  {
    path: 'clientConnection.kubeconfig',
    flag: 'kubeconfig',
    type: path,
    standard: '',
    key: 'kubeconfig',
    effect: '`--kubeconfig`.',
  },
  {
    path: 'clientConnection.acceptContentTypes',
    type: anyText,
    standard: '',
    effect: 'The agent chooses how it talks to the API server.',
  },
  {
    path: 'clientConnection.contentType',
    flag: 'kube-api-content-type',
    type: anyText,
    standard: 'application/vnd.kubernetes.protobuf',
    effect: 'The agent chooses how it talks to the API server.',
  },
  {
    path: 'clientConnection.qps',
    flag: 'kube-api-qps',
    type: text('number', /^-?[0-9]+(\.[0-9]+)?$/, 'must be a number'),
    standard: '5',
    effect: FEW_REQUESTS,
  },
  {
    path: 'clientConnection.burst',
    flag: 'kube-api-burst',
    type: integer(0, 2_147_483_647),
    standard: '10',
    effect: FEW_REQUESTS,
  },
  {
    flag: 'master',
    type: text('url', /^https?:\/\/[^\s,]+$/, 'must be the URL of an API server'),
    standard: '',
    key: 'kubeServers',
    effect: '`--kube-servers`.',
  },
  {
    path: 'logging.format',
    flag: 'logging-format',
    type: choice('text', 'json'),
    standard: 'text',
    key: 'logFormat',
    effect: '`--log-format`.',
  },
  {
    path: 'logging.verbosity',
    flag: 'v',
    type: integer(0, 2_147_483_647),
    standard: '0',
    key: 'logLevel',
    translate: value => (Number(value) >= 4 ? 'debug' : 'info'),
    effect: '`--log-level`: `debug` from 4 on, else `info`.',
  },
  {
    path: 'logging.vmodule',
    flag: 'vmodule',
    type: wordOr([], anyText),
    standard: '',
    effect: 'Log levels do not differ by file.',
  },
  {
    path: 'logging.flushFrequency',
    flag: 'log-flush-frequency',
    type: wordOr([], anyText),
    standard: '5s',
    effect: 'Every line is written at once.',
  },
  {
    path: 'logging.options',
    type: mapping,
    standard: '',
    translate: () => '',
    effect: 'Nothing: all lines go to standard error.',
  },
  {
    path: 'hostnameOverride',
    flag: 'hostname-override',
    type: anyText,
    standard: '',
    key: 'nodeName',
    translate: value => String(value).trim().toLowerCase(),
    effect: '`--node-name`.',
  },
  {
    path: 'bindAddress',
    flag: 'bind-address',
    type: text('address', /^[0-9A-Fa-f.:]+$/, 'must be an IP address'),
    standard: '0.0.0.0',
    translate: value => (/^(0\.0\.0\.0|::)$/.test(String(value)) ? '' : undefined),
    effect:
      "The Node object alone says which addresses are this node's. An IPv6 address makes the default of `--healthz-bind-address` and `--metrics-bind-address` an IPv6 one.",
  },
  {
    path: 'healthzBindAddress',
    flag: 'healthz-bind-address',
    type: bindAddress(10256),
    standard: '0.0.0.0:10256',
    key: 'healthzBindAddress',
    effect: '`--healthz-bind-address`.',
  },
  {
    flag: 'healthz-port',
    type: integer(1, 65_535),
    standard: '10256',
    key: 'healthzBindAddress',
    translate: value => `0.0.0.0:${value}`,
    effect: '`--healthz-bind-address` with all addresses.',
  },
  {
    path: 'metricsBindAddress',
    flag: 'metrics-bind-address',
    type: bindAddress(10249),
    standard: '127.0.0.1:10249',
    key: 'metricsBindAddress',
    effect: '`--metrics-bind-address`.',
  },
  {
    flag: 'metrics-port',
    type: integer(1, 65_535),
    standard: '10249',
    key: 'metricsBindAddress',
    translate: value => `127.0.0.1:${value}`,
    effect: '`--metrics-bind-address` with the address 127.0.0.1.',
  },
  {
    path: 'bindAddressHardFail',
    flag: 'bind-address-hard-fail',
    type: bool,
    standard: 'false',
    key: 'bindAddressHardFail',
    effect: '`--bind-address-hard-fail`.',
  },
  {
    path: 'enableProfiling',
    flag: 'profiling',
    type: bool,
    standard: 'false',
    effect: 'There are no profiles on the metrics port; Node.js profiles by its own flags.',
  },
  {
    path: 'showHiddenMetricsForVersion',
    flag: 'show-hidden-metrics-for-version',
    type: anyText,
    standard: '',
    effect: 'No metric is hidden.',
  },
  {
    path: 'mode',
    flag: 'proxy-mode',
    type: choice('iptables', 'ipvs', 'nftables'),
    standard: '',
    effect:
      'Services are served by `--dataplane` whatever the mode. It says which of the sections `iptables`, `ipvs`, `nftables` counts, and what an unset `nodePortAddresses` means.',
  },
  ...(['iptables', 'nftables'] as const).map(
    (section): KubeProxyField => ({
      path: `${section}.masqueradeBit`,
      ...(section === 'iptables' && { flag: 'iptables-masquerade-bit' }),
      type: integer(0, 31),
      standard: '14',
      modes: section === 'iptables' ? ['iptables', 'ipvs'] : ['nftables'],
      effect: OWN_MARK,
    }),
  ),
  ...(['iptables', 'nftables'] as const).map(
    (section): KubeProxyField => ({
      path: `${section}.masqueradeAll`,
      ...(section === 'iptables' && { flag: 'masquerade-all' }),
      type: bool,
      standard: 'false',
      key: 'masqueradeAll',
      modes: section === 'iptables' ? ['iptables', 'ipvs'] : ['nftables'],
      effect: `\`--masquerade-all\`. ${NO_MASQUERADE}`,
    }),
  ),
  {
    path: 'iptables.localhostNodePorts',
    flag: 'iptables-localhost-nodeports',
    type: bool,
    standard: 'true',
    key: 'localhostNodePorts',
    modes: ['iptables'],
    effect: '`--localhost-node-ports`.',
  },
  ...sections.map(
    (section): KubeProxyField => ({
      path: `${section}.syncPeriod`,
      ...(section !== 'nftables' && { flag: `${section}-sync-period` }),
      type: seconds,
      standard: '30s',
      key: 'syncPeriod',
      modes: [section],
      effect: RESYNC,
    }),
  ),
  ...sections.map(
    (section): KubeProxyField => ({
      path: `${section}.minSyncPeriod`,
      ...(section !== 'nftables' && { flag: `${section}-min-sync-period` }),
      type: seconds,
      standard: section === 'ipvs' ? ALWAYS_ZERO : '1s',
      key: 'minSyncPeriod',
      modes: [section],
      effect: MIN_RESYNC,
    }),
  ),
  {
    path: 'ipvs.scheduler',
    flag: 'ipvs-scheduler',
    type: text('name', /^[a-z]+$/, 'must be the name of an IPVS scheduler'),
    standard: 'rr',
    key: 'scheduler',
    translate: value => IPVS_SCHEDULERS[String(value)],
    modes: ['ipvs'],
    effect:
      '`--scheduler`: rr and wrr become `rr`, lc and wlc `least-conn`, sh `source-hash`, mh `maglev`. Others have no like; backends are chosen at random.',
  },
  {
    path: 'ipvs.excludeCIDRs',
    flag: 'ipvs-exclude-cidrs',
    type: list(cidr),
    standard: '',
    modes: ['ipvs'],
    effect: 'No virtual server of anybody is touched.',
  },
  {
    path: 'ipvs.strictARP',
    flag: 'ipvs-strict-arp',
    type: bool,
    standard: 'false',
    modes: ['ipvs'],
    effect: 'Service addresses are on no device, so nothing answers ARP for them.',
  },
  ...(
    [
      ['tcpTimeout', 'ipvs-tcp-timeout'],
      ['tcpFinTimeout', 'ipvs-tcpfin-timeout'],
      ['udpTimeout', 'ipvs-udp-timeout'],
    ] as const
  ).map(
    ([name, flag]): KubeProxyField => ({
      path: `ipvs.${name}`,
      flag,
      type: seconds,
      standard: ALWAYS_ZERO,
      modes: ['ipvs'],
      effect: 'How long flows are kept is said by the `--flow-…-timeout` settings.',
    }),
  ),
  ...['networkName', 'sourceVip', 'rootHnsEndpointName'].map(
    (name): KubeProxyField => ({ path: `winkernel.${name}`, type: anyText, standard: '', effect: WINDOWS }),
  ),
  ...['enableDSR', 'forwardHealthCheckVip'].map(
    (name): KubeProxyField => ({ path: `winkernel.${name}`, type: bool, standard: 'false', effect: WINDOWS }),
  ),
  {
    path: 'detectLocalMode',
    flag: 'detect-local-mode',
    type: choice('ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'),
    standard: 'ClusterCIDR',
    key: 'detectLocalMode',
    effect: '`--detect-local-mode`.',
  },
  {
    path: 'detectLocal.bridgeInterface',
    flag: 'pod-bridge-interface',
    type: anyText,
    standard: '',
    key: 'podBridgeInterface',
    effect:
      "`--pod-bridge-interface`, with `--dataplane iptables` and `nftables`. For `ebpf` this node's pods are known by their sockets, and their packets by the Node's `spec.podCIDRs`, whatever device they use.",
  },
  {
    path: 'detectLocal.interfaceNamePrefix',
    flag: 'pod-interface-name-prefix',
    type: anyText,
    standard: '',
    key: 'podInterfaceNamePrefix',
    effect:
      "`--pod-interface-name-prefix`, with `--dataplane iptables` and `nftables`. For `ebpf` this node's pods are known by their sockets, and their packets by the Node's `spec.podCIDRs`, whatever device they use.",
  },
  {
    path: 'clusterCIDR',
    flag: 'cluster-cidr',
    type: list(cidr),
    standard: '',
    key: 'clusterCidr',
    effect: '`--cluster-cidr`.',
  },
  {
    path: 'nodePortAddresses',
    flag: 'nodeport-addresses',
    type: list(wordOr(['primary', 'localhost', 'all'], cidr)),
    standard: '',
    key: 'nodePortAddresses',
    effect:
      "`--nodeport-addresses`. Unset means kube-proxy's default for the mode: `primary` for nftables, else `all`.",
  },
  {
    path: 'oomScoreAdj',
    flag: 'oom-score-adj',
    type: integer(-1000, 1000),
    standard: '-999',
    key: 'oomScoreAdj',
    effect: "`--oom-score-adj`; unset means kube-proxy's -999.",
  },
  ...(
    [
      ['maxPerCore', 'conntrack-max-per-core', '32768'],
      ['min', 'conntrack-min', '131072'],
    ] as const
  ).map(
    ([name, flag, standard]): KubeProxyField => ({
      path: `conntrack.${name}`,
      flag,
      type: integer(0, 2_147_483_647),
      standard,
      effect: `${KERNEL_CONNTRACK} See \`--max-flows\`.`,
    }),
  ),
  {
    path: 'conntrack.tcpEstablishedTimeout',
    flag: 'conntrack-tcp-timeout-established',
    type: seconds,
    standard: '24h',
    key: 'flowTcpEstablishedTimeout',
    effect: `\`--flow-tcp-established-timeout\`. ${KERNEL_CONNTRACK}`,
  },
  {
    path: 'conntrack.tcpCloseWaitTimeout',
    flag: 'conntrack-tcp-timeout-close-wait',
    type: seconds,
    standard: '1h',
    effect: 'A half-closed flow is kept as long as an open one.',
  },
  {
    path: 'conntrack.tcpBeLiberal',
    flag: 'conntrack-tcp-be-liberal',
    type: bool,
    standard: 'false',
    effect: `TCP sequence numbers are never looked at. ${KERNEL_CONNTRACK}`,
  },
  {
    path: 'conntrack.udpTimeout',
    flag: 'conntrack-udp-timeout',
    type: seconds,
    standard: ALWAYS_ZERO,
    key: 'flowUdpTimeout',
    effect: `\`--flow-udp-timeout\`. ${KERNEL_CONNTRACK}`,
  },
  {
    path: 'conntrack.udpStreamTimeout',
    flag: 'conntrack-udp-timeout-stream',
    type: seconds,
    standard: ALWAYS_ZERO,
    key: 'flowUdpStreamTimeout',
    effect: `\`--flow-udp-stream-timeout\`. ${KERNEL_CONNTRACK}`,
  },
  {
    path: 'configSyncPeriod',
    flag: 'config-sync-period',
    type: seconds,
    standard: '15m',
    effect: 'Objects are watched; a watch that is silent or ends is begun anew.',
  },
  { path: 'portRange', type: anyText, standard: '', effect: 'Nothing, as in kube-proxy.' },
  { path: 'windowsRunAsService', flag: 'windows-service', type: bool, standard: 'false', effect: WINDOWS },
]

/** Flags of kube-proxy that ask for another program than the agent, and what to do instead. */
export const OTHER_COMMANDS: Readonly<Record<string, string>> = {
  '--cleanup':
    "is kube-proxy's; `waggle cleanup` removes what waggle made, `kube-proxy --cleanup` what kube-proxy made",
  '--init-only': "is kube-proxy's; waggle has nothing to do before it runs",
  '--write-config-to': "is kube-proxy's; docs/reference/configuration.md lists every setting with its default",
  '--version': "is kube-proxy's; use `waggle version`",
}

/** Whether an address says that this node is an IPv6 one, as `bindAddress` does. */
export function isIPv6(address: unknown): boolean {
  return parseAddress(String(address))?.includes(':') === true
}
