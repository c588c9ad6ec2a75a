import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LogFields, Logger } from '../../src/base/log.js'
import { readConfig } from '../../src/config/read.js'
import { Agent, type AgentDataplane, type EventSink, type KernelCounters } from '../../src/daemon/agent.js'
import type { ApplyReport, Missing } from '../../src/dataplane/dataplane.js'
import type { Device } from '../../src/host/devices.js'
import type { NetworkFacts } from '../../src/host/facts.js'
import type { ServiceNotice } from '../../src/k8s/kube-event.js'
import type { Address } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'
import type { DesiredState } from '../../src/model/desired.js'
import type {
  EndpointSliceObject,
  NodeObject,
  ObjectKey,
  ServiceObject,
  Source,
  SourceEvent,
  WatchedObject,
} from '../../src/model/objects.js'
import { FakeClock } from './sync-fake-clock.js'

/** A dataplane that remembers what it was told, in order. */
class RecordingDataplane implements AgentDataplane {
  readonly name = 'memory'
  readonly steps: string[] = []
  missing: Missing[] = []
  desired: DesiredState | undefined
  devices: readonly Device[] = []
  housekept = 0
  served: readonly string[] = []

  async probe(): Promise<readonly Missing[]> {
    return this.missing
  }
  async start(): Promise<void> {
    this.steps.push('start')
  }
  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    this.desired = desired
    this.steps.push(`apply ${changed === undefined ? 'all' : [...changed].join()}${prune ? ' prune' : ''}`)
    return { revision: desired.revision, services: desired.services.size, writes: 1, failed: [] }
  }
  setDevices(devices: readonly Device[]): void {
    this.devices = devices
  }
  async housekeep(): Promise<string[]> {
    this.housekept++
    return this.housekept === 3 ? ['waggle_ingress'] : []
  }
  counters(): KernelCounters {
    return { outcomes: [], maps: [], flowCounts: { evicted: 0, sourcePortFlows: 0, sourcePortTries: 0 } }
  }
  async stop(): Promise<void> {
    this.steps.push('stop')
  }
  async cleanup(): Promise<void> {
    this.steps.push('cleanup')
  }
}

/** A source that delivers what the test says. */
class ManualSource implements Source {
  readonly name = 'manual'
  deliver: (events: readonly SourceEvent[]) => void = () => {}
  /** What it was told of before it was started. */
  restored: unknown

  restore(objects: readonly WatchedObject[], served: readonly ObjectKey[]): void {
    this.restored = [objects, served]
  }
  async start(sink: (events: readonly SourceEvent[]) => void): Promise<void> {
    this.deliver = sink
  }
  async stop(): Promise<void> {
    this.deliver = () => {
      throw new Error('stopped')
    }
  }
}

const address = (text: string) => text as Address
const service: ServiceObject = {
  kind: 'Service',
  namespace: 'default',
  name: 'web',
  type: 'ClusterIP',
  clusterIPs: [address('10.96.0.10')],
  externalIPs: [],
  loadBalancerIPs: [],
  ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
  affinitySeconds: 0,
  internalLocal: false,
  externalLocal: false,
  scheduler: undefined,
}
const slice: EndpointSliceObject = {
  kind: 'EndpointSlice',
  namespace: 'default',
  name: 'web-1',
  service: 'web',
  family: 'IPv4',
  endpoints: [{ addresses: [address('10.1.0.1')], ready: true, serving: true, terminating: false, nodeName: 'node-a' }],
  ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
}
const node: NodeObject = { kind: 'Node', name: 'node-a', internalIPs: [address('192.168.0.1')] }
const upsert = (object: ServiceObject | EndpointSliceObject | NodeObject): SourceEvent => ({ type: 'upsert', object })
const synced = (kind: 'Service' | 'EndpointSlice' | 'Node'): SourceEvent => ({ type: 'synced', kind })

let clock: FakeClock
let dataplane: RecordingDataplane
let source: ManualSource
let agent: Agent
let lockIsHeld: boolean
let lines: { message: string; fields: LogFields }[]
const BASE = 'http://127.0.0.1'
/** Ports that nobody has: of health and metrics, and two for health checks of Services. */
let healthPort: number
let metricsPort: number
let checkPort: number
let otherCheckPort: number

beforeEach(async () => {
  // Held together, so that they are different ones.
  const holders = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const holder = createServer()
      await new Promise<void>(resolve => holder.listen(0, '127.0.0.1', resolve))
      return holder
    }),
  )
  const ports = holders.map(holder => (holder.address() as AddressInfo).port)
  await Promise.all(holders.map(holder => new Promise(resolve => holder.close(resolve))))
  ;[healthPort = 0, metricsPort = 0, checkPort = 0, otherCheckPort = 0] = ports
  clock = new FakeClock()
  dataplane = new RecordingDataplane()
  source = new ManualSource()
  lines = []
  lockIsHeld = true
  agent = makeAgent([])
})
afterEach(() => agent.stop())

function makeAgent(flags: readonly [string, string[]][], events?: EventSink, checkpoint?: Disk): Agent {
  const write = (message: string, fields: LogFields = {}) => void lines.push({ message, fields })
  const logger: Logger = { error: write, warn: write, info: write, debug() {}, child: () => logger }
  const device = (name: string, ifindex: number, addresses: string[], defaultRoute = false) => ({
    name,
    ifindex,
    l3: false,
    addresses: addresses.map(address),
    defaultRoute,
  })
  const facts: NetworkFacts = [
    device('lo', 1, []),
    device('eth0', 2, ['10.9.0.1'], true),
    device('eth1', 3, ['192.168.0.1']),
  ]
  const { config } = readConfig({
    flags: new Map([
      ...flags,
      ['node-name', ['node-a']],
      ['source', ['dir:/nowhere']],
      ['healthz-bind-address', [`127.0.0.1:${healthPort}`]],
      ['metrics-bind-address', [`127.0.0.1:${metricsPort}`]],
    ]),
    unknownFlags: [],
    environment: {},
    file: undefined,
    machine: { hostname: 'x', cgroup: '/cg' },
  })
  return new Agent({
    config,
    source,
    dataplane,
    readFacts: () => facts,
    listenToNetwork: () => ({ close() {} }),
    clock,
    logger,
    random: () => 0.5,
    version: '1',
    lockIsHeld: () => lockIsHeld,
    ...(events && { events }),
    ...(checkpoint && { checkpoint }),
  })
}

/** A checkpoint in memory. */
class Disk {
  readonly objects: readonly WatchedObject[]
  /** What was to be written, each time. */
  readonly written: WatchedObject[][] = []

  constructor(objects: readonly WatchedObject[]) {
    this.objects = objects
  }
  async read(): Promise<readonly WatchedObject[]> {
    return this.objects
  }
  changed(objects: () => Iterable<WatchedObject>): void {
    this.written.push([...objects()])
  }
  async stop(): Promise<void> {}
}

describe('what an earlier run wrote down', () => {
  const old = { ...service, name: 'old', clusterIPs: [address('10.96.0.11')] }
  const known = [service, old, slice, node]
  const ids = () => [...(dataplane.desired?.services.keys() ?? [])]

  test('is served at once where the kernel has nothing; what left goes after the lists of every kind', async () => {
    const disk = new Disk(known)
    agent = makeAgent([], undefined, disk)
    await agent.start()
    await clock.advanceAsync(500)
    expect(dataplane.steps.at(-1)).toBe('apply all')
    expect(ids()).toEqual(['default/web:http/TCP/IPv4', 'default/old:http/TCP/IPv4'])
    expect(dataplane.devices.map(({ name }) => name)).toEqual(['eth0', 'eth1'])
    expect(source.restored).toEqual([known, []])
    expect(await status('/readyz')).toBe(503)

    source.deliver([upsert(service), { type: 'delete', kind: 'Service', key: 'default/old' }, synced('Service')])
    source.deliver([upsert(slice), synced('EndpointSlice')])
    await clock.advanceAsync(500)
    expect(dataplane.steps.some(step => step.includes('prune'))).toBe(false)
    expect(disk.written).toEqual([])
    source.deliver([upsert(node), synced('Node')])
    await clock.advanceAsync(500)
    expect(dataplane.steps.at(-1)).toBe('apply all prune')
    expect(ids()).toEqual(['default/web:http/TCP/IPv4'])
    expect(disk.written).toEqual([[service, slice, node]])
  })

  test('is not written over what the kernel has, which is newer; the source hears of both', async () => {
    dataplane.served = ['default/web:http/TCP/IPv4', 'default/web:http/TCP/IPv6', 'default/new:/UDP/IPv4']
    agent = makeAgent([], undefined, new Disk(known))
    await agent.start()
    await clock.advanceAsync(500)
    expect(dataplane.steps).toEqual(['start'])
    expect(source.restored).toEqual([known, ['default/web', 'default/new']])
  })

  test('is written down again when objects changed, and not for less', async () => {
    const disk = new Disk([])
    agent = makeAgent([], undefined, disk)
    await agent.start()
    source.deliver([upsert(service), upsert(slice), upsert(node)])
    source.deliver([synced('Service'), synced('EndpointSlice'), synced('Node')])
    expect(disk.written).toHaveLength(1)
    source.deliver([{ type: 'problem', where: 'x', field: 'y', message: 'z' }])
    expect(disk.written).toHaveLength(1)
    source.deliver([{ type: 'delete', kind: 'Service', key: 'default/web' }])
    expect(disk.written.at(-1)).toEqual([slice, node])
  })
})

// One connection each: a pooled one would belong to the agent of an earlier test.
const get = (path: string, port = healthPort) => fetch(`${BASE}:${port}${path}`, { headers: { connection: 'close' } })
const status = async (path: string, port = healthPort) => (await get(path, port)).status

test('from source to dataplane: nothing before the lists are in, all of it then, edits alone after', async () => {
  await agent.start()
  source.deliver([upsert(service), synced('Service')])
  await clock.advanceAsync(500)
  expect(dataplane.steps).toEqual(['start'])
  expect(await status('/readyz')).toBe(503)

  source.deliver([upsert(slice), synced('EndpointSlice')])
  await clock.advanceAsync(500)
  expect(dataplane.steps).toEqual(['start', 'apply all'])

  source.deliver([upsert(node), synced('Node')])
  await clock.advanceAsync(500)
  expect(dataplane.steps.at(-1)).toBe('apply all prune')
  const port = dataplane.desired?.services.get('default/web:http/TCP/IPv4')
  expect(port?.backends).toMatchObject([{ address: '10.1.0.1', port: 8080, local: true }])
  expect(await status('/readyz')).toBe(200)

  source.deliver([upsert({ ...slice, endpoints: [] })])
  await clock.advanceAsync(0)
  expect(dataplane.steps.at(-1)).toBe('apply default/web:http/TCP/IPv4 prune')
})

test('devices are chosen when the InternalIPs are known, and follow them', async () => {
  await agent.start()
  source.deliver([synced('Service'), synced('EndpointSlice')])
  await clock.advanceAsync(5000)
  expect(dataplane.devices).toEqual([])
  source.deliver([upsert({ ...node, internalIPs: [] }), synced('Node')])
  await clock.advanceAsync(0)
  expect(dataplane.devices.map(({ name, ifindex }) => [name, ifindex])).toEqual([['eth0', 2]])
  source.deliver([upsert(node)])
  await clock.advanceAsync(0)
  expect(dataplane.devices.map(({ name }) => name)).toEqual(['eth0', 'eth1'])
})

test('a Node that is gone or about to go makes healthz 503, livez not', async () => {
  await agent.start()
  source.deliver([synced('Service'), synced('EndpointSlice'), synced('Node')])
  expect(await status('/healthz')).toBe(200)
  source.deliver([upsert(node)])
  expect(await status('/healthz')).toBe(200)
  source.deliver([upsert({ ...node, leaving: true })])
  expect([await status('/healthz'), await status('/livez')]).toEqual([503, 200])
  source.deliver([upsert(node)])
  expect(await status('/healthz')).toBe(200)
  source.deliver([{ type: 'delete', kind: 'Node', key: 'node-a' }])
  expect([await status('/healthz'), await status('/livez')]).toEqual([503, 200])
})

test.each([
  ['ClusterCIDR', ['10.244.0.0/16']],
  ['NodeCIDR', ['10.244.1.0/24']],
  ['BridgeInterface', ['10.244.1.0/24']],
  ['InterfaceNamePrefix', ['10.244.1.0/24']],
])("with --detect-local-mode %s packets from %j are a pod's", async (mode, networks) => {
  agent = makeAgent([
    ['detect-local-mode', [mode]],
    ['cluster-cidr', ['10.244.0.0/16']],
  ])
  await agent.start()
  const podCIDRs = ['10.244.1.0/24' as Cidr]
  source.deliver([upsert({ ...node, podCIDRs }), synced('Service'), synced('EndpointSlice'), synced('Node')])
  await clock.advanceAsync(500)
  expect(dataplane.desired?.podNetworks).toEqual(networks)
})

test('network programming is measured for slices that changed since the agent started', async () => {
  await agent.start()
  const count = async () =>
    /network_programming_duration_seconds_count (\d+)/.exec(await (await get('/metrics', metricsPort)).text())?.[1]
  const now = clock.wall().getTime()
  source.deliver([upsert(service), upsert({ ...slice, triggered: now - 1 }), upsert(node)])
  source.deliver([synced('Service'), synced('EndpointSlice'), synced('Node')])
  await clock.advanceAsync(1000)
  expect(await count()).toBe('0')
  const changed = { ...slice, triggered: now + 900, endpoints: [] }
  source.deliver([upsert(changed)])
  source.deliver([upsert(changed)])
  await clock.advanceAsync(1000)
  expect(await count()).toBe('1')
})

test('problems of sources and of plan are logged once and counted while they stand', async () => {
  await agent.start()
  const problem: SourceEvent = { type: 'problem', where: 'web.yaml:3', field: 'spec', message: 'is text' }
  source.deliver([problem])
  source.deliver([problem, synced('Service'), synced('EndpointSlice'), synced('Node')])
  const logged = lines.filter(({ message }) => message === 'input problem').map(({ fields }) => fields.where)
  expect(logged).toEqual(['web.yaml:3', 'node node-a'])
  const count = async () => /waggle_problems (\d)/.exec(await (await get('/metrics', metricsPort)).text())?.[1]
  expect(await count()).toBe('2')
  source.deliver([{ type: 'resolved', where: 'web.yaml:3' }, upsert(node)])
  expect(await count()).toBe('0')
})

test('load balancers hear of local endpoints once all lists are in, then with each change', async () => {
  await agent.start()
  const loopback = { ...node, internalIPs: [address('127.0.0.1')] }
  const checked: ServiceObject = {
    ...service,
    type: 'LoadBalancer',
    externalLocal: true,
    healthCheckNodePort: checkPort,
  }
  const ask = async () => (await get('/', checkPort)).status
  source.deliver([upsert(checked), upsert(loopback), synced('Service'), synced('Node')])
  await clock.advanceAsync(1000)
  await expect(ask()).rejects.toThrow()
  source.deliver([upsert(slice), synced('EndpointSlice')])
  await clock.advanceAsync(1000)
  expect(await ask()).toBe(200)
  source.deliver([{ type: 'delete', kind: 'EndpointSlice', key: 'default/web-1' }])
  await clock.advanceAsync(1000)
  expect(await ask()).toBe(503)
  source.deliver([upsert({ ...checked, healthCheckNodePort: otherCheckPort })])
  await clock.advanceAsync(0)
  expect((await get('/', otherCheckPort)).status).toBe(503)
  await expect(ask()).rejects.toThrow()
})

test('problems of a Service are told there, others are not', async () => {
  const told: ServiceNotice[] = []
  const counts = { sent: 3, known: 0, dropped: 0 }
  agent = makeAgent([], { tell: notice => void told.push(notice), counts, stop() {} })
  await agent.start()
  const taken = { ...service, name: 'second', uid: 'u-2', created: 2 }
  source.deliver([
    upsert({ ...service, created: 1 }),
    upsert(taken),
    { type: 'problem', where: 'Service default/odd', field: 'spec.ports[0]', message: 'is wrong' },
    { type: 'problem', where: 'EndpointSlice default/odd', field: 'ports', message: 'is wrong' },
    ...[synced('Service'), synced('EndpointSlice'), synced('Node')],
  ])
  expect(told).toEqual([
    {
      ...{ namespace: 'default', name: 'odd', uid: undefined, reason: 'InvalidField', action: 'Read' },
      ...{ note: 'spec.ports[0]: is wrong', ofThisNode: false },
    },
    {
      ...{ namespace: 'default', name: 'second', uid: 'u-2', reason: 'FrontendRefused', action: 'Plan' },
      ...{ note: expect.stringContaining('is ClusterIP of default/web'), ofThisNode: false },
    },
  ])
  expect(await (await get('/metrics', metricsPort)).text()).toContain('waggle_events_total{result="sent"} 3')
})

test('a health check port that is taken is told at the Service', async () => {
  const holder = createServer()
  await new Promise<void>(resolve => holder.listen(checkPort, '127.0.0.1', resolve))
  try {
    const told: ServiceNotice[] = []
    const counts = { sent: 0, known: 0, dropped: 0 }
    agent = makeAgent([], { tell: notice => void told.push(notice), counts, stop() {} })
    await agent.start()
    const checked: ServiceObject = {
      ...service,
      type: 'LoadBalancer',
      externalLocal: true,
      healthCheckNodePort: checkPort,
    }
    source.deliver([upsert(checked), upsert({ ...node, internalIPs: [address('127.0.0.1')] })])
    source.deliver([synced('Service'), synced('EndpointSlice'), synced('Node')])
    await clock.advanceAsync(20_000)
    expect(told).toMatchObject([
      {
        name: 'web',
        reason: 'FailedToStartServiceHealthcheck',
        ofThisNode: true,
        note: expect.stringMatching(/EADDRINUSE/),
      },
    ])
  } finally {
    await new Promise(resolve => holder.close(resolve))
  }
})

test('the metrics server names the dataplane and answers a ping', async () => {
  await agent.start()
  expect(await (await get('/proxyMode', metricsPort)).text()).toBe('memory')
  expect(await status('/healthz', metricsPort)).toBe(200)
})

test('/configz has every setting in effect', async () => {
  await agent.start()
  expect(await (await get('/configz', metricsPort)).json()).toMatchObject({
    waggle: { nodeName: 'node-a', healthzBindAddress: `127.0.0.1:${healthPort}`, nodePortAddresses: 'primary' },
  })
})

test('an address that cannot be had ends the start where that is asked for, and nothing is left', async () => {
  const holder = createServer()
  await new Promise<void>(resolve => holder.listen(metricsPort, '127.0.0.1', resolve))
  try {
    const strict = makeAgent([['bind-address-hard-fail', ['true']]])
    await expect(strict.start()).rejects.toThrow(`BIND: listen on 127.0.0.1:${metricsPort}`)
    expect(dataplane.steps.at(-1)).toBe('stop')
    expect(clock.pending).toBe(0)
    await agent.start()
    expect(await status('/healthz')).toBe(200)
  } finally {
    await new Promise(resolve => holder.close(resolve))
  }
})

test('housekeeping once a second, what it put back is counted; a lost lock ends the agent', async () => {
  await agent.start()
  await clock.advanceAsync(5000)
  expect(dataplane.housekept).toBe(5)
  const metrics = await (await get('/metrics', metricsPort)).text()
  expect(metrics).toContain('waggle_programs_restored_total{program="waggle_ingress"} 1')
  lockIsHeld = false
  await clock.advanceAsync(1000)
  await expect(agent.failed).resolves.toMatchObject({ code: 'LOCK_LOST' })
})

test('what the machine lacks is named, and nothing is started', async () => {
  dataplane.missing = [{ what: 'no BTF', remedy: 'another kernel' }]
  await expect(agent.start()).rejects.toThrow('PROBE: start the dataplane memory: no BTF (another kernel)')
  expect(dataplane.steps).toEqual([])
})

test('stop lets go without removing anything', async () => {
  await agent.start()
  source.deliver([synced('Service'), synced('EndpointSlice'), synced('Node')])
  await clock.advanceAsync(0)
  await agent.stop()
  expect(dataplane.steps).toEqual(['start', 'apply all prune', 'stop'])
  expect(clock.pending).toBe(0)
  await expect(status('/healthz')).rejects.toThrow()
})
