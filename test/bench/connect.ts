import { connectionRate } from './connect-rate.js'
import { applyAll, setDevices, startDataplane } from './dataplane.js'
import type { Effort } from './effort.js'
import { attachEmpty } from './empty-hooks.js'
import { desiredState, type PortSpec } from './generate.js'
import { EchoServer, type Step, type Target, TimingClient } from './net-client.js'
import {
  backendAddress,
  buildPaths,
  CLIENT,
  FAMILIES,
  type Family,
  NODE_IN,
  NODE_OUT,
  type NodeDevice,
  nodeOf,
  SERVER,
  SERVER_PORT,
  serviceAddress,
  shortenConntrack,
} from './paths.js'
import { compare, interleave, type Results, type Row, type Skip, type Variant } from './result.js'
import { loadRival, RIVALS, type Rival, RivalLoads } from './rivals.js'
import type { RuleService } from './rules.js'
import { World } from './world.js'

const BENCH = 'connect'
/** No step needs an answer of the server. */
const SERVER_PAUSE_US = 2_000
const SERVICE_PORT = 80
const LIMITS = {
  services: 262_144,
  // An address has an entry of its own beside its port's.
  frontends: 262_144,
  backends: 524_288,
  slots: 1_048_576,
  flows: 65_536,
  sourceRanges: 1024,
}
/** UDP is measured up to so many Services. */
const MOST_UDP = 10_000
const DIRECT = 'direct'
/** Backends of a Service, there and here. */
const ENDPOINTS = 2
/** Backends have so many addresses, which a path's network has room for. */
const ADDRESSES = 60_000
/** Paths through a node each: direct and sockets, packets to backends elsewhere, to backends here, the rivals. */
const PATH = { direct: 0, elsewhere: 1, here: 2, empty: 3, rivals: 4 } as const

/**
 * What a new connection to a Service costs, chosen at the socket or by its packets, against
 * one to the backend itself and through the kernel's own filters, with few and many Services.
 */
export async function connect(progress: (line: string) => void, effort: Effort): Promise<Results> {
  const world = new World(BENCH)
  try {
    return await new ConnectBench(world, progress, effort).run()
  } finally {
    world.close()
  }
}

class ConnectBench {
  readonly #world: World
  readonly #progress: (line: string) => void
  readonly #effort: Effort
  readonly #loads = new RivalLoads()
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
    const dataplanes = await this.#startDataplanes()
    attachEmpty(world, PATH.empty)
    for (const [i, n] of this.#effort.sizes.entries()) {
      // Only ever more: an index that was given up is not used again for minutes.
      this.#progress(`${n} Services of both families: writing them`)
      for (const { dataplane, ports } of dataplanes) {
        await applyAll(
          dataplane,
          desiredState(
            i + 1,
            FAMILIES.flatMap(family => ports(n, family)),
          ),
        )
      }
      for (const family of FAMILIES) {
        const rivals = this.#loadRivals(family, n)
        this.#progress(`${n} Services, ${family}: ${this.#effort.rounds} rounds`)
        const server = await EchoServer.start(world, binary, SERVER, SERVER_PORT, SERVER_PAUSE_US)
        const client = new TimingClient(world, binary, CLIENT)
        await this.#measure(client, n, family, rivals)
        await client.stop()
        await server.stop()
        if (i === 0) {
          this.#progress(`${n} Services, ${family}: connections a second`)
          const targets = this.#rates(n, family, rivals)
          this.#rows.push(...(await connectionRate(world, binary, this.#effort, n, family, targets)))
        }
      }
    }
    return { rows: this.#rows, skips: this.#skips }
  }

  /** One for each node that serves packets, since a dataplane knows one; the first serves sockets, too. */
  async #startDataplanes() {
    const start = async (name: 'elsewhere' | 'here', cgroup: string, devices: readonly NodeDevice[]) => {
      const dataplane = await startDataplane(this.#world, { bpffs: this.#world.bpffs(name), cgroup }, LIMITS)
      setDevices(this.#world, dataplane, PATH[name], devices)
      return dataplane
    }
    return [
      {
        dataplane: await start('elsewhere', this.#pod, [NODE_IN, NODE_OUT]),
        ports: (n: number, family: Family) => [
          ...services(PATH.direct, n, family, 'TCP', false),
          ...services(PATH.direct, Math.min(n, MOST_UDP), family, 'UDP', false),
          ...services(PATH.elsewhere, n, family, 'TCP', false),
        ],
      },
      {
        dataplane: await start('here', this.#world.cgroup('unused'), [NODE_IN]),
        ports: (n: number, family: Family) => services(PATH.here, n, family, 'TCP', true),
      },
    ]
  }

  async #measure(client: TimingClient, n: number, family: Family, rivals: readonly Rival[]): Promise<void> {
    const at = (cgroup: string, step: Step, what: string, target: Target): Variant => ({
      what,
      run: async () => {
        await client.moveTo(cgroup)
        return client.time(step, target, this.#effort.steps)
      },
    })
    const direct = backends(PATH.direct, n, family)
    const sockets = (step: Step) => [
      at(this.#bare, step, DIRECT, direct),
      at(this.#bare, step, 'direct again', direct),
      at(this.#pod, step, 'socket, no Service', direct),
      at(this.#pod, step, 'socket', service(PATH.direct, n, family)),
    ]
    const suites: readonly { step: Step; what: string; variants: readonly Variant[] }[] = [
      {
        step: 'tcp',
        what: 'TCP connect and close',
        variants: [
          ...sockets('tcp'),
          at(this.#bare, 'tcp', 'empty programs', backends(PATH.empty, n, family)),
          at(this.#bare, 'tcp', 'packets, no Service', backends(PATH.elsewhere, n, family)),
          at(this.#bare, 'tcp', 'packets, backend elsewhere', service(PATH.elsewhere, n, family)),
          at(this.#bare, 'tcp', 'packets, backend here', service(PATH.here, n, family)),
          ...rivals.flatMap(rival => [
            at(this.#bare, 'tcp', rival.name, service(rivalPath(rival), n, family)),
            ...(rival.linear
              ? [at(this.#bare, 'tcp', `${rival.name}, last rule`, service(rivalPath(rival), 1, family, n - 1))]
              : []),
          ]),
        ],
      },
      ...(n > MOST_UDP
        ? []
        : ([
            { step: 'udp', what: 'UDP connect and close', variants: sockets('udp') },
            { step: 'datagram', what: 'UDP connect, one datagram, close', variants: sockets('datagram') },
          ] as const)),
    ]
    for (const { what, variants } of suites) {
      const samples = await interleave(variants, this.#effort.rounds)
      const rows = compare({ bench: BENCH, n, family, unit: 'µs' }, samples, DIRECT, 1e-3)
      this.#rows.push(...rows.map(row => ({ ...row, what: `${what}: ${row.what}` })))
    }
  }

  /** Where whole connections go, request and answer included, to be counted by the second. */
  #rates(n: number, family: Family, rivals: readonly Rival[]) {
    return [
      { what: DIRECT, cgroup: this.#bare, target: backends(PATH.direct, n, family) },
      { what: 'direct again', cgroup: this.#bare, target: backends(PATH.direct, n, family) },
      { what: 'socket', cgroup: this.#pod, target: service(PATH.direct, n, family) },
      { what: 'packets, backend elsewhere', cgroup: this.#bare, target: service(PATH.elsewhere, n, family) },
      { what: 'packets, backend here', cgroup: this.#bare, target: service(PATH.here, n, family) },
      ...rivals.map(rival => ({
        what: rival.name,
        cgroup: this.#bare,
        target: service(rivalPath(rival), n, family),
      })),
    ]
  }

  /** Loads each rival's rules for `n` Services; those that cannot are skipped with a reason. */
  #loadRivals(family: Family, n: number): Rival[] {
    return RIVALS.filter(rival => {
      const skip = (why: string) => {
        this.#skips.push({ bench: BENCH, what: `${rival.name}, ${family}, ${n} Services`, why })
        return false
      }
      const expected = this.#loads.expect(rival, n)
      const { loadSeconds } = this.#effort
      if (expected > loadSeconds) return skip(`loading its rules would take about ${Math.round(expected)} s`)
      this.#progress(`${n} Services, ${family}: loading the rules of ${rival.name}`)
      const began = performance.now()
      const why = loadRival(
        this.#world,
        nodeOf(rivalPath(rival)),
        rival,
        ruleServices(rivalPath(rival), rival, n, family),
        { family },
        loadSeconds,
      )
      const took = (performance.now() - began) / 1000
      this.#loads.note(rival, n, took)
      if (why !== undefined) return skip(why)
      if (took > 1) this.#progress(`${n} Services, ${family}: ${rival.name} took ${took.toFixed(0)} s`)
      shortenConntrack(this.#world, rivalPath(rival))
      return true
    })
  }
}

function rivalPath(rival: Rival): number {
  return PATH.rivals + RIVALS.indexOf(rival)
}

/** `span` Services of a path from the `first` on. */
function service(path: number, span: number, family: Family, first = 0): Target {
  return { address: serviceAddress(path, family, first), port: SERVICE_PORT, span }
}

/** As many server addresses, without a Service. */
function backends(path: number, span: number, family: Family): Target {
  return { address: backendAddress(path, family, 0), port: SERVER_PORT, span }
}

function endpoints(path: number, family: Family, i: number, count: number): string[] {
  return Array.from({ length: count }, (_, k) => backendAddress(path, family, (count * i + k) % ADDRESSES))
}

/** `n` Services of one family that the client reaches by `path`. */
function services(path: number, n: number, family: Family, protocol: 'TCP' | 'UDP', local: boolean): PortSpec[] {
  return Array.from({ length: n }, (_, i) => ({
    name: `svc-${path}-${i}`,
    family,
    protocol,
    frontends: [{ kind: 'ClusterIP', address: serviceAddress(path, family, i), port: SERVICE_PORT }],
    backends: endpoints(path, family, i, ENDPOINTS).map(address => ({ address, port: SERVER_PORT, local })),
  }))
}

/** The same for a rival; nft has one backend a Service (rules.ts says why). */
function ruleServices(path: number, rival: Rival, n: number, family: Family): RuleService[] {
  return Array.from({ length: n }, (_, i) => ({
    protocol: 'tcp',
    address: serviceAddress(path, family, i),
    port: SERVICE_PORT,
    backends: endpoints(path, family, i, rival.linear ? ENDPOINTS : 1),
    backendPort: SERVER_PORT,
  }))
}
