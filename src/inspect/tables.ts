import type {
  BackendRow,
  DeviceRow,
  FlowRow,
  MapRow,
  OutcomeRow,
  ProgramRow,
  ServicePortName,
  ServiceRow,
} from '../dataplane/inspection.js'
import { formatEndpoint } from '../model/address.js'
import type { DifferenceRow } from './difference.js'

/** Headings and cells of a table, all text; what is not there is `-`. */
export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

const NAME = ['NAMESPACE', 'SERVICE', 'PORT', 'PROTOCOL']
const nameCells = (row: ServicePortName) => [row.namespace, row.service, row.port, row.protocol]

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): Table {
  return { head, rows: rows.map(cells => cells.map(cell => (cell === '' ? '-' : String(cell)))) }
}

/** A line for each frontend; what concerns the whole Service port stands on its first line. */
export function serviceTable(services: readonly ServiceRow[]): Table {
  const head = [
    ...NAME,
    'KIND',
    'FRONTEND',
    'BACKENDS',
    'LOCAL',
    'SCHEDULER',
    'AFFINITY',
    'LOCAL-ONLY',
    'SOURCES',
    'OPENED',
    'REFUSED',
  ]
  return table(
    head,
    services.flatMap(service => {
      const facts = [
        service.backends,
        service.localBackends,
        service.scheduler,
        service.affinitySeconds > 0 ? `${service.affinitySeconds}s` : '-',
        localOnly(service),
        sources(service),
        service.opened,
        service.refused,
      ]
      if (service.frontends.length === 0) return [[...nameCells(service), '-', '-', ...facts]]
      return service.frontends.map((frontend, i) => [
        ...nameCells(service),
        frontend.kind,
        formatEndpoint(frontend.address, frontend.port),
        ...(i === 0 ? facts : facts.map(() => ' ')),
      ])
    }),
  )
}

/** Which traffic goes to backends of this node alone. */
function localOnly({ internalLocal, externalLocal }: ServiceRow): string {
  return [internalLocal ? 'internal' : '', externalLocal ? 'external' : ''].filter(Boolean).join(',') || '-'
}

/** Who may use the load-balancer frontends. */
function sources({ sourceRanges }: ServiceRow): string {
  return sourceRanges === undefined ? '-' : sourceRanges.join(',') || 'none'
}

export function backendTable(backends: readonly BackendRow[]): Table {
  return table(
    [...NAME, 'BACKEND', 'NODE', 'LISTS', 'WEIGHT', 'OPENED', 'TCP-SOCKETS', 'UDP-SOCKETS'],
    backends.map(row => [
      ...nameCells(row),
      formatEndpoint(row.address, row.backendPort),
      row.local ? 'this' : 'other',
      [row.inCluster ? 'cluster' : '', row.inLocal ? 'local' : ''].filter(Boolean).join(',') || 'none',
      row.weight,
      row.opened,
      row.tcpLive,
      row.udpLive,
    ]),
  )
}

export function flowTable(flows: readonly FlowRow[]): Table {
  return table(
    [...NAME, 'CLIENT', 'FRONTEND', 'SOURCE', 'BACKEND', 'NODE', 'STATE', 'IDLE'],
    flows.map(row => [
      ...nameCells(row),
      formatEndpoint(row.client, row.clientPort),
      formatEndpoint(row.frontend, row.frontendPort),
      row.source === row.client && row.sourcePort === row.clientPort
        ? 'kept'
        : formatEndpoint(row.source, row.sourcePort),
      formatEndpoint(row.backend, row.backendPort),
      row.local ? 'this' : 'other',
      row.state,
      `${Math.round(row.idleSeconds)}s`,
    ]),
  )
}

export function programTable(programs: readonly ProgramRow[]): Table {
  return table(
    ['PROGRAM', 'HOOK', 'TARGET', 'ID', 'TAG', 'ATTACHED'],
    programs.map(row => [row.name, row.hook, row.target, row.id, row.tag, row.attached ? 'yes' : 'no']),
  )
}

export function deviceTable(devices: readonly DeviceRow[]): Table {
  return table(
    ['DEVICE', 'IFINDEX', 'TC', 'SOURCE4', 'SOURCE6', 'XDP', 'REASON'],
    devices.map(row => [row.name, row.ifindex, row.tc, row.address4 ?? '', row.address6 ?? '', row.xdp, row.xdpReason]),
  )
}

export function outcomeTable(outcomes: readonly OutcomeRow[]): Table {
  return table(
    ['HOOK', 'OUTCOME', 'PACKETS', 'BYTES'],
    outcomes.map(row => [row.hook, row.outcome, row.packets, row.bytes]),
  )
}

export function mapTable(maps: readonly MapRow[]): Table {
  return table(
    ['MAP', 'ENTRIES', 'MAX', 'FULL'],
    maps.map(row => [row.name, row.entries, row.maxEntries, `${Math.round((row.entries / row.maxEntries) * 100)}%`]),
  )
}

export function differenceTable(rows: readonly DifferenceRow[]): Table {
  return {
    head: ['SERVICE PORT', 'ONLY IN', 'WHAT'],
    rows: rows.map(({ servicePort, onlyIn, what }) => [servicePort || '-', onlyIn, what]),
  }
}
