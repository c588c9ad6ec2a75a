import { Metrics } from '../../src/metrics/metrics.js'
import { code, page, table } from './markdown.js'

/** docs/reference/metrics.md: every metric of our own, from the registry that serves them. */
export function metricsPage(): string {
  const metrics = new Metrics({
    desired: () => ({ revision: 0, services: new Map() }),
    appliedRevision: () => 0,
    synced: () => false,
    failedServices: () => 0,
    problems: () => 0,
    kernel: () => undefined,
    version: '',
    watches: () => [],
    events: () => undefined,
  })
  // prom-client keeps name, help, type and labels on the metric; its types name none of them.
  const all = metrics.registry.getMetricsAsArray() as unknown as Metric[]
  const own = (prefix: string) =>
    all
      .filter(({ name }) => name.startsWith(prefix))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, help, type, labelNames }) => [
        code(name),
        String(type),
        labelNames.map(code).join(', ') || '-',
        help,
      ])
  const head = ['Name', 'Type', 'Labels', 'Meaning']
  return page(
    '# Metrics',
    `Served at \`/metrics\` of \`--metrics-bind-address\`. Where a metric means what kube-proxy's does, it has its name;
one apply writes both families, so there is no label \`ip_family\`. Outcomes are explained in [outcomes.md](outcomes.md).`,
    `## Of waggle\n\n${table(head, own('waggle_'))}`,
    `## With kube-proxy's names\n\n${table(head, own('kubeproxy_'))}`,
    comparison(new Set(all.map(({ name }) => name))),
    '`process_*` and `nodejs_*` metrics of the Node.js client library are served as well.',
  )
}

/** Each metric of kube-proxy 1.37 on Linux with what to look at here; undefined = the same name. */
const LIKE: Readonly<Record<string, string | undefined>> = {
  sync_proxy_rules_duration_seconds: undefined,
  sync_full_proxy_rules_duration_seconds: undefined,
  sync_partial_proxy_rules_duration_seconds: undefined,
  network_programming_duration_seconds: undefined,
  sync_proxy_rules_last_timestamp_seconds: undefined,
  sync_proxy_rules_last_queued_timestamp_seconds: undefined,
  sync_proxy_rules_endpoint_changes_pending: undefined,
  sync_proxy_rules_endpoint_changes_total: undefined,
  sync_proxy_rules_service_changes_pending: undefined,
  sync_proxy_rules_service_changes_total: undefined,
  sync_proxy_rules_no_local_endpoints_total: undefined,
  proxy_healthz_total: undefined,
  proxy_livez_total: undefined,
  sync_proxy_rules_iptables_total:
    'there are no rules; `waggle_map_entries` and `waggle_map_max_entries` say how full the maps are',
  sync_proxy_rules_iptables_last: '`waggle_writes_total` counts what was written',
  sync_proxy_rules_iptables_restore_failures_total: '`waggle_apply_failures_total`, `waggle_failed_services`',
  sync_proxy_rules_iptables_partial_restore_failures_total: '`waggle_failed_services`: the others go on',
  sync_proxy_rules_nftables_sync_failures_total: '`waggle_apply_failures_total`, `waggle_failed_services`',
  sync_proxy_rules_nftables_cleanup_failures_total: '`waggle_apply_failures_total`',
  iptables_ct_state_invalid_dropped_packets_total:
    '`waggle_outcomes_total`: nothing is dropped as invalid for conntrack',
  iptables_localhost_nodeports_accepted_packets_total:
    'node ports on loopback are served at the socket; `waggle show services` has their counts',
  nftables_localhost_nodeport_listeners: 'nothing listens for them',
  nftables_localhost_nodeport_listener_creation_failures_total: 'nothing listens for them',
  nftables_localhost_nodeport_rejected_packets_total: '`waggle_outcomes_total`',
  conntrack_reconciler_sync_duration_seconds: 'flows follow the endpoints without a sweep of conntrack',
  conntrack_reconciler_deleted_entries_total:
    'nothing is deleted: a UDP flow of a removed endpoint gets another backend with its next datagram',
}

/** Throws when a metric that is said to be served is not, or one is served that the table lacks. */
function comparison(served: ReadonlySet<string>): string {
  const rows = Object.entries(LIKE).map(([name, like]) => {
    if ((like === undefined) !== served.has(`kubeproxy_${name}`)) throw new Error(`kubeproxy_${name}: see LIKE`)
    return [code(name), like === undefined ? 'the same' : `no; ${like}`]
  })
  const missing = [...served].filter(name => name.startsWith('kubeproxy_') && !(name.slice(10) in LIKE))
  if (missing.length > 0) throw new Error(`not in LIKE: ${missing.join(', ')}`)
  return `## Beside kube-proxy's

What a dashboard for kube-proxy finds here. The names have the prefix \`kubeproxy_\`; buckets are the same. Metrics of the
client library (\`rest_client_*\`) and of the Go runtime are not there; \`waggle_watch_*\` says how reading goes.

${table(['Metric', 'Here'], rows)}`
}

interface Metric {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly labelNames: readonly string[]
}
