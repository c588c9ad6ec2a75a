import { u32 } from '../../ebpf/codec.js'
import {
  BackendFlag,
  backend,
  backendStats,
  DeviceXdp,
  device as deviceLayout,
  FlowFlag,
  FlowState,
  flowStats,
  frontend,
  Hook,
  hookNames,
  Outcome,
  outcomeNames,
  outcomeStats,
  serviceName,
  serviceStats,
  type Tuple,
} from '../../ebpf/generated/layouts.js'
import type { BpfMap, Native } from '../../ebpf/native.js'
import { SOCK_EGRESS_HOOK, SOCK_HOOKS } from '../../ebpf/sock-hooks.js'
import { XdpAttached } from '../../ebpf/uapi.js'
import { type Address, addressFromBytes } from '../../model/address.js'
import { type Cidr, cidrOfMapped } from '../../model/cidr.js'
import type {
  BackendRow,
  DeviceRow,
  FlowCounts,
  FlowRow,
  Inspection,
  MapRow,
  OutcomeRow,
  ProgramRow,
  ServicePortName,
  ServiceRow,
} from '../inspection.js'
import { dumpBackends, dumpRanges, dumpService, entriesOf } from './adopt.js'
import { openLink } from './cgroup-links.js'
import { CLSACT_HANDLE, CLSACT_PRIORITY, linkName } from './device-links.js'
import { decodeFrontendKey, frontendKindName, protocolName } from './encode.js'
import { stateOf } from './flow-expiry.js'
import { KernelMaps } from './kernel-maps.js'
import { openPinnedMaps } from './loader.js'
import { Pins } from './pins.js'
import { xdpReason } from './xdp-choice.js'
import { XDP_PROGRAMS, xdpIfindexOf } from './xdp-links.js'

/** What is pinned below `pinDir`, without a daemon; undefined when nothing is. Changes nothing. */
export function inspectPinned(native: Native, pinDir: string): Inspection | undefined {
  const pins = new Pins(pinDir)
  const handles = openPinnedMaps(native, pins)
  if (!handles) return undefined
  const maps = new KernelMaps(handles)
  try {
    return inspectMaps(native, maps, pins, process.hrtime.bigint())
  } finally {
    maps.close()
  }
}

/** `nowNs` is CLOCK_MONOTONIC. */
export function inspectMaps(native: Native, maps: KernelMaps, pins: Pins, nowNs: bigint): Inspection {
  const names = readNames(maps)
  return {
    services: serviceRows(maps, names),
    backends: backendRows(maps, names),
    flows: flowRows(maps, names, nowNs),
    programs: programRows(native, pins),
    devices: deviceRows(native, maps, pins),
    outcomes: outcomeRows(maps),
    maps: mapRows(maps),
    flowCounts: flowCounts(maps),
  }
}

/** The counters and the fill of the maps alone: what a scrape reads, however many flows there are. */
export function readCounters(maps: KernelMaps): Pick<Inspection, 'outcomes' | 'maps' | 'flowCounts'> {
  return { outcomes: outcomeRows(maps), maps: mapRows(maps), flowCounts: flowCounts(maps) }
}

const UNNAMED: ServicePortName = { namespace: '', service: '', port: '', protocol: 'TCP' }

/** By service index, IPv4 before IPv6 within a Service port. */
function readNames(maps: KernelMaps): Map<number, ServicePortName> {
  const names: { index: number; family: number; name: ServicePortName }[] = []
  for (const [key, value] of entriesOf(maps.handles.svcNames)) {
    const { namespace, name, port, proto, family } = serviceName.decode(value, 0)
    const row = { namespace, service: name, port, protocol: protocolName(proto) ?? 'TCP' }
    names.push({ index: u32.decode(key, 0), family, name: row })
  }
  names.sort((a, b) => byName(a.name, b.name) || a.family - b.family)
  return new Map(names.map(({ index, name }) => [index, name]))
}

function serviceRows(maps: KernelMaps, names: ReadonlyMap<number, ServicePortName>): ServiceRow[] {
  const frontends = new Map<number, ServiceRow['frontends'][number][]>()
  const read = (map: BpfMap, family: 'IPv4' | 'IPv6') => {
    for (const [keyView, value] of entriesOf(map)) {
      const { address, port } = decodeFrontendKey(keyView, 0, family)
      const { kind: number, service } = frontend.decode(value, 0)
      const kind = frontendKindName(number)
      if (!kind) continue
      const list = frontends.get(service) ?? []
      list.push({ kind, address, port })
      frontends.set(service, list)
    }
  }
  read(maps.handles.frontends4, 'IPv4')
  read(maps.handles.frontends6, 'IPv6')
  const ranges = rangesByService(maps)
  return [...names].map(([id, name]) => {
    const { cluster, local, sourceRanges, ...settings } = dumpService(maps, id)
    const stats = sumOverCpus(maps.handles.svcStats, id, serviceStats.size)
    return {
      ...name,
      id,
      ...settings,
      sourceRanges: sourceRanges && (ranges.get(id) ?? []),
      frontends: (frontends.get(id) ?? []).sort(byEndpoint),
      backends: new Set(cluster.members).size,
      localBackends: new Set(local.members).size,
      opened: stats(serviceStats.offsets.opened),
      refused: stats(serviceStats.offsets.refused),
    }
  })
}

function rangesByService(maps: KernelMaps): Map<number, Cidr[]> {
  const ranges = new Map<number, Cidr[]>()
  for (const { service, base, prefix } of dumpRanges(maps)) {
    const list = ranges.get(service) ?? []
    list.push(cidrOfMapped(base, prefix))
    ranges.set(service, list.sort())
  }
  return ranges
}

function backendRows(maps: KernelMaps, names: ReadonlyMap<number, ServicePortName>): BackendRow[] {
  const { backends, backendStats: statistics } = maps
  const position = new Map([...names.keys()].map((index, at) => [index, at]))
  const at = (service: number) => position.get(service) ?? position.size
  return dumpBackends(maps)
    .filter(each => each.service !== 0)
    .sort((a, b) => at(a.service) - at(b.service) || a.index - b.index)
    .map(({ index, address, port, flags, weight, service }) => {
      const { opened, udpLive, tcpLive } = backendStats.decode(statistics.view, statistics.offset(index))
      return {
        ...(names.get(service) ?? UNNAMED),
        id: index,
        address,
        backendPort: port,
        local: (flags & BackendFlag.LOCAL) !== 0,
        inCluster: (flags & BackendFlag.IN_CLUSTER) !== 0,
        inLocal: (flags & BackendFlag.IN_LOCAL) !== 0,
        generation: backends.view.getUint32(backends.offset(index) + backend.offsets.generation, true),
        opened: Number(opened),
        udpLive: Number(udpLive),
        tcpLive: Number(tcpLive),
        weight,
      }
    })
}

const stateNames: Readonly<Record<FlowState, FlowRow['state']>> = {
  [FlowState.OPENING]: 'opening',
  [FlowState.ESTABLISHED]: 'established',
  [FlowState.HALF_CLOSED]: 'half-closed',
  [FlowState.CLOSED]: 'closed',
}

function flowRows(maps: KernelMaps, names: ReadonlyMap<number, ServicePortName>, nowNs: bigint): FlowRow[] {
  return maps.flows.walk().map(({ key, to, sent, heard, flags, service, seenNs }) => ({
    ...(names.get(service) ?? { ...UNNAMED, protocol: protocolName(key.proto) ?? 'TCP' }),
    ...flowAddresses(key, to),
    state: stateNames[stateOf({ sent, heard })],
    local: (flags & FlowFlag.LOCAL_BACKEND) !== 0,
    idleSeconds: Math.max(0, Number((nowNs - seenNs) / 1_000_000n) / 1000),
  }))
}

function flowAddresses(key: Tuple, to: Tuple) {
  return {
    client: addressFromBytes(key.src),
    clientPort: key.sport,
    frontend: addressFromBytes(key.dst),
    frontendPort: key.dport,
    backend: addressFromBytes(to.dst),
    backendPort: to.dport,
    source: addressFromBytes(to.src),
    sourcePort: to.sport,
  }
}

/** Every pinned program, with the link or filter that runs it. */
function programRows(native: Native, pins: Pins): ProgramRow[] {
  const cgroupHooks = new Map(
    [...SOCK_HOOKS, SOCK_EGRESS_HOOK].map(({ program }) => [program, program.replace(/^sock_/, '')]),
  )
  const rows: ProgramRow[] = []
  for (const name of pins.list('links')) {
    const link = openLink(native, pins, name)
    if (!link) continue
    const { programId, ifindex, cgroupId } = link.info
    link.close()
    const tcx = /^tcx_(ingress|egress)_(\d+)$/.exec(name)
    const xdp = xdpIfindexOf(name)
    const device = tcx ? Number(tcx[2]) : xdp
    const xdpMode = xdp === undefined ? undefined : xdpModeOf(native, xdp)
    const wanted = tcx ? `waggle_${tcx[1]}` : xdpMode === undefined ? name : XDP_PROGRAMS[xdpMode]
    const program = pins.list('programs').find(each => each === wanted)
    rows.push({
      name: program ?? name,
      hook: tcx ? `tcx/${tcx[1]}` : xdpMode === undefined ? (cgroupHooks.get(name) ?? name) : `xdp/${xdpMode}`,
      target: device === undefined ? `cgroup ${cgroupId}` : `device ${device}`,
      id: programId,
      tag: program ? tagOf(native, pins, program) : '',
      attached: device === undefined ? cgroupId !== 0 : ifindex !== 0,
    })
  }
  return rows.sort((a, b) => (a.hook + a.target < b.hook + b.target ? -1 : 1))
}

function xdpModeOf(native: Native, ifindex: number): 'native' | 'generic' {
  return native.queryDevice(ifindex)?.xdpMode === XdpAttached.NATIVE ? 'native' : 'generic'
}

const XDP_MODES = new Map<number, DeviceRow['xdp']>([
  [DeviceXdp.NATIVE, 'native'],
  [DeviceXdp.GENERIC, 'generic'],
])

function deviceRows(native: Native, maps: KernelMaps, pins: Pins): DeviceRow[] {
  const links = new Set(pins.list('links'))
  const address = (bytes: Uint8Array): Address | undefined =>
    bytes.some(byte => byte !== 0) ? addressFromBytes(bytes) : undefined
  return [...entriesOf(maps.handles.devices)]
    .map(([key, value]): DeviceRow => {
      const ifindex = u32.decode(key, 0)
      const { addr4, addr6, xdp, takesFrames } = deviceLayout.decode(value, 0)
      const facts = native.queryDevice(ifindex)
      const clsact = () => facts && native.queryClsact(ifindex, 'ingress', CLSACT_PRIORITY, CLSACT_HANDLE)
      return {
        name: facts?.name ?? '',
        ifindex,
        tc: links.has(linkName('ingress', ifindex)) ? 'tcx' : clsact() ? 'clsact' : '',
        address4: address(addr4),
        address6: address(addr6),
        xdp: XDP_MODES.get(xdp) ?? '',
        xdpReason: xdpReason(xdp, takesFrames),
      }
    })
    .sort((a, b) => a.ifindex - b.ifindex)
}

function tagOf(native: Native, pins: Pins, name: string): string {
  const program = native.openProgram(pins.path('programs', name))
  const { tag } = program.info
  program.close()
  return tag
}

function outcomeRows(maps: KernelMaps): OutcomeRow[] {
  const rows: OutcomeRow[] = []
  for (let hook = 0; hook < Hook.COUNT; hook++) {
    for (let outcome = 0; outcome < Outcome.COUNT; outcome++) {
      const sum = sumOverCpus(maps.handles.outcomes, hook * Outcome.COUNT + outcome, outcomeStats.size)
      const packets = sum(outcomeStats.offsets.packets)
      if (packets === 0) continue
      rows.push({
        hook: hookNames[hook] ?? String(hook),
        outcome: outcomeNames[outcome] ?? String(outcome),
        packets,
        bytes: sum(outcomeStats.offsets.bytes),
      })
    }
  }
  return rows
}

function mapRows(maps: KernelMaps): MapRow[] {
  const { handles } = maps
  const row = (map: BpfMap): MapRow => ({
    name: map.info.name,
    entries: map.entries().count,
    maxEntries: map.info.maxEntries,
  })
  return [
    ...[handles.frontends4, handles.frontends6, handles.svcNames, handles.srcRanges].map(row),
    ...maps.flows.rows(),
    ...[handles.affinity, handles.udpPeers].map(row),
  ]
}

function flowCounts(maps: KernelMaps): FlowCounts {
  const sum = sumOverCpus(maps.handles.flowStats, 0, flowStats.size)
  return {
    evicted: sum(flowStats.offsets.evicted),
    sourcePortFlows: sum(flowStats.offsets.snatFlows),
    sourcePortTries: sum(flowStats.offsets.snatTries),
  }
}

/** Sums one u64 of a per-CPU element over the CPUs. */
function sumOverCpus(map: BpfMap, index: number, valueSize: number): (offset: number) => number {
  const key = new Uint8Array(u32.size)
  u32.encode(new DataView(key.buffer), 0, index)
  const value = map.lookup(key)
  if (!value) return () => 0
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength)
  const stride = Math.ceil(valueSize / 8) * 8
  return offset => {
    let sum = 0n
    for (let at = 0; at < view.byteLength; at += stride) sum += view.getBigUint64(at + offset, true)
    return Number(sum)
  }
}

function byName(a: ServicePortName, b: ServicePortName): number {
  const key = (row: ServicePortName) => `${row.namespace}/${row.service}:${row.port}/${row.protocol}`
  return key(a) === key(b) ? 0 : key(a) < key(b) ? -1 : 1
}

function byEndpoint(a: ServiceRow['frontends'][number], b: ServiceRow['frontends'][number]): number {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
  if (a.address !== b.address) return a.address < b.address ? -1 : 1
  return a.port - b.port
}
