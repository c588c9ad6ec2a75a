import { beforeEach, expect, test } from 'vitest'
import { desiredCounts } from '../../src/metrics/desired-counts.js'
import { Metrics, type MetricsInput } from '../../src/metrics/metrics.js'
import type { Address } from '../../src/model/address.js'
import type { Backend, DesiredState, Frontend, ServicePort } from '../../src/model/desired.js'

const frontend = (kind: Frontend['kind']): Frontend => ({ kind, address: '10.0.0.1' as Address, port: 80 })
const backend = (inCluster: boolean, inLocal: boolean): Backend => ({
  address: '10.1.0.1' as Address,
  port: 8080,
  local: inLocal,
  inCluster,
  inLocal,
  weight: 1,
})
function port(part: Partial<ServicePort>): ServicePort {
  return {
    id: 'default/web:/TCP/IPv4',
    namespace: 'default',
    name: 'web',
    portName: '',
    protocol: 'TCP',
    family: 'IPv4',
    scheduler: 'random',
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    frontends: [],
    backends: [],
    ...part,
  }
}
const state = (...ports: ServicePort[]): DesiredState => ({
  revision: 7,
  services: new Map(ports.map((each, i) => [`${i}`, each])),
})

test.each<[string, Partial<ServicePort>, [number, number]]>([
  ['internal Local, backends elsewhere', { internalLocal: true, backends: [backend(true, false)] }, [1, 0]],
  ['internal Local, one here', { internalLocal: true, backends: [backend(true, false), backend(true, true)] }, [0, 0]],
  ['internal Local, none anywhere', { internalLocal: true }, [0, 0]],
  ['internal Local, only draining ones', { internalLocal: true, backends: [backend(false, false)] }, [0, 0]],
  [
    'external Local, reachable from outside',
    { externalLocal: true, backends: [backend(true, false)], frontends: [frontend('ClusterIP'), frontend('NodePort')] },
    [0, 1],
  ],
  [
    'external Local, ClusterIP only',
    { externalLocal: true, backends: [backend(true, false)], frontends: [frontend('ClusterIP')] },
    [0, 0],
  ],
])('Services without a local backend: %s', (_, part, want) => {
  const { noLocalInternal, noLocalExternal } = desiredCounts(state(port(part)))
  expect([noLocalInternal, noLocalExternal]).toEqual(want)
})

let input: { -readonly [K in keyof MetricsInput]: MetricsInput[K] }
let metrics: Metrics

beforeEach(() => {
  input = {
    desired: () =>
      state(port({ frontends: [frontend('ClusterIP')], backends: [backend(true, true), backend(true, true)] })),
    appliedRevision: () => 6,
    synced: () => true,
    failedServices: () => 1,
    problems: () => 2,
    kernel: () => undefined,
    version: '9.9.9',
    watches: () => [],
    events: () => undefined,
  }
  metrics = new Metrics(input)
})

/** Value of a sample line; undefined when there is none. */
async function sample(line: string): Promise<number | undefined> {
  const text = await metrics.registry.metrics()
  const found = text.split('\n').find(candidate => candidate.startsWith(`${line} `))
  return found === undefined ? undefined : Number(found.split(' ').at(-1))
}

test('state gauges', async () => {
  expect(await sample('waggle_services')).toBe(1)
  expect(await sample('waggle_frontends')).toBe(1)
  expect(await sample('waggle_backends')).toBe(2)
  expect(await sample('waggle_desired_revision')).toBe(7)
  expect(await sample('waggle_applied_revision')).toBe(6)
  expect(await sample('waggle_synced')).toBe(1)
  expect(await sample('waggle_failed_services')).toBe(1)
  expect(await sample('waggle_problems')).toBe(2)
  expect(await sample(`waggle_build_info{version="9.9.9",node="${process.versions.node}"}`)).toBe(1)
})

const applied = { writes: 0, ms: 3, full: false, startedAt: 0, at: new Date(0) }

test('a change that comes while an apply runs waits for the next one', async () => {
  const service = { type: 'delete', kind: 'Service', key: 'a/b' } as const
  metrics.reported([service], [], new Date(0), 10)
  metrics.reported([service, service], [], new Date(0), 30)
  const pending = () => sample('kubeproxy_sync_proxy_rules_service_changes_pending')
  metrics.applied({ ...applied, startedAt: 20 })
  expect(await pending()).toBe(2)
  metrics.nothingToApply()
  expect(await pending()).toBe(0)
})

test('full and partial applies are told apart', async () => {
  metrics.applied(applied)
  metrics.applied({ ...applied, full: true })
  metrics.applied(applied)
  expect(await sample('kubeproxy_sync_proxy_rules_duration_seconds_count')).toBe(3)
  expect(await sample('kubeproxy_sync_full_proxy_rules_duration_seconds_count')).toBe(1)
  expect(await sample('kubeproxy_sync_partial_proxy_rules_duration_seconds_count')).toBe(2)
})

test('network programming takes from the trigger of a slice to the apply that has it', async () => {
  const slice = { type: 'delete', kind: 'EndpointSlice', key: 'a/b' } as const
  const count = (le: string) => sample(`kubeproxy_network_programming_duration_seconds_bucket{le="${le}"}`)
  metrics.reported([slice], [1000, 1400], new Date(1500), 10)
  metrics.applied({ ...applied, startedAt: 5, at: new Date(1600) })
  expect(await count('+Inf')).toBe(0)
  metrics.applied({ ...applied, startedAt: 10, at: new Date(1600) })
  metrics.applied({ ...applied, startedAt: 20, at: new Date(9000) })
  expect([await count('0.25'), await count('0.5'), await count('1'), await count('+Inf')]).toEqual([1, 1, 2, 2])
})

test('changes are counted, pend, and are done with the next apply', async () => {
  const at = new Date(1_000_000)
  const service = { type: 'delete', kind: 'Service', key: 'a/b' } as const
  metrics.reported([service, service, { type: 'synced', kind: 'Service' }], [], at, 10)
  metrics.reported([{ type: 'delete', kind: 'EndpointSlice', key: 'a/b' }], [], at, 20)
  expect(await sample('kubeproxy_sync_proxy_rules_service_changes_pending')).toBe(2)
  expect(await sample('kubeproxy_sync_proxy_rules_endpoint_changes_total')).toBe(1)
  expect(await sample('kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds')).toBe(1000)
  metrics.applied({ ...applied, writes: 5, startedAt: 20, at: new Date(2_000_000) })
  expect(await sample('kubeproxy_sync_proxy_rules_service_changes_pending')).toBe(0)
  expect(await sample('kubeproxy_sync_proxy_rules_service_changes_total')).toBe(2)
  expect(await sample('kubeproxy_sync_proxy_rules_last_timestamp_seconds')).toBe(2000)
  expect(await sample('kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002"}')).toBe(0)
  expect(await sample('kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004"}')).toBe(1)
  expect(await sample('waggle_writes_total')).toBe(5)
})

test('programs that were put back, by name', async () => {
  metrics.restored(['sock_connect4', 'waggle_ingress'])
  metrics.restored(['waggle_ingress'])
  metrics.restored([])
  expect(await sample('waggle_programs_restored_total{program="sock_connect4"}')).toBe(1)
  expect(await sample('waggle_programs_restored_total{program="waggle_ingress"}')).toBe(2)
})

test('probes by code', async () => {
  metrics.probed('healthz', 200)
  metrics.probed('healthz', 503)
  metrics.probed('livez', 200)
  expect(await sample('kubeproxy_proxy_healthz_total{code="503"}')).toBe(1)
  expect(await sample('kubeproxy_proxy_livez_total{code="200"}')).toBe(1)
})

test('the kernel counters are shown as they are, each scrape anew', async () => {
  let packets = 10
  input.kernel = () => ({
    outcomes: [
      { hook: 'tc_ingress', outcome: 'forwarded', packets, bytes: 1000 },
      { hook: 'connect', outcome: 'translated', packets: 0, bytes: 0 },
    ],
    maps: [{ name: 'flows_v1', entries: 4, maxEntries: 100 }],
    flowCounts: { evicted: 2, sourcePortFlows: packets, sourcePortTries: 30 },
  })
  metrics = new Metrics(input)
  const line = 'waggle_outcomes_total{hook="tc_ingress",outcome="forwarded"}'
  expect(await sample(line)).toBe(10)
  packets = 15
  expect(await sample(line)).toBe(15)
  expect(await sample('waggle_outcome_bytes_total{hook="tc_ingress",outcome="forwarded"}')).toBe(1000)
  expect(await sample('waggle_outcomes_total{hook="connect",outcome="translated"}')).toBeUndefined()
  expect(await sample('waggle_map_entries{map="flows_v1"}')).toBe(4)
  expect(await sample('waggle_flows_evicted_total')).toBe(2)
  expect(await sample('waggle_source_port_flows_total')).toBe(15)
  expect(await sample('waggle_source_port_tries_total')).toBe(30)
  expect(await sample('waggle_map_max_entries{map="flows_v1"}')).toBe(100)
})

test('how each watch of the API server stands', async () => {
  input.watches = () => [
    { kind: 'Service', objects: 12, held: 7, lastEventAt: new Date(3000), failures: 0 },
    { kind: 'Node', objects: 0, held: 0, lastEventAt: undefined, failures: 4 },
  ]
  metrics = new Metrics(input)
  expect(await sample('waggle_watch_objects{kind="Service"}')).toBe(12)
  expect(await sample('waggle_watch_held_deletions{kind="Service"}')).toBe(7)
  expect(await sample('waggle_watch_last_event_timestamp_seconds{kind="Service"}')).toBe(3)
  expect(await sample('waggle_watch_last_event_timestamp_seconds{kind="Node"}')).toBe(0)
  expect(await sample('waggle_watch_failures{kind="Node"}')).toBe(4)
})
