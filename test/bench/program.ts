import { join } from 'node:path'
import { HALVES_PER_FLOW } from '../../src/dataplane/ebpf/kernel-maps.js'
import { Pins } from '../../src/dataplane/ebpf/pins.js'
import { toBytes } from '../../src/ebpf/codec.js'
import { FlowDirection, FlowFlag, FlowSent, maps, type Tuple } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfMap, BpfProgram } from '../../src/ebpf/native.js'
import { type Address, addressToBytes, parseAddress } from '../../src/model/address.js'
import { DEVICE_MAC, ETH_LENGTH, otherProtocol, PROTO_TCP, tcp, udp } from '../bpf/packet.js'
import { applyAll, DEFAULT_LIMITS, startDataplane } from './dataplane.js'
import { desiredState, type PortSpec } from './generate.js'
import { FAMILIES, type Family } from './paths.js'
import { plainRow, type Results, type Row } from './result.js'
import { ratios, spread } from './stats.js'
import { World } from './world.js'

/**
 * BPF_PROG_TEST_RUN runs a program again and again on one packet, which is then what the
 * last run made of it. So flows are laid out in a ring: each one's translation is the next
 * one's packet, and every run meets another flow, its keys in random order.
 */
const BENCH = 'program'
const ROUNDS = 21
const RUNS = 20_000
/** Fewest runs of a measurement that follows flows. */
const SHORT_RUNS = 5_000
/** A forwarded packet loses one from its TTL each run. */
const TTL_RUNS = 251
const FLOWS = [1_024, 65_536] as const
/** New flows of a round: one for each Service of a ring. */
const RING = 200
const TC_ACT_REDIRECT = 7
const SKB_IFINDEX = 40
const SKB_SIZE = 192
const EMPTY = 'empty program'

const NODE = {
  IPv4: { client: '203.0.113.7', other: '198.51.100.1', pod: '10.0.2.', up: '192.168.0.1', next: '192.168.0.2' },
  IPv6: {
    client: '2001:db8:f::7',
    other: '2001:db8:e::1',
    pod: '2001:db8:a2::',
    up: '2001:db8:c0::1',
    next: '2001:db8:c0::2',
  },
} as const

/** What a run of the ingress program costs, less what an empty program costs. */
export async function program(progress: (line: string) => void): Promise<Results> {
  const world = new World(BENCH)
  try {
    return { rows: (await ProgramBench.create(world)).run(progress), skips: [] }
  } finally {
    world.close()
  }
}

type Measure = () => number

/** Services whose backend is the next one's frontend: each run of the program opens another flow. */
const RINGS = [
  { protocol: 'TCP', local: true, port: 1_000 },
  { protocol: 'UDP', local: true, port: 2_000 },
  { protocol: 'TCP', local: false, port: 3_000 },
  { protocol: 'UDP', local: false, port: 4_000 },
] as const

function ringAddress(family: Family, i: number): string {
  return `${NODE[family].pod}${(i % RING) + 1}`
}

function ringPorts(family: Family, { protocol, local, port }: (typeof RINGS)[number]): PortSpec[] {
  return Array.from({ length: RING }, (_, i) => ({
    name: `ring-${port + i}`,
    family,
    protocol,
    frontends: [{ kind: 'ExternalIP', address: ringAddress(family, i), port }],
    backends: [{ address: ringAddress(family, i + 1), port, local }],
  }))
}

class ProgramBench {
  readonly #netns: string
  readonly #ifindex: number
  readonly #ingress: BpfProgram
  readonly #empty: BpfProgram
  readonly #flows: BpfMap

  private constructor(netns: string, ifindex: number, ingress: BpfProgram, empty: BpfProgram, flows: BpfMap) {
    this.#netns = netns
    this.#ifindex = ifindex
    this.#ingress = ingress
    this.#empty = empty
    this.#flows = flows
  }

  /** A node with one device, the product's programs and maps on it, and the Services of the rings. */
  static async create(world: World): Promise<ProgramBench> {
    const native = loadNative()
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
    const dataplane = await startDataplane(world, place, DEFAULT_LIMITS)
    const ifindex = native.inNetns(netns, () => native.ifNameToIndex('up0'))
    const device = { name: 'up0', ifindex, address4: addressOf(NODE.IPv4.up), address6: addressOf(NODE.IPv6.up) }
    native.inNetns(netns, () => dataplane.setDevices([device]))
    await applyAll(
      dataplane,
      desiredState(
        1,
        FAMILIES.flatMap(family => RINGS.flatMap(ring => ringPorts(family, ring))),
      ),
    )
    const object = native.openObject(world.compile('empty.bpf.c'))
    object.load()
    const pins = new Pins(join(place.bpffs, 'waggle'))
    return new ProgramBench(
      netns,
      ifindex,
      native.openProgram(pins.path('programs', 'waggle_ingress')),
      object.program('empty'),
      native.openMap(pins.path('maps', maps.flows.name)),
    )
  }

  run(progress: (line: string) => void): Row[] {
    const rows: Row[] = []
    for (const family of FAMILIES) {
      progress(`${family}: ${ROUNDS} rounds of what passes`)
      rows.push(...this.#rows(family, undefined, this.#passing(family)))
      for (const flows of FLOWS) {
        progress(`${family}: ${ROUNDS} rounds with ${flows} flows`)
        rows.push(...this.#rows(family, flows, this.#known(family, flows)))
      }
      progress(`${family}: ${ROUNDS} rounds of new flows`)
      rows.push(...this.#rows(family, undefined, this.#fresh(family)))
    }
    return rows
  }

  /** Interleaves the measurements with the empty program's; both in each round. */
  #rows(family: Family, n: number | undefined, measures: ReadonlyMap<string, Measure>): Row[] {
    const floor: number[] = []
    const values = new Map<string, number[]>([...measures.keys()].map(what => [what, []]))
    const frame = udp(endpoint(NODE[family].client, 1), endpoint(NODE[family].other, 1))
    for (let round = -1; round < ROUNDS; round++) {
      const empty = this.#test(this.#empty, frame, RUNS).duration
      if (round >= 0) floor.push(empty)
      for (const [what, measure] of measures) {
        const took = measure()
        if (round >= 0) values.get(what)?.push(took)
      }
    }
    this.#clear()
    const heading = { bench: BENCH, family, unit: 'ns', ...(n === undefined ? {} : { n }) }
    return [
      plainRow(heading, EMPTY, floor),
      ...[...values].map(
        ([what, list]): Row => ({
          ...heading,
          what,
          value: spread(list.map((value, round) => value - (floor[round] as number))),
          rounds: ROUNDS,
          ratio: { to: EMPTY, ...ratios(list, floor) },
          note: `less the ${EMPTY}`,
        }),
      ),
    ]
  }

  /** Packets that go on as they came: the program sees the same bytes each time. */
  #passing(family: Family): Map<string, Measure> {
    const { client, other } = NODE[family]
    const from = endpoint(client, 40_000)
    const to = endpoint(other, 80)
    const frames = {
      'not TCP or UDP (ICMP)': otherProtocol(from, to, family === 'IPv4' ? 1 : 58),
      'no Service: TCP segment': tcp(from, to, 'A'),
      'no Service: TCP SYN': tcp(from, to, 'S'),
      'no Service: datagram': udp(from, to),
    }
    return new Map(
      Object.entries(frames).map(([what, frame]) => [what, () => this.#test(this.#ingress, frame, RUNS).duration]),
    )
  }

  /** Segments of `count` established flows in random order. */
  #known(family: Family, count: number): Map<string, Measure> {
    const kinds = {
      'known flow, backend here': { direction: FlowDirection.FORWARD, flags: FlowFlag.LOCAL_BACKEND },
      'known flow, backend elsewhere': { direction: FlowDirection.FORWARD, flags: FlowFlag.SNAT },
      'known flow, reply': { direction: FlowDirection.REPLY, flags: FlowFlag.SNAT },
    }
    return new Map(
      Object.entries(kinds).map(([what, { direction, flags }]): [string, Measure] => {
        const ring = flowRing(family, count, direction, flags)
        return [
          what,
          () => {
            // One kind at a time: they have the same keys.
            this.#flows.updateBatch(ring.keys, ring.values)
            return this.#chain(ring.frame, Math.max(count, SHORT_RUNS), flags !== FlowFlag.LOCAL_BACKEND)
          },
        ]
      }),
    )
  }

  /** First packets of flows nobody knows, each for another Service. */
  #fresh(family: Family): Map<string, Measure> {
    let port = 40_000
    return new Map(
      RINGS.map((ring): [string, Measure] => [
        `new flow, backend ${ring.local ? 'here' : 'elsewhere'}, ${ring.protocol}`,
        () => {
          this.#clear()
          const from = endpoint(NODE[family].client, port++)
          const to = endpoint(ringAddress(family, 0), ring.port)
          const frame = ring.protocol === 'TCP' ? tcp(from, to, 'S', { ttl: 255 }) : udp(from, to, { ttl: 255 })
          const { duration } = this.#test(this.#ingress, frame, RING - 1)
          const made = this.#clear() / HALVES_PER_FLOW
          if (made !== RING - 1) throw new Error(`${RING - 1} runs opened ${made} flows`)
          return duration
        },
      ]),
    )
  }

  /** Empties the flow table; returns how many entries it had. */
  #clear(): number {
    const { keys, count } = this.#flows.entries()
    this.#flows.deleteBatch(keys)
    return count
  }

  /** Mean ns of a run over `runs`, each with what the one before made of the packet. */
  #chain(frame: Uint8Array, runs: number, loseTtl: boolean): number {
    if (!loseTtl) return this.#translated(frame, runs).duration
    let now = frame
    let total = 0
    const calls = Math.ceil(runs / TTL_RUNS)
    for (let call = 0; call < calls; call++) {
      const { data, duration, retval } = this.#translated(now, TTL_RUNS)
      if (retval !== TC_ACT_REDIRECT) throw new Error(`verdict ${retval} instead of a redirect`)
      total += duration
      data[ttlOffset(data)] = 255
      now = data
    }
    return total / calls
  }

  /** A measurement of known flows counts only if the last run still found one: each changes the packet's ports. */
  #translated(frame: Uint8Array, runs: number) {
    // Once round the ring and it is the first packet again: one more run.
    const result = this.#test(this.#ingress, frame, runs + 1)
    if (Buffer.compare(result.data, frame) === 0) throw new Error('the packet was not translated')
    return result
  }

  #test(program: BpfProgram, data: Uint8Array, repeat: number) {
    const ctxIn = new Uint8Array(SKB_SIZE)
    new DataView(ctxIn.buffer).setUint32(SKB_IFINDEX, this.#ifindex, true)
    return loadNative().inNetns(this.#netns, () => program.testRun({ data, ctxIn, repeat }))
  }
}

interface Ring {
  readonly keys: Uint8Array
  readonly values: Uint8Array
  /** The packet of the first flow. */
  readonly frame: Uint8Array
}

/** `count` established flows, each one's translation the next one's packet, in random order. */
function flowRing(family: Family, count: number, direction: number, flags: number): Ring {
  const tuples = Array.from({ length: count }, (_, i) => ringTuple(family, i))
  shuffle(tuples)
  // Seen in an hour: the look at the other half, once a second and flow, is not what is measured.
  const seenNs = process.hrtime.bigint() + 3_600_000_000_000n
  const values = tuples.map((_, i) =>
    toBytes(maps.flows.value, {
      to: tuples[(i + 1) % tuples.length] as Tuple,
      seenNs,
      backend: 1,
      generation: 1,
      service: 1,
      direction,
      slot: 0,
      flags,
      sent: FlowSent.SENT | FlowSent.ON,
      heard: FlowSent.SENT,
    }),
  )
  const [first] = tuples as [Tuple]
  return {
    keys: Buffer.concat(tuples.map(tuple => toBytes(maps.flows.key, tuple))),
    values: Buffer.concat(values),
    frame: tcp(endpointOf(first.src, first.sport), endpointOf(first.dst, first.dport), 'A', { ttl: 255 }),
  }
}

/** A TCP tuple of its own for each `i`, routed by the default route. */
function ringTuple(family: Family, i: number): Tuple {
  const text = (low: number) =>
    family === 'IPv4' ? `198.18.${(low >> 8) & 255}.${low & 255}` : `2001:db8:fe::${low.toString(16)}`
  return {
    src: bytesOf(text(1 + (i & 0xfff))),
    dst: bytesOf(text(0x8000 + (i >> 4))),
    sport: 1024 + ((i * 7919) % 60_000),
    dport: 443,
    proto: PROTO_TCP,
  }
}

function addressOf(text: string): Address {
  const address = parseAddress(text)
  if (address === undefined) throw new TypeError(`not an address: ${text}`)
  return address
}

function bytesOf(text: string): Uint8Array {
  return addressToBytes(addressOf(text))
}

function endpointOf(bytes: Uint8Array, port: number): string {
  const isIpv4 = bytes.subarray(0, 10).every(byte => byte === 0)
  if (isIpv4) return `${bytes.subarray(12).join('.')}:${port}`
  const words = Array.from({ length: 8 }, (_, i) => (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16))
  return `[${words.join(':')}]:${port}`
}

function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** Offset of TTL or hop limit in a frame. */
function ttlOffset(frame: Uint8Array): number {
  return ETH_LENGTH + (frame[12] === 0x08 ? 8 : 7)
}

/** Fisher and Yates, with a generator of its own: the same order each time. */
function shuffle<T>(items: T[]): void {
  let state = 12_345
  for (let i = items.length - 1; i > 0; i--) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    const k = state % (i + 1)
    ;[items[i], items[k]] = [items[k] as T, items[i] as T]
  }
}
