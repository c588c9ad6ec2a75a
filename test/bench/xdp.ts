import { execFileSync } from 'node:child_process'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfObject, BpfProgram } from '../../src/ebpf/native.js'
import { TestRunFlag, XdpFlag } from '../../src/ebpf/uapi.js'
import { macBytes, udp } from '../bpf/packet.js'
import { applyAll, DEFAULT_LIMITS, setDevices, startDataplane } from './dataplane.js'
import type { Effort } from './effort.js'
import { LOAD_SECONDS, NODE_PORT, nodePorts, ruleServices } from './forward.js'
import { desiredState } from './generate.js'
import {
  backendAddress,
  buildPaths,
  CLIENT,
  clientAddress,
  clientDevice,
  FAMILIES,
  type Family,
  NODE_IN,
  NODE_OUT,
  nodeAddress,
  nodeOf,
  SERVER,
  SERVER_PORT,
  serverAddress,
  serverDevice,
} from './paths.js'
import { compare, interleave, type Results, type Row, type Skip, type Variant } from './result.js'
import { loadRival, RIVALS } from './rivals.js'
import { runAtOnce, World } from './world.js'

const BENCH = 'xdp'
/** As the driver has them. */
const FRAME_SIZE = 80
const MAX_FRAMES = 65_536
const FLOWS = [1, 1_024, MAX_FRAMES] as const
/** Each address of the client has so many flows. */
const FLOWS_A_CLIENT = 32_768
const FIRST_SOURCE_PORT = 20_000
/** Room for the flows of both families: nothing has to make room for anything. */
const LIMITS = { ...DEFAULT_LIMITS, flows: 524_288 }
const DROPPED = 'dropped on arrival'
const ROUTED = 'routed'

/** Ways of a frame through a node, each with a path of its own: rivals come behind these. */
const WAYS = [DROPPED, 'XDP, sends only', 'waggle, native XDP', 'waggle, generic XDP', 'waggle, tc', ROUTED] as const
type Way = (typeof WAYS)[number]
/** Those that send from the driver, so that no skb is made on the way. */
const NATIVE: readonly string[] = ['XDP, sends only', 'waggle, native XDP']

/**
 * What a node port's frames cost that come by a device without an skb, as drivers have them:
 * forwarded by XDP to a backend elsewhere, against a program that only sends, and against
 * tc, plain routing and the kernel's own filters.
 */
export async function xdp(progress: (line: string) => void, effort: Effort): Promise<Results> {
  const world = new World(BENCH)
  try {
    return await new XdpBench(world, progress, effort).run()
  } finally {
    world.close()
  }
}

class XdpBench {
  readonly #world: World
  readonly #progress: (line: string) => void
  readonly #effort: Effort
  readonly #native = loadNative()
  readonly #driver: BpfObject
  readonly #generate: BpfProgram
  readonly #frames: Uint8Array
  readonly #rows: Row[] = []
  readonly #skips: Skip[] = []

  constructor(world: World, progress: (line: string) => void, effort: Effort) {
    this.#world = world
    this.#progress = progress
    this.#effort = effort
    buildPaths(world, WAYS.length + RIVALS.length)
    this.#driver = this.#native.openObject(world.compile('xdp-driver.bpf.c'))
    this.#setSendOnly(pathOf('XDP, sends only'))
    this.#driver.load()
    this.#generate = this.#driver.program('generate')
    this.#frames = new Uint8Array(this.#driver.map('frames').mmap())
  }

  async run(): Promise<Results> {
    this.#settleNeighbours()
    this.#endFrames()
    this.#attachXdp(nodeOf(pathOf(DROPPED)), NODE_IN, 'discard')
    this.#attachXdp(nodeOf(pathOf('XDP, sends only')), NODE_IN, 'send_only')
    await this.#startDataplanes()
    this.#takeFrames()
    for (const family of FAMILIES) {
      const ways: readonly string[] = [...WAYS, ...this.#loadRivals(family)]
      for (const flows of new Set(FLOWS.map(each => Math.min(each, this.#effort.flows)))) {
        this.#progress(`${family}, frames of ${flows} flows: ${this.#effort.rounds} rounds`)
        await runAtOnce(() => this.#measure(family, flows, ways))
      }
    }
    return { rows: this.#rows, skips: this.#skips }
  }

  async #measure(family: Family, flows: number, ways: readonly string[]): Promise<void> {
    const count = Math.max(this.#effort.datagrams, flows)
    const variants = ways.map((what): Variant => {
      const frames = this.#pack(
        pathOf(what),
        family,
        flows,
        what === 'XDP, sends only' || what === ROUTED || what === DROPPED,
      )
      return { what, run: async () => this.#send(pathOf(what), frames, flows, count) }
    })
    const before = this.#arrived()
    const samples = await interleave(variants, this.#effort.rounds)
    const sent = count * (this.#effort.rounds + 1)
    const arrived = this.#arrived()
    for (const what of ways.filter(each => each !== DROPPED)) {
      const lost = sent - ((arrived.get(pathOf(what)) ?? 0) - (before.get(pathOf(what)) ?? 0))
      if (lost > sent / 100) throw new Error(`${what}, ${family}, ${flows} flows: ${lost} of ${sent} frames were lost`)
    }
    this.#rows.push(...compare({ bench: BENCH, n: flows, family, unit: 'ns' }, samples, ROUTED))
  }

  /** Runs the generator in the client's namespace; everything a frame meets is done before it returns. */
  #send(path: number, frames: Uint8Array, flows: number, count: number) {
    const native = this.#native
    this.#frames.set(frames)
    return native.inNetns(this.#netns(CLIENT), () => {
      const ifindex = native.ifNameToIndex(clientDevice(path))
      this.#driver
        .map('generator')
        .update(new Uint8Array(4), new Uint8Array(Uint32Array.of(0, flows, ifindex, 0).buffer))
      // The kernel's own clock: making the frames' pages and giving them back takes 20 ms besides.
      const { duration } = this.#generate.testRun({
        data: frames.subarray(0, FRAME_SIZE),
        repeat: count,
        flags: TestRunFlag.XDP_LIVE_FRAMES,
      })
      return { p50: duration, p99: duration }
    })
  }

  /** The frames of a way: to a backend itself, or to the node port. */
  #pack(path: number, family: Family, flows: number, direct: boolean): Uint8Array {
    const to = direct
      ? endpoint(backendAddress(path, family, 0), SERVER_PORT)
      : endpoint(nodeAddress(path, family, NODE_IN), NODE_PORT)
    const dstMac = this.#mac(nodeOf(path), NODE_IN)
    const bytes = new Uint8Array(flows * FRAME_SIZE)
    for (let i = 0; i < flows; i++) {
      const from = endpoint(
        clientAddress(path, family, Math.floor(i / FLOWS_A_CLIENT)),
        FIRST_SOURCE_PORT + (i % FLOWS_A_CLIENT),
      )
      bytes.set(udp(from, to, { dstMac, payload: new Uint8Array(18) }), i * FRAME_SIZE)
    }
    return bytes
  }

  async #startDataplanes(): Promise<void> {
    const modes = { 'waggle, native XDP': 'native', 'waggle, generic XDP': 'generic', 'waggle, tc': 'off' } as const
    for (const [what, mode] of Object.entries(modes)) {
      const path = pathOf(what)
      const place = { bpffs: this.#world.bpffs(nodeOf(path)), cgroup: this.#world.cgroup(nodeOf(path)) }
      const dataplane = await startDataplane(this.#world, place, LIMITS, mode)
      setDevices(this.#world, dataplane, path, [NODE_IN, NODE_OUT])
      await applyAll(dataplane, desiredState(1, nodePorts(path, false)))
    }
  }

  #loadRivals(family: Family): string[] {
    return RIVALS.filter(rival => {
      const path = pathOf(rival.name)
      const options = { family, nodeAddresses: [nodeAddress(path, family, NODE_IN)] }
      const why = loadRival(this.#world, nodeOf(path), rival, ruleServices(path, family), options, LOAD_SECONDS)
      if (why !== undefined) this.#skips.push({ bench: BENCH, what: `${rival.name}, ${family}`, why })
      return why === undefined
    }).map(({ name }) => name)
  }

  #setSendOnly(path: number): void {
    const ifindex = this.#native.inNetns(this.#netns(nodeOf(path)), () => this.#native.ifNameToIndex(NODE_OUT))
    const macs = [this.#mac(SERVER, serverDevice(path)), this.#mac(nodeOf(path), NODE_OUT)].flatMap(each => [
      ...macBytes(each),
    ])
    this.#driver.setConstant('cfg_ifindex', new Uint8Array(Uint32Array.of(ifindex).buffer))
    this.#driver.setConstant('cfg_macs', Uint8Array.from(macs))
  }

  /** Nobody answers for the server: frames end before its stack. */
  #settleNeighbours(): void {
    for (let path = 0; path < WAYS.length + RIVALS.length; path++) {
      const mac = this.#mac(SERVER, serverDevice(path))
      this.#world.ip(
        nodeOf(path),
        FAMILIES.map(
          family => `neigh replace ${serverAddress(path, family)} lladdr ${mac} dev ${NODE_OUT} nud permanent`,
        ),
      )
    }
  }

  /** Where the node's frames end: in the driver if they come from one, else at the first hook of the stack. */
  #endFrames(): void {
    const native = this.#native
    const object = native.openObject(this.#world.compile('driver.bpf.c'))
    object.load()
    const sink = object.program('sink')
    for (const what of [...WAYS, ...RIVALS.map(({ name }) => name)]) {
      const device = serverDevice(pathOf(what))
      if (NATIVE.includes(what)) {
        this.#attachXdp(SERVER, device, 'discard')
      } else {
        native.inNetns(this.#netns(SERVER), () => {
          native.attachClsact(sink, native.ifNameToIndex(device), 'ingress', 1, 1)
        })
      }
    }
    sink.close()
    object.close()
  }

  #attachXdp(netns: string, device: string, name: string): void {
    const native = this.#native
    const program = this.#driver.program(name)
    native.inNetns(this.#netns(netns), () => {
      const link = native.attachXdp(program, native.ifNameToIndex(device), XdpFlag.NATIVE)
      this.#world.later(() => link.close())
    })
    program.close()
  }

  /** A veth takes frames only where it polls for them, which it does with GRO or native XDP. */
  #takeFrames(): void {
    const binary = this.#world.compile('netclient.c')
    for (const what of [...WAYS, ...RIVALS.map(({ name }) => name)]) {
      if (what !== DROPPED && !NATIVE.includes(what))
        this.#world.inNetns(nodeOf(pathOf(what)), [binary, 'gro', NODE_IN])
    }
  }

  #netns(suffix: string): string {
    return `/run/netns/${this.#world.netnsName(suffix)}`
  }

  #mac(netns: string, device: string): string {
    const text = execFileSync('ip', ['-n', this.#world.netnsName(netns), '-j', 'link', 'show', device])
    return (JSON.parse(text.toString()) as [{ address: string }])[0].address
  }

  /** Frames that came to the server's end of each path. */
  #arrived(): Map<number, number> {
    const text = execFileSync('ip', ['-n', this.#world.netnsName(SERVER), '-s', '-j', 'link'])
    const links = JSON.parse(text.toString()) as { ifname: string; stats64: { rx: { packets: number } } }[]
    const byName = new Map(links.map(link => [link.ifname, link.stats64.rx.packets]))
    return new Map(
      Array.from({ length: WAYS.length + RIVALS.length }, (_, path) => [path, byName.get(serverDevice(path)) ?? 0]),
    )
  }
}

function pathOf(what: string): number {
  const own = WAYS.indexOf(what as Way)
  return own >= 0 ? own : WAYS.length + RIVALS.findIndex(({ name }) => name === what)
}

function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}
