import { execFileSync } from 'node:child_process'
import { loadNative } from '../../src/ebpf/load-native.js'
import { udp } from '../bpf/packet.js'
import { applyAll, DEFAULT_LIMITS, setDevices, startDataplane } from './dataplane.js'
import type { Effort } from './effort.js'
import { attachEmpty } from './empty-hooks.js'
import { desiredState, PORT_KINDS, type PortSpec } from './generate.js'
import { EchoServer, type Step, type Target, TimingClient } from './net-client.js'
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
  type NodeDevice,
  nodeAddress,
  nodeOf,
  SERVER,
  SERVER_PORT,
  serverDevice,
  serviceAddress,
} from './paths.js'
import { compare, interleave, type Results, type Row, type Skip, type Variant } from './result.js'
import { loadRival, RIVALS, type Rival } from './rivals.js'
import type { RuleService } from './rules.js'
import { World } from './world.js'

const BENCH = 'forward'
export const NODE_PORT = 30080
const BACKENDS = 8
const ROUTED = 'routed'
const GENERATOR = 'the sender alone'
export const LOAD_SECONDS = 30
/** How many flows the frames are of. */
const FLOWS = [1, 1_024] as const
const FIRST_SOURCE_PORT = 20_000
/** Nobody's. */
const OTHER_MAC = '02:00:00:00:00:ee'
/** Paths through a node each: plain routing and sockets, packets to backends elsewhere, to backends here, the rivals. */
const PATH = { routed: 0, elsewhere: 1, here: 2, empty: 3, rivals: 4 } as const

const SUITES: readonly { readonly step: Step; readonly what: string; readonly pauseUs: number }[] = [
  { step: 'rr', what: 'TCP request on one connection', pauseUs: 0 },
  { step: 'flood', what: 'UDP datagram, one way', pauseUs: 2_000 },
]

/** A way through a node: where sockets dial, and where frames go. */
interface Way {
  readonly what: string
  readonly path: number
  readonly target: Target
  /** Of the client; unset = no socket of it is served. */
  readonly cgroup?: string
}

/**
 * What the packets of known flows pay at a node port, against the same packets merely routed
 * through a node and against the kernel's own filters; and how many a CPU forwards.
 */
export async function forward(progress: (line: string) => void, effort: Effort): Promise<Results> {
  const world = new World(BENCH)
  try {
    return await new ForwardBench(world, progress, effort).run()
  } finally {
    world.close()
  }
}

class ForwardBench {
  readonly #world: World
  readonly #progress: (line: string) => void
  readonly #effort: Effort
  readonly #rows: Row[] = []
  readonly #skips: Skip[] = []
  readonly #bare: string
  readonly #pod: string

  constructor(world: World, progress: (line: string) => void, effort: Effort) {
    this.#world = world
    this.#progress = progress
    this.#effort = effort
    this.#bare = world.cgroup('bare')
    this.#pod = world.cgroup('pod')
  }

  async run(): Promise<Results> {
    const world = this.#world
    buildPaths(world, PATH.rivals + RIVALS.length)
    const binary = world.compile('netclient.c')
    await this.#startDataplanes()
    attachEmpty(world, PATH.empty)
    const client = new TimingClient(world, binary, CLIENT)
    for (const family of FAMILIES) {
      const rivals = this.#loadRivals(family)
      const ways = this.#ways(family, rivals)
      for (const suite of SUITES) {
        this.#progress(`${family}, ${suite.what}: ${this.#effort.rounds} rounds`)
        await this.#sockets(client, binary, family, suite, ways)
      }
    }
    this.#sinkDatagrams()
    for (const family of FAMILIES) {
      const ways = this.#ways(family, this.#loadRivals(family))
      for (const flows of FLOWS) {
        this.#progress(`${family}, frames of ${flows} flows: ${this.#effort.rounds} rounds`)
        await this.#frames(client, family, flows, ways)
      }
    }
    return { rows: this.#rows, skips: this.#skips }
  }

  /** One for each node, since a dataplane knows one; the first serves sockets, too. */
  async #startDataplanes(): Promise<void> {
    const start = async (
      name: 'elsewhere' | 'here',
      cgroup: string,
      devices: readonly NodeDevice[],
      ports: PortSpec[],
    ) => {
      const dataplane = await startDataplane(this.#world, { bpffs: this.#world.bpffs(name), cgroup }, DEFAULT_LIMITS)
      setDevices(this.#world, dataplane, PATH[name], devices)
      await applyAll(dataplane, desiredState(1, ports))
    }
    const sockets = FAMILIES.flatMap(clusterIps)
    await start('elsewhere', this.#pod, [NODE_IN, NODE_OUT], [...nodePorts(PATH.elsewhere, false), ...sockets])
    await start('here', this.#world.cgroup('unused'), [NODE_IN], nodePorts(PATH.here, true))
  }

  #ways(family: Family, rivals: readonly Rival[]): Way[] {
    const backends = (path: number) => ({ address: backendAddress(path, family, 0), port: SERVER_PORT, span: BACKENDS })
    const nodePort = (path: number) => ({ address: nodeAddress(path, family, NODE_IN), port: NODE_PORT, span: 1 })
    return [
      { what: ROUTED, path: PATH.routed, target: backends(PATH.routed) },
      { what: 'routed again', path: PATH.routed, target: backends(PATH.routed) },
      {
        what: 'socket',
        path: PATH.routed,
        target: { address: serviceAddress(PATH.routed, family, 0), port: NODE_PORT, span: 1 },
        cgroup: this.#pod,
      },
      { what: 'empty programs', path: PATH.empty, target: backends(PATH.empty) },
      { what: 'packets, no Service', path: PATH.elsewhere, target: backends(PATH.elsewhere) },
      { what: 'packets, backend elsewhere', path: PATH.elsewhere, target: nodePort(PATH.elsewhere) },
      { what: 'packets, backend here', path: PATH.here, target: nodePort(PATH.here) },
      ...rivals.map(rival => ({ what: rival.name, path: rivalPath(rival), target: nodePort(rivalPath(rival)) })),
    ]
  }

  async #sockets(
    client: TimingClient,
    binary: string,
    family: Family,
    { step, what, pauseUs }: (typeof SUITES)[number],
    ways: readonly Way[],
  ): Promise<void> {
    const count = step === 'flood' ? this.#effort.datagrams : this.#effort.steps
    const server = await EchoServer.start(this.#world, binary, SERVER, SERVER_PORT, pauseUs)
    const variants = ways.map(
      ({ what, target, cgroup }): Variant => ({
        what,
        run: async () => {
          await client.moveTo(cgroup ?? this.#bare)
          return client.time(step, target, count)
        },
      }),
    )
    const samples = await interleave(variants, this.#effort.rounds)
    if (step === 'flood') await expectArrived(server, count * (this.#effort.rounds + 1) * variants.length)
    await server.stop()
    const rows = compare({ bench: BENCH, family, unit: 'µs' }, samples, ROUTED, 1e-3)
    this.#rows.push(...rows.map(row => ({ ...row, what: `${what}: ${row.what}` })))
  }

  /** Frames are handed to the node's device on the CPU that makes them, and end where they leave the node. */
  async #frames(client: TimingClient, family: Family, flows: number, ways: readonly Way[]): Promise<void> {
    const count = Math.max(this.#effort.datagrams, 2 * flows)
    const from = (path: number) => endpoint(clientAddress(path, family), FIRST_SOURCE_PORT)
    const send = (what: string, path: number, { address, port }: Target, dstMac: string): Variant => {
      const frame = udp(from(path), endpoint(address, port), { dstMac, payload: new Uint8Array(18).fill(0xff) })
      return { what, run: () => client.frames(clientDevice(path), frame, flows, count) }
    }
    const forwarded = ways.filter(({ cgroup, what }) => cgroup === undefined && what !== 'routed again')
    const [routed] = forwarded as [Way]
    const variants = [
      ...forwarded.map(({ what, path, target }) => send(what, path, target, this.#mac(path))),
      send(GENERATOR, routed.path, routed.target, OTHER_MAC),
    ]
    const before = this.#arrived(forwarded)
    const samples = await interleave(variants, this.#effort.rounds)
    const sent = (count - (count % 64)) * (this.#effort.rounds + 1) * forwarded.length
    const arrived = this.#arrived(forwarded) - before
    if (arrived < sent * 0.99) throw new Error(`${sent - arrived} of ${sent} frames were lost`)
    const rows = compare({ bench: BENCH, n: flows, family, unit: 'µs' }, samples, ROUTED, 1e-3)
    this.#rows.push(...rows.map(row => ({ ...row, what: `frame of a known flow: ${row.what}` })))
  }

  /** MAC address of the node towards the client. */
  #mac(path: number): string {
    const text = execFileSync('ip', ['-n', this.#world.netnsName(nodeOf(path)), '-j', 'link', 'show', NODE_IN])
    return (JSON.parse(text.toString()) as [{ address: string }])[0].address
  }

  /** Frames that came to the server's end of the paths. */
  #arrived(ways: readonly Way[]): number {
    const text = execFileSync('ip', ['-n', this.#world.netnsName(SERVER), '-s', '-j', 'link'])
    const links = JSON.parse(text.toString()) as { ifname: string; stats64: { rx: { packets: number } } }[]
    const names = new Set(ways.map(({ path }) => serverDevice(path)))
    return links.filter(link => names.has(link.ifname)).reduce((sum, link) => sum + link.stats64.rx.packets, 0)
  }

  /** What comes to the server is dropped at once from now on: its stack is not what is measured. */
  #sinkDatagrams(): void {
    const native = loadNative()
    const object = native.openObject(this.#world.compile('driver.bpf.c'))
    object.load()
    const sink = object.program('sink')
    const paths = Array.from({ length: PATH.rivals + RIVALS.length }, (_, path) => path)
    native.inNetns(`/run/netns/${this.#world.netnsName(SERVER)}`, () => {
      for (const path of paths) {
        native.attachClsact(sink, native.ifNameToIndex(serverDevice(path)), 'ingress', 1, 1)
      }
    })
    sink.close()
    object.close()
  }

  #loadRivals(family: Family): Rival[] {
    return RIVALS.filter(rival => {
      const path = rivalPath(rival)
      const node = nodeAddress(path, family, NODE_IN)
      const why = loadRival(
        this.#world,
        nodeOf(path),
        rival,
        ruleServices(path, family),
        { family, nodeAddresses: [node] },
        LOAD_SECONDS,
      )
      if (why !== undefined && !this.#skips.some(skip => skip.what === `${rival.name}, ${family}`)) {
        this.#skips.push({ bench: BENCH, what: `${rival.name}, ${family}`, why })
      }
      return why === undefined
    })
  }
}

function rivalPath(rival: Rival): number {
  return PATH.rivals + RIVALS.indexOf(rival)
}

function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

function endpoints(path: number, family: Family): string[] {
  return Array.from({ length: BACKENDS }, (_, i) => backendAddress(path, family, i))
}

/** A node port of each family and protocol, with eight backends behind the path's server. */
export function nodePorts(path: number, local: boolean): PortSpec[] {
  return PORT_KINDS.map(({ family, protocol }) => ({
    name: 'web',
    family,
    protocol,
    frontends: [{ kind: 'NodePort', address: nodeAddress(path, family, NODE_IN), port: NODE_PORT }],
    backends: endpoints(path, family).map(address => ({ address, port: SERVER_PORT, local })),
  }))
}

function clusterIps(family: Family): PortSpec[] {
  return (['TCP', 'UDP'] as const).map(protocol => ({
    name: 'dialled',
    family,
    protocol,
    frontends: [{ kind: 'ClusterIP', address: serviceAddress(PATH.routed, family, 0), port: NODE_PORT }],
    backends: endpoints(PATH.routed, family).map(address => ({ address, port: SERVER_PORT })),
  }))
}

/** The same for a rival. */
export function ruleServices(path: number, family: Family): RuleService[] {
  return (['tcp', 'udp'] as const).map(protocol => ({
    protocol,
    port: NODE_PORT,
    nodePort: NODE_PORT,
    backends: endpoints(path, family),
    backendPort: SERVER_PORT,
  }))
}

/** Fast is only what arrives: throws when more than one datagram in a hundred was lost. */
async function expectArrived(server: EchoServer, expected: number): Promise<void> {
  let received = 0
  for (let tries = 0; tries < 50; tries++) {
    received = await server.received()
    if (received >= expected) return
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  if (received < expected * 0.99) throw new Error(`${expected - received} of ${expected} datagrams were lost`)
}
