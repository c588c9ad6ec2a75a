import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../src/base/errors.js'
import type { FlowTable, FlowTableKind } from '../../src/dataplane/ebpf/flow-table.js'
import { FlatFlowTable } from '../../src/dataplane/ebpf/flow-table-flat.js'
import { HashFlowTable } from '../../src/dataplane/ebpf/flow-table-hash.js'
import { sizesOf } from '../../src/dataplane/ebpf/kernel-maps.js'
import { fileOf, LOADS_IN_ORDER, type ObjectFile } from '../../src/dataplane/ebpf/loader.js'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import {
  type FlowStats,
  flowStats,
  Hook,
  hookNames,
  maps,
  Outcome,
  outcomeNames,
  outcomeStats,
  serviceStats,
} from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfMap, BpfObject, BpfProgram } from '../../src/ebpf/native.js'
import { DEVICE_MAC, ETH_LENGTH, macBytes } from './packet.js'
import { type DecodedPacket, decode } from './packet-decode.js'
import { TestServices } from './services.js'

/**
 * A node for packet journeys: a network namespace with the routes of a cluster node, and
 * the programs of tc.bpf.o, run on packets that the test makes (BPF_PROG_TEST_RUN). The
 * output of a step is the input of the next. A redirect is not carried out: the packet
 * is seen as it would leave, without its new MAC addresses.
 *
 * With {@link putXdpInFront} a packet that arrives goes through xdp.bpf.o first, on the same
 * maps, and then all neighbours are known. What XDP passes must be unchanged.
 *
 * | device | addresses                      | leads to                                       |
 * | ------ | ------------------------------ | ---------------------------------------------- |
 * | up0    | 192.168.0.1, 2001:db8:c0::1    | clients and all else, by a router (.254, ::fe) |
 * | up1    | 192.168.1.1, 2001:db8:c1::1    | pods 10.0.2.x, 2001:db8:a2::x of another node  |
 * | up2    | none                           | pods 10.0.3.x, 2001:db8:a3::x                  |
 * | up3    | 192.168.3.1, 2001:db8:c3::1    | pods 10.0.4.x, 2001:db8:a4::x; MTU 1280        |
 *
 * Pods 10.0.1.x and 2001:db8:a1::x are here; 10.0.9.x and 2001:db8:a9::x are unreachable.
 */
export const DEVICES = [
  { name: 'up0', v4: '192.168.0.1', v6: '2001:db8:c0::1', mtu: 9000 },
  { name: 'up1', v4: '192.168.1.1', v6: '2001:db8:c1::1', mtu: 9000 },
  { name: 'up2', v4: undefined, v6: undefined, mtu: 9000 },
  { name: 'up3', v4: '192.168.3.1', v6: '2001:db8:c3::1', mtu: 1280 },
] as const
export type DeviceName = (typeof DEVICES)[number]['name']

export const ROUTES = [
  'default via 192.168.0.254',
  'default via 2001:db8:c0::fe',
  '10.0.2.0/24 via 192.168.1.2',
  '2001:db8:a2::/64 via 2001:db8:c1::2',
  '10.0.3.0/24 dev up2',
  '2001:db8:a3::/64 dev up2',
  '10.0.4.0/24 via 192.168.3.2',
  '2001:db8:a4::/64 via 2001:db8:c3::2',
  'unreachable 10.0.9.0/24',
  'unreachable 2001:db8:a9::/64',
]

/** Offsets in struct __sk_buff (include/uapi/linux/bpf.h). */
const SKB_INGRESS_IFINDEX = 36
const SKB_IFINDEX = 40
const SKB_CB_4 = 64
const SKB_GSO_SIZE = 176
const SKB_SIZE = 192

/** Offsets in struct xdp_md. */
const XDP_DATA_END = 4
const XDP_IFINDEX = 12
const XDP_SIZE = 24

const XDP_ACT = new Map([
  [1, 'drop'],
  [2, 'next'],
  [3, 'redirect'],
  [4, 'redirect'],
] as const)

const TC_ACT = new Map([
  [0xffffffff, 'next'],
  [2, 'drop'],
  [7, 'redirect'],
] as const)

/** What became of a packet in one program. */
export interface Step {
  readonly verdict: 'next' | 'drop' | 'redirect'
  /** The program that had the last word. */
  readonly by: 'tc' | 'xdp'
  /** The label of its one counter that grew. */
  readonly outcome: string
  /** Bytes that were counted. */
  readonly counted: number
  readonly frame: Uint8Array
  /** As in `SkbFields`. */
  readonly sign: number
  /** The packet as it leaves; throws when it is not TCP or UDP. */
  readonly packet: DecodedPacket
}

/** What the kernel knows of a packet besides its bytes. */
export interface SkbFields {
  /** Bytes of payload in each segment of a packet that is several. */
  readonly gsoSize?: number
  /** By which device it came, if it is not the node's own. */
  readonly came?: DeviceName
  /** The last word of its control block: a packet that was redirected has one there. */
  readonly sign?: number
}

export interface TcNodeOptions {
  /** Slots of all lists together, a multiple of 16. Default 16384. */
  readonly slots?: number
  /** Most flows at a time, a power of two. Default 512. */
  readonly flows?: number
  /** Where flows are kept. Default: hash, as the product's. */
  readonly flowTable?: FlowTableKind
  /** First and last port of the one SNAT range, and of the one that is used last. Default: as the object has them. */
  readonly snatPorts?: readonly [number, number]
  readonly snatPortsLast?: readonly [number, number]
  /** Entries of single maps, by their names in the kernel. Default: 1024 at most. */
  readonly maxEntries?: Readonly<Record<string, number>>
  /** Constants of the programs by name, as bytes. */
  readonly constants?: Readonly<Record<string, Uint8Array>>
  /** Those of XDP alone. */
  readonly xdpConstants?: Readonly<Record<string, Uint8Array>>
}

/** What these tests need and this machine lacks, or undefined. */
export function missing(): string | undefined {
  return process.getuid?.() === 0 ? undefined : 'root (BPF programs, network namespaces)'
}

/** What a program is needed for, when this machine does not have it. */
export function missingProgram(name: string, why: string): string | undefined {
  const found = (process.env.PATH ?? '').split(':').some(folder => existsSync(join(folder, name)))
  return found ? undefined : `${name} (${why})`
}

const OBJECTS = join(import.meta.dirname, '../../build/bpf')

const NO_LIMITS = { services: 1, frontends: 1, backends: 1, slots: 16, flows: 1, sourceRanges: 1 }

let made = 0
let xdpInFront = false

/** All nodes made from now on in this test file have XDP before tc. */
export function putXdpInFront(): void {
  xdpInFront = true
}

/** Both flow tables, for tests of what flows do. */
export const FLOW_TABLES: readonly FlowTableKind[] = ['hash', 'flat']

export class TcNode {
  /** Where its flows are. */
  readonly flowTable: FlowTableKind
  readonly #netns = `waggle-tc-${process.pid}-${++made}`
  readonly #native = loadNative()
  readonly #ifindex = new Map<string, number>()
  readonly #object: BpfObject
  readonly #xdp: BpfObject | undefined
  readonly #programs = new Map<string, BpfProgram>()
  readonly #maps = new Map<string, BpfMap>()
  readonly #contexts = new Map<DeviceName, Uint8Array>()
  readonly services: TestServices

  constructor(options: TcNodeOptions = {}) {
    this.flowTable = options.flowTable ?? 'hash'
    this.#object = this.#open('tc.bpf.o')
    if (xdpInFront) this.#xdp = this.#open('xdp.bpf.o')
    try {
      this.#load(options)
      this.services = new TestServices(this.#object)
      this.#addNetns()
    } catch (error) {
      this.close()
      throw error
    }
  }

  close(): void {
    for (const handle of [...this.#maps.values(), ...this.#programs.values()]) handle.close()
    this.#object.close()
    this.#xdp?.close()
    const names = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' })
    if (names.split(/\s/).includes(this.#netns)) execFileSync('ip', ['netns', 'del', this.#netns])
  }

  /** Path of the node's network namespace. */
  get netns(): string {
    return `/run/netns/${this.#netns}`
  }

  /** Possible CPUs: round robin counts on each by itself. */
  get cpus(): number {
    return this.#native.possibleCpus()
  }

  /** A packet that arrives at an uplink. */
  ingress(frame: Uint8Array, device: DeviceName = 'up0', skb: SkbFields = {}): Step {
    const atXdp = this.#xdp && skb.gsoSize === undefined && frame.length >= ETH_LENGTH && this.xdp(frame, device)
    return atXdp && atXdp.verdict !== 'next' ? atXdp : this.tc(frame, device, skb)
  }

  /** The same at tc alone. */
  tc(frame: Uint8Array, device: DeviceName = 'up0', skb: SkbFields = {}): Step {
    return this.#step('waggle_ingress', Hook.TC_INGRESS, frame, device, skb)
  }

  /** The same at XDP alone. */
  xdp(frame: Uint8Array, device: DeviceName = 'up0'): Step {
    const step = this.#step('waggle_xdp', Hook.XDP, frame, device)
    if (step.verdict === 'next' && Buffer.compare(step.frame, frame) !== 0)
      throw new Error('XDP changed what it passes')
    return step
  }

  /** A packet that is about to leave by an uplink. */
  egress(frame: Uint8Array, device: DeviceName = 'up0', skb: SkbFields = {}): Step {
    return this.#step('waggle_egress', Hook.TC_EGRESS, frame, device, skb)
  }

  /** What a packet becomes at an uplink, uncounted: for floods. */
  passThrough(frame: Uint8Array, device: DeviceName = 'up0'): Pick<Step, 'verdict' | 'frame'> {
    const { retval, data } = this.#run('waggle_ingress', frame, device, 1)
    return { verdict: TC_ACT.get(retval as 2) ?? 'drop', frame: data }
  }

  /** Runs `fn` in the node's network namespace: entering it takes longer than a packet does. */
  inside<T>(fn: () => T): T {
    return this.#native.inNetns(this.netns, fn)
  }

  /** One packet, for who is {@link inside} and counts by itself. */
  bare(
    program: 'waggle_ingress' | 'waggle_egress',
    frame: Uint8Array,
    device: DeviceName,
  ): Pick<Step, 'verdict' | 'frame'> {
    const ctxIn = this.#contexts.get(device) ?? this.#context(device)
    this.#contexts.set(device, ctxIn)
    const { retval, data } = this.#program(program).testRun({ data: frame, ctxIn, repeat: 1 })
    const verdict = TC_ACT.get(retval as 2)
    if (verdict === undefined) throw new Error(`unexpected verdict ${retval}`)
    return { verdict, frame: data }
  }

  /** The programs' map of that name, or undefined. */
  map(name: string): BpfMap | undefined {
    if (this.#maps.has(name)) return this.#maps.get(name)
    return this.#object.mapNames().includes(name) ? this.#map(name) : undefined
  }

  /** Its flows as the agent reads them. */
  flows(): FlowTable {
    const names = ['flows', 'flowSlots', 'flatRecs4', 'flatRecs6'] as const
    const [flows, slots, records4, records6] = names.map(name => this.map(maps[name].name))
    if (flows && slots) return new HashFlowTable(flows, slots)
    return new FlatFlowTable(records4 as BpfMap, records6 as BpfMap, () => 0)
  }

  /** Mean nanoseconds of one run of a program on a packet, over `repeat` runs on the same bytes. */
  measure(program: 'waggle_ingress' | 'waggle_egress', frame: Uint8Array, repeat: number): number {
    return this.#run(program, frame, 'up0', repeat).duration
  }

  /** A program of another object file, on this node's maps. */
  beside(file: ObjectFile, program: string, constants: TcNodeOptions['constants'] = {}): BpfProgram {
    const object = this.#open(file)
    try {
      this.#shareMaps(object)
      for (const [name, bytes] of Object.entries(constants)) object.setConstant(name, bytes)
      object.load()
      const handle = object.program(program)
      this.#programs.set(program, handle)
      return handle
    } finally {
      object.close()
    }
  }

  /** Flows that a service opened and refused, summed over the CPUs. */
  serviceStats(service: number): { opened: number; refused: number } {
    const bytes = this.#map(maps.svcStats.name).lookup(toBytes(maps.svcStats.key, service)) ?? new Uint8Array()
    const sum = { opened: 0, refused: 0 }
    for (let offset = 0; offset < bytes.length; offset += serviceStats.size) {
      const stats = fromBytes(serviceStats, bytes, offset)
      sum.opened += Number(stats.opened)
      sum.refused += Number(stats.refused)
    }
    return sum
  }

  /** What the programs count about flows, summed over the CPUs. */
  flowStats(): { evicted: number; snatFlows: number; snatTries: number } {
    const bytes = this.#map(maps.flowStats.name).lookup(toBytes(maps.flowStats.key, 0)) ?? new Uint8Array()
    const cpus = Array.from({ length: bytes.length / flowStats.size }, (_, cpu) =>
      fromBytes(flowStats, bytes, cpu * flowStats.size),
    )
    const sum = (field: keyof FlowStats) => Number(cpus.reduce((total, cpu) => total + cpu[field], 0n))
    return { evicted: sum('evicted'), snatFlows: sum('snatFlows'), snatTries: sum('snatTries') }
  }

  #open(file: ObjectFile): BpfObject {
    return this.#native.openObject(join(OBJECTS, fileOf(file, this.flowTable)))
  }

  #load(options: TcNodeOptions): void {
    const object = this.#object
    for (const layout of Object.values(maps)) {
      if (object.mapNames().includes(layout.name) && layout.maxEntries > 1024) object.setMaxEntries(layout.name, 1024)
    }
    object.setMaxEntries(maps.slots.name, (options.slots ?? 16384) / 16)
    const flows = options.flows ?? 512
    const { flows: halves, flowSlots, flatIndex, flatRecs4, flatRecs6 } = sizesOf({ ...NO_LIMITS, flows })
    const sizes = { flows: halves, flowSlots, flatIndex, flatRecs4, flatRecs6 }
    for (const [name, size] of Object.entries(sizes)) {
      const map = maps[name as keyof typeof sizes].name
      if (size && object.mapNames().includes(map)) object.setMaxEntries(map, size)
    }
    for (const [name, entries] of Object.entries(options.maxEntries ?? {})) object.setMaxEntries(name, entries)
    for (const [name, bytes] of Object.entries({ ...snatConstants(options), ...options.constants })) {
      object.setConstant(name, bytes)
    }
    this.#setOrder(object)
    object.load()
    this.map(maps.flatSecret.name)?.update(new Uint8Array(4), randomBytes(maps.flatSecret.value.size))
    // There are no flows yet, so what the filter has of them is whole.
    new DataView(this.#map(maps.filter.name).mmap()).setBigUint64(maps.filter.value.offsets.current, 1n, true)
    if (this.#xdp) this.#loadXdp(this.#xdp, options)
  }

  #setOrder(object: BpfObject): void {
    if (this.flowTable === 'flat') object.setConstant('cfg_loads_in_order', Uint8Array.of(Number(LOADS_IN_ORDER)))
  }

  #shareMaps(object: BpfObject): void {
    for (const { name } of Object.values(maps)) {
      if (!object.mapNames().includes(name)) continue
      const map = this.#map(name)
      // Socket storage has no size.
      if (map.info.maxEntries > 0) object.setMaxEntries(name, map.info.maxEntries)
      object.reuseMap(name, map)
    }
  }

  /** Onto the maps of tc, with the constants that both have. */
  #loadXdp(xdp: BpfObject, options: TcNodeOptions): void {
    this.#shareMaps(xdp)
    for (const [name, bytes] of Object.entries({ ...snatConstants(options), ...options.constants })) {
      try {
        xdp.setConstant(name, bytes)
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
      }
    }
    for (const [name, bytes] of Object.entries(options.xdpConstants ?? {})) xdp.setConstant(name, bytes)
    this.#setOrder(xdp)
    xdp.load()
  }

  #addNetns(): void {
    execFileSync('ip', ['netns', 'add', this.#netns])
    const links = DEVICES.flatMap(({ name, v4, v6, mtu }) => [
      `link add ${name} mtu ${mtu} address ${DEVICE_MAC} type veth peer name ${name}-far`,
      `link set ${name}-far up`,
      `link set ${name} up`,
      ...(v4 ? [`addr add ${v4}/24 dev ${name}`, `addr add ${v6}/64 dev ${name} nodad`] : []),
    ])
    const routes = ROUTES.map(route => `route add ${route}`)
    // One neighbour is known, the others are not: a redirect finds them out.
    const neighbours = ['neigh add 192.168.1.2 lladdr 02:00:00:00:00:02 dev up1']
    if (this.#xdp) {
      neighbours.push(
        'neigh add 192.168.0.254 lladdr 02:00:00:00:00:fe dev up0',
        'neigh add 2001:db8:c0::fe lladdr 02:00:00:00:00:fe dev up0',
        'neigh add 2001:db8:c1::2 lladdr 02:00:00:00:00:02 dev up1',
      )
    }
    execFileSync('ip', ['-n', this.#netns, '-batch', '-'], {
      input: ['link set lo up', ...links, ...routes, ...neighbours].join('\n'),
    })
    const forwarding = ['net.ipv4.conf.all.forwarding=1', 'net.ipv6.conf.all.forwarding=1']
    execFileSync('nsenter', [`--net=${this.netns}`, 'sysctl', '-q', '-w', ...forwarding])
    for (const { name, v4, v6 } of DEVICES) {
      const ifindex = this.#native.inNetns(this.netns, () => this.#native.ifNameToIndex(name))
      this.#ifindex.set(name, ifindex)
      if (v4 || this.#xdp) this.services.setDevice(ifindex, v4, v6, macBytes(DEVICE_MAC))
    }
  }

  #program(name: string): BpfProgram {
    const object = name === 'waggle_xdp' && this.#xdp ? this.#xdp : this.#object
    const known = this.#programs.get(name) ?? object.program(name)
    this.#programs.set(name, known)
    return known
  }

  /** One handle of each: thousands of steps would run out of file descriptors. */
  #map(name: string): BpfMap {
    const known = this.#maps.get(name) ?? this.#object.map(name)
    this.#maps.set(name, known)
    return known
  }

  #run(
    program: string,
    frame: Uint8Array,
    device: string,
    repeat: number,
    skb: SkbFields = {},
  ): ReturnType<BpfProgram['testRun']> {
    const ctxIn = program === 'waggle_xdp' ? this.#xdpContext(device, frame.length) : this.#context(device, skb)
    return this.inside(() => this.#program(program).testRun({ data: frame, ctxIn, repeat }))
  }

  #context(device: string, { gsoSize = 0, came, sign = 0 }: SkbFields = {}): Uint8Array {
    const context = new Uint8Array(SKB_SIZE)
    const view = new DataView(context.buffer)
    view.setUint32(SKB_IFINDEX, this.#ifindex.get(device) ?? 0, true)
    view.setUint32(SKB_GSO_SIZE, gsoSize, true)
    view.setUint32(SKB_INGRESS_IFINDEX, came ? (this.#ifindex.get(came) ?? 0) : 0, true)
    view.setUint32(SKB_CB_4, sign, true)
    return context
  }

  #xdpContext(device: string, size: number): Uint8Array {
    const context = new Uint8Array(XDP_SIZE)
    const view = new DataView(context.buffer)
    view.setUint32(XDP_DATA_END, size, true)
    view.setUint32(XDP_IFINDEX, this.#ifindex.get(device) ?? 0, true)
    return context
  }

  #step(program: string, hook: number, frame: Uint8Array, device: string, skb: SkbFields = {}): Step {
    const before = this.#counters()
    const { retval, data, ctx } = this.#run(program, frame, device, 1, skb)
    const grown = this.#counters().flatMap(({ packets, bytes }, i) => {
      const more = packets - (before[i]?.packets ?? 0n)
      return more === 0n ? [] : [{ i, packets: more, bytes: bytes - (before[i]?.bytes ?? 0n) }]
    })
    const [exit] = grown
    if (grown.length !== 1 || exit === undefined || exit.packets !== 1n) {
      throw new Error(`${grown.length} counters grew for one packet`)
    }
    if (Math.floor(exit.i / Outcome.COUNT) !== hook) throw new Error(`not counted as ${hookNames[hook]}`)
    const by = hook === Hook.XDP ? 'xdp' : 'tc'
    const verdict = (by === 'xdp' ? XDP_ACT : TC_ACT).get(retval as 2)
    if (verdict === undefined) throw new Error(`unexpected verdict ${retval}`)
    return {
      verdict,
      by,
      outcome: outcomeNames[exit.i % Outcome.COUNT] ?? String(exit.i),
      counted: Number(exit.bytes),
      frame: data,
      sign: by === 'xdp' ? 0 : new DataView(ctx.buffer, ctx.byteOffset, ctx.byteLength).getUint32(SKB_CB_4, true),
      get packet() {
        return decode(data)
      },
    }
  }

  /** All counters, summed over the CPUs. */
  #counters(): { packets: bigint; bytes: bigint }[] {
    const { keys, values, count } = this.#map(maps.outcomes.name).entries()
    const stride = values.length / count
    const sums: { packets: bigint; bytes: bigint }[] = []
    for (let i = 0; i < count; i++) {
      const sum = { packets: 0n, bytes: 0n }
      for (let offset = 0; offset < stride; offset += outcomeStats.size) {
        const cpu = fromBytes(outcomeStats, values, i * stride + offset)
        sum.packets += cpu.packets
        sum.bytes += cpu.bytes
      }
      sums[fromBytes(maps.outcomes.key, keys, i * maps.outcomes.key.size)] = sum
    }
    return sums
  }
}

/** One range of source ports and one that is used last, the other empty. */
function snatConstants({ snatPorts: low, snatPortsLast: last = [1, 0] }: TcNodeOptions): Record<string, Uint8Array> {
  if (!low) return {}
  const ports = {
    cfg_snat_low_min: low[0],
    cfg_snat_low_max: low[1],
    cfg_snat_high_min: 1,
    cfg_snat_high_max: 0,
    cfg_snat_last_min: last[0],
    cfg_snat_last_max: last[1],
  }
  return Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, Uint8Array.of(port & 0xff, port >> 8)]))
}
