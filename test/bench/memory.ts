import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { FLOW_MAPS } from '../../src/dataplane/ebpf/kernel-maps.js'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { applyAll, DEFAULT_LIMITS, startDataplane } from './dataplane.js'
import { desiredState } from './generate.js'
import type { Results, Row, Skip } from './result.js'
import { findTool, World } from './world.js'

const BENCH = 'memory'
const SERVICES = 10_000
const ENDPOINTS = 10
/** All that is there for each flow of one family, by its table. */
const MAPS_OF_A_FLOW = {
  hash: { IPv4: ['flows', 'flowSlots'], IPv6: ['flows', 'flowSlots'] },
  // The index is for both families.
  flat: { IPv4: ['flatRecs4'], IPv6: ['flatRecs6'] },
} as const

/** What the maps take from the kernel at their default sizes, empty and full, and a flow. */
export async function memory(progress: (line: string) => void): Promise<Results> {
  const bpftool = findTool('bpftool')
  if (bpftool === undefined) {
    return { rows: [], skips: [{ bench: BENCH, what: 'everything', why: 'bpftool is not installed' }] }
  }
  const world = new World(BENCH)
  try {
    progress('maps at their default sizes')
    const place = { bpffs: world.bpffs(), cgroup: world.cgroup('unused') }
    const dataplane = await startDataplane(world, place, DEFAULT_LIMITS)
    const pins = join(place.bpffs, 'waggle/maps')
    const empty = sizes(bpftool, pins)
    await applyAll(dataplane, manyServices())
    const full = sizes(bpftool, pins)
    const flowBytes = (family: 'IPv4' | 'IPv6') => bytesOfFlow(full, family)
    const { rows, skips } = conntrack()
    return {
      rows: [
        ...[...full].sort((a, b) => b[1] - a[1]).map(([name, bytes]) => exact(name, bytes / 1024, 'KiB', SERVICES)),
        exact('all maps, empty', total(empty) / 1024, 'KiB', 0),
        exact('all maps', total(full) / 1024, 'KiB', SERVICES),
        exact('all maps but flows, affinity and udp_peers', withoutState(full) / 1024, 'KiB', SERVICES),
        exact('a flow', flowBytes('IPv4'), 'B'),
        exact('a flow, IPv6', flowBytes('IPv6'), 'B'),
        exact('flows in 64 MiB', Math.floor((64 << 20) / flowBytes('IPv4')), ''),
        exact('a connected socket: its place', maps.sockPlaces.value.size, 'B'),
        ...rows,
      ],
      skips,
    }
  } finally {
    world.close()
  }
}

/** Of the table that the maps are of; in the flat one half of the index is each family's. */
function bytesOfFlow(bytes: ReadonlyMap<string, number>, family: 'IPv4' | 'IPv6'): number {
  const kind = bytes.has(maps.flows.name) ? 'hash' : 'flat'
  const index = kind === 'flat' ? (bytes.get(maps.flatIndex.name) ?? 0) / 2 : 0
  const own = MAPS_OF_A_FLOW[kind][family].reduce((sum, name) => sum + (bytes.get(maps[name].name) ?? 0), index)
  return own / DEFAULT_LIMITS.flows
}

function exact(what: string, value: number, unit: string, n?: number): Row {
  const value3 = { median: value, min: value, max: value }
  return { bench: BENCH, what, unit, value: value3, rounds: 1, ...(n === undefined ? {} : { n }) }
}

/** Bytes of each map as the kernel counts them (bpf_map_mem_usage). */
function sizes(bpftool: string, pins: string): Map<string, number> {
  return new Map(
    Object.values(maps).flatMap(({ name }) => {
      if (!existsSync(join(pins, name))) return []
      const text = execFileSync(bpftool, ['-j', 'map', 'show', 'pinned', join(pins, name)], { encoding: 'utf8' })
      return [[name, Number(JSON.parse(text).bytes_memlock)] as const]
    }),
  )
}

function total(bytes: ReadonlyMap<string, number>): number {
  return [...bytes.values()].reduce((sum, each) => sum + each, 0)
}

/** What the size of the cluster decides, not the traffic. */
function withoutState(bytes: ReadonlyMap<string, number>): number {
  const flows = Object.values(FLOW_MAPS).flatMap(names => names.map(name => maps[name]))
  const state = [...flows, maps.affinity, maps.udpPeers].map(({ name }) => bytes.get(name) ?? 0)
  return state.reduce((sum, each) => sum - each, total(bytes))
}

/** The kernel's own connection tracking, for comparison: one object a connection, without its hash table. */
function conntrack(): { rows: Row[]; skips: Skip[] } {
  const skip = (why: string) => ({ rows: [], skips: [{ bench: BENCH, what: 'a conntrack entry', why }] })
  try {
    const line = readFileSync('/proc/slabinfo', 'utf8')
      .split('\n')
      .find(each => each.startsWith('nf_conntrack '))
    const size = Number(line?.split(/\s+/)[3])
    if (line === undefined) return skip('conntrack has no slab cache of its own here, or is not in use')
    return { rows: [exact('a conntrack entry (slab object)', size, 'B')], skips: [] }
  } catch {
    return skip('/proc/slabinfo cannot be read')
  }
}

function manyServices() {
  const text = (a: number, low: number) => `${a}.${low >> 16}.${(low >> 8) & 255}.${low & 255}`
  const ports = Array.from({ length: SERVICES }, (_, i) => ({
    name: `svc-${i}`,
    family: 'IPv4' as const,
    protocol: 'TCP' as const,
    frontends: [{ kind: 'ClusterIP' as const, address: text(172, i + 1), port: 80 }],
    backends: Array.from({ length: ENDPOINTS }, (_, k) => ({ address: text(10, i * ENDPOINTS + k + 1), port: 8080 })),
  }))
  return desiredState(1, ports)
}
