import { applyAll, startDataplane } from './dataplane.js'
import { desiredState, PORT_KINDS, type PortSpec } from './generate.js'
import { EchoServer, type Step, type Target, TimingClient } from './net-client.js'
import {
  backendAddress,
  buildPaths,
  CLIENT,
  FAMILIES,
  type Family,
  nodeOf,
  SERVER,
  SERVER_PORT,
  serviceAddress,
  shortenConntrack,
} from './paths.js'
import { compare, interleave, type Results, type Row, type Skip, type Variant } from './result.js'
import { iptablesRules, nftRules, type RuleService } from './rules.js'
import { findTool, World } from './world.js'

const BENCH = 'connect'
const SIZES = [10, 1_000, 10_000] as const
const ROUNDS = 21
const STEPS = 300
/** No step needs an answer of the server. */
const SERVER_PAUSE_US = 2_000
const SERVICE_PORT = 80
const LIMITS = {
  services: 65_536,
  frontends: 131_072,
  backends: 131_072,
  slots: 1_048_576,
  flows: 1024,
  sourceRanges: 1024,
}
const DIRECT = 'direct'

/** A rival: rules in a node namespace of their own. */
interface Peer {
  readonly name: string
  readonly path: number
  readonly tool: Readonly<Record<Family, string>>
  /** Beyond that many Services loading its rules alone takes too long. */
  readonly maxServices: number
  readonly rules: (services: readonly RuleService[], family: Family) => string
  readonly load: readonly string[]
  readonly flush: readonly string[]
  /** Whether the place of a Service in the rules matters. */
  readonly linear: boolean
}

const PEERS: readonly Peer[] = [
  {
    name: 'nft',
    path: 1,
    tool: { IPv4: 'nft', IPv6: 'nft' },
    maxServices: 10_000,
    rules: nftRules,
    load: ['-f', '-'],
    flush: ['flush', 'ruleset'],
    linear: false,
  },
  ...(['legacy', 'nft'] as const).map(
    (kind, i): Peer => ({
      name: `iptables-${kind}`,
      path: 2 + i,
      tool: { IPv4: `iptables-${kind}-restore`, IPv6: `ip6tables-${kind}-restore` },
      maxServices: kind === 'nft' ? 1_000 : 10_000,
      rules: iptablesRules,
      load: [],
      flush: [],
      linear: true,
    }),
  ),
]

/**
 * What a new connection from a pod to a ClusterIP costs, against one to the backend itself,
 * and what the kernel's own filters take for the same, with few and with many Services.
 */
export async function connect(progress: (line: string) => void): Promise<Results> {
  const world = new World(BENCH)
  try {
    return await new ConnectBench(world, progress).run()
  } finally {
    world.close()
  }
}

class ConnectBench {
  readonly #world: World
  readonly #progress: (line: string) => void
  readonly #rows: Row[] = []
  readonly #skips: Skip[] = []
  readonly #bare: string
  readonly #pod: string

  constructor(world: World, progress: (line: string) => void) {
    this.#world = world
    this.#progress = progress
    this.#bare = world.cgroup('bare')
    this.#pod = world.cgroup('pod')
  }

  async run(): Promise<Results> {
    const world = this.#world
    buildPaths(world, 1 + PEERS.length)
    const binary = world.compile('netclient.c')
    await EchoServer.start(world, binary, SERVER, SERVER_PORT, SERVER_PAUSE_US)
    const client = new TimingClient(world, binary, CLIENT)
    const dataplane = await startDataplane(world, { bpffs: world.bpffs(), cgroup: this.#pod }, LIMITS)
    for (const n of SIZES) {
      const writes = await applyAll(dataplane, state(n))
      this.#progress(`${n} Services: ${writes} writes into the maps, loading the rules of the others`)
      const peers = FAMILIES.map(family => ({ family, peers: this.#loadPeers(family, n) }))
      for (const { family, peers: loaded } of peers) {
        this.#progress(`${n} Services, ${family}: ${ROUNDS} rounds`)
        await this.#measure(client, n, family, loaded)
      }
    }
    return { rows: this.#rows, skips: this.#skips }
  }

  async #measure(client: TimingClient, n: number, family: Family, peers: readonly Peer[]): Promise<void> {
    const at = (cgroup: string, step: Step, what: string, target: Target): Variant => ({
      what,
      run: async () => {
        await client.moveTo(cgroup)
        return client.time(step, target, STEPS)
      },
    })
    const backend = { address: backendAddress(0, family, 0), port: SERVER_PORT, span: n }
    const service = { address: serviceAddress(0, family, 0), port: SERVICE_PORT, span: n }
    const through = (peer: Peer, first: number, span: number) => ({
      address: serviceAddress(peer.path, family, first),
      port: SERVICE_PORT,
      span,
    })
    const ours = (step: Step) => [
      at(this.#bare, step, DIRECT, backend),
      at(this.#bare, step, 'direct again', backend),
      at(this.#pod, step, 'waggle, no Service', backend),
      at(this.#pod, step, 'waggle', service),
    ]
    const nft = peers.filter(peer => !peer.linear)
    const suites: readonly { step: Step; what: string; variants: readonly Variant[] }[] = [
      {
        step: 'tcp',
        what: 'TCP connect and close',
        variants: [
          ...ours('tcp'),
          ...nft.map(peer => at(this.#bare, 'tcp', peer.name, through(peer, 0, n))),
          ...peers
            .filter(peer => peer.linear)
            .flatMap(peer => [
              at(this.#bare, 'tcp', `${peer.name}, first rule`, through(peer, 0, 1)),
              at(this.#bare, 'tcp', `${peer.name}, last rule`, through(peer, n - 1, 1)),
            ]),
        ],
      },
      { step: 'udp', what: 'UDP connect and close', variants: ours('udp') },
      {
        step: 'datagram',
        what: 'UDP connect, one datagram, close',
        variants: [...ours('datagram'), ...nft.map(peer => at(this.#bare, 'datagram', peer.name, through(peer, 0, n)))],
      },
    ]
    for (const { what, variants } of suites) {
      const samples = await interleave(variants, ROUNDS)
      const rows = compare({ bench: BENCH, n, family, unit: 'µs' }, samples, DIRECT, 1e-3)
      this.#rows.push(...rows.map(row => ({ ...row, what: `${what}: ${row.what}` })))
    }
  }

  /** Loads each rival's rules for `n` Services; those that cannot are skipped with a reason. */
  #loadPeers(family: Family, n: number): Peer[] {
    return PEERS.filter(peer => {
      const skip = (why: string) => {
        this.#skips.push({ bench: BENCH, what: `${peer.name}, ${family}, ${n} Services`, why })
        return false
      }
      const tool = findTool(peer.tool[family])
      if (tool === undefined) return skip(`${peer.tool[family]} is not installed`)
      if (n > peer.maxServices) return skip('loading its rules takes most of a minute')
      const services = Array.from({ length: n }, (_, i) => ({
        address: serviceAddress(peer.path, family, i),
        port: SERVICE_PORT,
        backend: backendAddress(peer.path, family, i),
        backendPort: SERVER_PORT,
      }))
      try {
        // nft knows both families: the second must not flush the first.
        if (peer.flush.length > 0 && family === FAMILIES[0]) {
          this.#world.inNetns(nodeOf(peer.path), [tool, ...peer.flush])
        }
        this.#world.inNetns(nodeOf(peer.path), [tool, ...peer.load], peer.rules(services, family))
        shortenConntrack(this.#world, peer.path)
        return true
      } catch (error) {
        return skip(firstLine(error))
      }
    })
  }
}

/** `n` Services in both families, TCP and UDP, each with two backends of its own that the client's direct path reaches. */
function state(n: number) {
  const ports = Array.from({ length: n }, (_, i) =>
    PORT_KINDS.map(
      ({ family, protocol }): PortSpec => ({
        name: `svc-${i}`,
        family,
        protocol,
        frontends: [{ kind: 'ClusterIP', address: serviceAddress(0, family, i), port: SERVICE_PORT }],
        backends: [0, 1].map(k => ({ address: backendAddress(0, family, 2 * i + k), port: SERVER_PORT })),
      }),
    ),
  )
  return desiredState(n, ports.flat())
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n').slice(0, 2).join(' ')
}
