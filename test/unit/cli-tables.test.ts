import { expect, test } from 'vitest'
import { printTable } from '../../src/cli/print.js'
import type { BackendRow, FlowRow, ServiceRow } from '../../src/dataplane/inspection.js'
import { filterRows } from '../../src/inspect/filter.js'
import { SUBJECTS } from '../../src/inspect/subjects.js'
import {
  backendTable,
  deviceTable,
  flowTable,
  mapTable,
  outcomeTable,
  programTable,
  serviceTable,
} from '../../src/inspect/tables.js'
import type { Address } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'

const ip = (text: string) => text as Address
const web = { namespace: 'default', service: 'web', port: 'http', protocol: 'TCP' } as const
const dns = { namespace: 'kube-system', service: 'dns', port: '', protocol: 'UDP' } as const

const services: ServiceRow[] = [
  {
    ...web,
    id: 1,
    scheduler: 'rr',
    affinitySeconds: 600,
    internalLocal: false,
    externalLocal: true,
    sourceRanges: ['10.0.0.0/8', '192.0.2.0/24'] as Cidr[],
    frontends: [
      { kind: 'ClusterIP', address: ip('10.96.0.10'), port: 80 },
      { kind: 'NodePort', address: ip('192.168.0.1'), port: 30080 },
    ],
    backends: 3,
    localBackends: 1,
    opened: 1200,
    refused: 0,
  },
  {
    ...dns,
    id: 2,
    scheduler: 'random',
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    sourceRanges: undefined,
    frontends: [{ kind: 'ClusterIP', address: ip('2001:db8::a'), port: 53 }],
    backends: 0,
    localBackends: 0,
    opened: 0,
    refused: 7,
  },
]

test('services: a line for each frontend, what concerns all of them on the first', () => {
  expect(printTable(serviceTable(services))).toBe(
    `
NAMESPACE     SERVICE   PORT   PROTOCOL   KIND        FRONTEND            BACKENDS   LOCAL   SCHEDULER   AFFINITY   LOCAL-ONLY   SOURCES                   OPENED   REFUSED
default       web       http   TCP        ClusterIP   10.96.0.10:80       3          1       rr          600s       external     10.0.0.0/8,192.0.2.0/24   1200     0
default       web       http   TCP        NodePort    192.168.0.1:30080
kube-system   dns       -      UDP        ClusterIP   [2001:db8::a]:53    0          0       random      -          -            -                         0        7
`.slice(1),
  )
})

test('backends: which node, which lists', () => {
  const row: BackendRow = {
    ...web,
    id: 5,
    address: ip('10.1.0.1'),
    backendPort: 8080,
    local: true,
    inCluster: true,
    inLocal: true,
    generation: 1,
    opened: 4,
    udpLive: 0,
    tcpLive: 3,
    weight: 2,
  }
  const draining = { ...row, id: 6, address: ip('10.1.0.2'), local: false, inCluster: false, inLocal: false }
  expect(printTable(backendTable([row, draining]))).toBe(
    `
NAMESPACE   SERVICE   PORT   PROTOCOL   BACKEND         NODE    LISTS           WEIGHT   OPENED   TCP-SOCKETS   UDP-SOCKETS
default     web       http   TCP        10.1.0.1:8080   this    cluster,local   2        4        3             0
default     web       http   TCP        10.1.0.2:8080   other   none            2        4        3             0
`.slice(1),
  )
})

test('flows: the source towards the backend only where it was translated', () => {
  const kept: FlowRow = {
    ...web,
    client: ip('203.0.113.9'),
    clientPort: 40000,
    frontend: ip('192.168.0.1'),
    frontendPort: 30080,
    backend: ip('10.1.0.1'),
    backendPort: 8080,
    source: ip('203.0.113.9'),
    sourcePort: 40000,
    state: 'established',
    local: true,
    idleSeconds: 1.4,
  }
  const translated = { ...kept, source: ip('192.168.0.1'), sourcePort: 61000, local: false }
  expect(printTable(flowTable([kept, translated]))).toBe(
    `
NAMESPACE   SERVICE   PORT   PROTOCOL   CLIENT              FRONTEND            SOURCE              BACKEND         NODE    STATE         IDLE
default     web       http   TCP        203.0.113.9:40000   192.168.0.1:30080   kept                10.1.0.1:8080   this    established   1s
default     web       http   TCP        203.0.113.9:40000   192.168.0.1:30080   192.168.0.1:61000   10.1.0.1:8080   other   established   1s
`.slice(1),
  )
})

test('devices', () => {
  const device = { name: 'eth0', ifindex: 2, tc: 'tcx', address4: ip('192.168.0.1'), address6: undefined } as const
  const rows = [
    { ...device, xdp: 'native', xdpReason: '' },
    { ...device, xdp: '', xdpReason: 'its driver has no native XDP' },
  ] as const
  expect(printTable(deviceTable(rows))).toBe(
    `
DEVICE   IFINDEX   TC    SOURCE4       SOURCE6   XDP      REASON
eth0     2         tcx   192.168.0.1   -         native   -
eth0     2         tcx   192.168.0.1   -         -        its driver has no native XDP
`.slice(1),
  )
})

test('programs, outcomes and maps', () => {
  const program = { name: 'sock_connect4', hook: 'connect4', target: 'cgroup 1', id: 7, tag: 'ab', attached: false }
  expect(programTable([program]).rows).toEqual([['sock_connect4', 'connect4', 'cgroup 1', '7', 'ab', 'no']])
  const outcome = { hook: 'connect', outcome: 'translated', packets: 3, bytes: 0 }
  expect(outcomeTable([outcome]).rows).toEqual([['connect', 'translated', '3', '0']])
  expect(mapTable([{ name: 'flows_v1', entries: 1, maxEntries: 3 }]).rows).toEqual([['flows_v1', '1', '3', '33%']])
})

test.each([
  [{}, ['web', 'dns']],
  [{ namespace: 'default' }, ['web']],
  [{ service: 'dns' }, ['dns']],
  [{ service: 'kube-system/dns' }, ['dns']],
  [{ service: 'default/dns' }, []],
  [{ namespace: 'default', service: 'dns' }, []],
])('filter %j', (filter, want) => {
  expect(filterRows(services, filter).map(row => row.service)).toEqual(want)
})

test('every subject filters its rows and its table alike', () => {
  const inspection = {
    services,
    backends: [],
    flows: [],
    programs: [],
    devices: [],
    outcomes: [],
    maps: [],
    flowCounts: { evicted: 0, sourcePortFlows: 0, sourcePortTries: 0 },
  }
  for (const subject of SUBJECTS) {
    const filter = subject.byService ? { namespace: 'kube-system' } : {}
    const rows = subject.rows(inspection, filter)
    expect([subject.name, rows.length]).toEqual([subject.name, subject.table(inspection, filter).rows.length])
    expect(rows.length).toBe(subject.name === 'services' ? 1 : 0)
  }
})
