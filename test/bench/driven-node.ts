import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { EbpfDataplane } from '../../src/dataplane/ebpf/ebpf-dataplane.js'
import type { Limits } from '../../src/dataplane/ebpf/kernel-maps.js'
import { Pins } from '../../src/dataplane/ebpf/pins.js'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import { type Hook, maps, Outcome, outcomeStats } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfMap, BpfObject, BpfProgram } from '../../src/ebpf/native.js'
import { type Address, parseAddress } from '../../src/model/address.js'
import { DEVICE_MAC } from '../bpf/packet.js'
import { applyAll, startDataplane } from './dataplane.js'
import { desiredState, type PortSpec } from './generate.js'
import { FAMILIES, type Family } from './paths.js'
import { findTool, type World } from './world.js'

/** Bytes of every frame that the driver hands on, and which of them it writes (driver.bpf.c). */
export const FRAME_SIZE = 80
export const FRAME_OFFSET = 6
const FRAME_BYTES = 72
export const MAX_FRAMES = 65_536

const SKB_IFINDEX = 40
const SKB_SIZE = 192

/** Programs that the driver can run: their index is their place in drive_targets. */
const TARGETS = ['empty', 'waggle_ingress', 'waggle_egress'] as const
export type Target = (typeof TARGETS)[number]

export const NODE = {
  IPv4: { up: '192.168.0.1', next: '192.168.0.2' },
  IPv6: { up: '2001:db8:c0::1', next: '2001:db8:c0::2' },
} as const

/** Frames in the form that the driver takes. */
export interface Frames {
  readonly count: number
  readonly bytes: Uint8Array
  /** One of them, whole. */
  readonly first: Uint8Array
}

/** Packs frames; those that are shorter than {@link FRAME_SIZE} are padded, longer ones cut. */
export function packFrames(frames: readonly Uint8Array[]): Frames {
  const [first] = frames
  if (first === undefined || frames.length > MAX_FRAMES) throw new RangeError(`${frames.length} frames`)
  const bytes = new Uint8Array(frames.length * FRAME_BYTES)
  for (const [i, frame] of frames.entries()) {
    bytes.set(frame.subarray(FRAME_OFFSET, FRAME_OFFSET + FRAME_BYTES), i * FRAME_BYTES)
  }
  return { count: frames.length, bytes, first: padded(first) }
}

function padded(frame: Uint8Array): Uint8Array {
  const out = new Uint8Array(FRAME_SIZE)
  out.set(frame.subarray(0, FRAME_SIZE))
  return out
}

/** A node with one device and the product's programs and maps, on which programs are run frame by frame. */
export class DrivenNode {
  readonly #netns: string
  readonly #ifindex: number
  readonly #dataplane: EbpfDataplane
  readonly #object: BpfObject
  readonly #programs = new Map<string, BpfProgram>()
  readonly #pins: Pins
  readonly #frames: Uint8Array
  readonly #state: BpfMap
  #loaded: Frames | undefined

  private constructor(world: World, netns: string, bpffs: string, dataplane: EbpfDataplane) {
    const native = loadNative()
    this.#netns = netns
    this.#dataplane = dataplane
    this.#pins = new Pins(join(bpffs, 'waggle'))
    this.#ifindex = native.inNetns(netns, () => native.ifNameToIndex('up0'))
    const device = {
      name: 'up0',
      ifindex: this.#ifindex,
      address4: address(NODE.IPv4.up),
      address6: address(NODE.IPv6.up),
    }
    native.inNetns(netns, () => dataplane.setDevices([device]))
    this.#object = native.openObject(world.compile('driver.bpf.c'))
    this.#object.load()
    this.#frames = new Uint8Array(this.#object.map('drive_frames').mmap())
    this.#state = this.#object.map('drive_state')
    this.#programs.set('drive', this.#object.program('drive'))
    this.#setTargets(bpffs)
  }

  /** Throws where bpftool is missing: only it can fill a map of programs. */
  static async create(world: World, limits: Limits): Promise<DrivenNode> {
    const netns = world.netns('node')
    world.sysctl('node', 'net.ipv4.conf.all.forwarding=1', 'net.ipv6.conf.all.forwarding=1')
    world.ip('node', [
      `link add up0 address ${DEVICE_MAC} type veth peer name far0`,
      'link set far0 up',
      'link set up0 up',
      ...FAMILIES.flatMap(family => [
        `addr add ${NODE[family].up}/${family === 'IPv4' ? 24 : 64} dev up0${family === 'IPv6' ? ' nodad' : ''}`,
        `neigh add ${NODE[family].next} lladdr 02:00:00:00:00:02 dev up0`,
        `route add default via ${NODE[family].next}`,
      ]),
    ])
    const place = { bpffs: world.bpffs(), cgroup: world.cgroup('unused') }
    const dataplane = await startDataplane(world, place, limits)
    return new DrivenNode(world, netns, place.bpffs, dataplane)
  }

  #setTargets(bpffs: string): void {
    const bpftool = findTool('bpftool')
    if (bpftool === undefined) throw new Error('bpftool is not installed')
    const pin = (name: string) => join(bpffs, name)
    const empty = this.#object.program('empty')
    empty.pin(pin('empty'))
    const targets = this.#object.map('drive_targets')
    targets.pin(pin('targets'))
    for (const [i, target] of TARGETS.entries()) {
      const program = target === 'empty' ? pin('empty') : this.#pins.path('programs', target)
      const key = ['key', String(i), '0', '0', '0']
      execFileSync(bpftool, ['map', 'update', 'pinned', pin('targets'), ...key, 'value', 'pinned', program])
    }
  }

  apply(revision: number, ports: readonly PortSpec[]): Promise<number> {
    return applyAll(this.#dataplane, desiredState(revision, ports))
  }

  /** Mean nanoseconds of `runs` runs of a program, each on the next of the frames; the driver's part included. */
  run(target: Target, frames: Frames, runs: number): number {
    if (this.#loaded !== frames) this.#frames.set(frames.bytes)
    this.#loaded = frames
    this.#state.update(
      new Uint8Array(4),
      new Uint8Array(Uint32Array.of(0, frames.count, TARGETS.indexOf(target), 0).buffer),
    )
    return this.#test(this.#program('drive'), frames.first, runs).duration
  }

  /** What a program makes of each frame, which stays as long as it is. */
  each(target: Target, frames: readonly Uint8Array[]): Uint8Array[] {
    const program = this.#program(target)
    const native = loadNative()
    return native.inNetns(this.#netns, () =>
      frames.map(data => program.testRun({ data, ctxIn: this.#context(), repeat: 1 }).data),
    )
  }

  /** Packets that were counted under an outcome so far. */
  counted(hook: Hook, outcome: Outcome): number {
    const bytes = this.#map(maps.outcomes.name).lookup(toBytes(maps.outcomes.key, hook * Outcome.COUNT + outcome))
    return sumCpus(bytes, outcomeStats.size, at => fromBytes(outcomeStats, bytes as Uint8Array, at).packets)
  }

  /** New flows that each backend got so far, by its index. */
  opened(): Float64Array {
    const memory = new BigUint64Array(this.#map(maps.beStats.name).mmap())
    const words = maps.beStats.value.size / 8
    return Float64Array.from({ length: memory.length / words }, (_, i) => Number(memory[i * words]))
  }

  readonly #maps = new Map<string, BpfMap>()

  #map(name: string): BpfMap {
    const known = this.#maps.get(name) ?? loadNative().openMap(this.#pins.path('maps', name))
    this.#maps.set(name, known)
    return known
  }

  #program(name: string): BpfProgram {
    const known = this.#programs.get(name) ?? loadNative().openProgram(this.#pins.path('programs', name))
    this.#programs.set(name, known)
    return known
  }

  #test(program: BpfProgram, data: Uint8Array, repeat: number) {
    return loadNative().inNetns(this.#netns, () => program.testRun({ data, ctxIn: this.#context(), repeat }))
  }

  /** A struct __sk_buff: the packet came by the node's device. */
  #context(): Uint8Array {
    const ctxIn = new Uint8Array(SKB_SIZE)
    new DataView(ctxIn.buffer).setUint32(SKB_IFINDEX, this.#ifindex, true)
    return ctxIn
  }
}

function sumCpus(bytes: Uint8Array | undefined, size: number, read: (at: number) => bigint): number {
  const cpus = (bytes?.length ?? 0) / size
  return Array.from({ length: cpus }, (_, cpu) => Number(read(cpu * size))).reduce((sum, each) => sum + each, 0)
}

function address(text: string): Address {
  const parsed = parseAddress(text)
  if (parsed === undefined) throw new TypeError(`not an address: ${text}`)
  return parsed
}

/** `198.51.100.1:80` or `[2001:db8::1]:80`. */
export function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** The `i`-th address of a network, counted from 0: `10.64` (16 bits follow), `10` (24 bits), `2001:db8:1::`. */
export function addressIn(
  family: Family,
  network: { readonly IPv4: string; readonly IPv6: string },
  i: number,
): string {
  const low = i + 1
  if (family === 'IPv6') return `${network.IPv6}${(low >> 16).toString(16)}:${(low & 0xffff).toString(16)}`
  const bytes = network.IPv4.includes('.') ? [low >> 8, low & 255] : [low >> 16, (low >> 8) & 255, low & 255]
  return `${network.IPv4}.${bytes.join('.')}`
}
