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
    '`process_*` and `nodejs_*` metrics of the Node.js client library are served as well.',
  )
}

interface Metric {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly labelNames: readonly string[]
}
