import type { Limits } from '../../src/dataplane/ebpf/kernel-maps.js'
import { Hook, Outcome } from '../../src/ebpf/generated/layouts.js'
import { ETH_LENGTH, otherProtocol, tcp, udp } from '../bpf/packet.js'
import { DEFAULT_LIMITS } from './dataplane.js'
import { addressIn, DrivenNode, endpoint, type Frames, MAX_FRAMES, packFrames, type Target } from './driven-node.js'
import type { Effort } from './effort.js'
import type { PortSpec } from './generate.js'
import { FAMILIES, type Family } from './paths.js'
import type { Results, Row } from './result.js'
import { ratios, spread } from './stats.js'
import { runAtOnce, World } from './world.js'

const BENCH = 'program'
const EMPTY = 'empty program'
/** New flows of a round. */
const NEW_FLOWS = 250
const BACKENDS_OF_MANY = 128
/** Enough that what is looked up for each of them lies in no cache of a core. */
const MANY_CONNECTIONS = 16_384

const CLIENTS = { IPv4: '198.18', IPv6: '2001:db8:fe::' } as const
const MANY = { IPv4: '172.20', IPv6: '2001:db8:fd::' } as const
const PODS = { IPv4: '10', IPv6: '2001:db8:fc::' } as const
const OTHERS = { IPv4: '203.0', IPv6: '2001:db8:fb::' } as const
const FRONTEND = { IPv4: '198.51.100.1', IPv6: '2001:db8:f::1' } as const
const PORTS = { here: 80, elsewhere: 81 } as const
type Place = keyof typeof PORTS

/**
 * What a run of a packet program costs on top of an empty one: for packets of no Service, of
 * flows that are known, few and many, and for those that open a flow.
 */
export async function program(progress: (line: string) => void, effort: Effort): Promise<Results> {
  progress(`${effort.manyServices} Services of ${BACKENDS_OF_MANY} backends in each family`)
  // Room for all that is opened here: nothing has to make room for anything.
  const limits = { ...DEFAULT_LIMITS, backends: 1_048_576, slots: 1_048_576, flows: 524_288 }
  const rows: Row[] = []
  for (const family of FAMILIES) {
    rows.push(...(await programIn(new World(`${BENCH}-${family.toLowerCase()}`), limits, family, progress, effort)))
  }
  return { rows, skips: [] }
}

/**
 * The same for one family, in a world of the caller's, which is closed at the end. A node of
 * its own for each family: beside the other's flows new ones would look longer for their place.
 */
export async function programIn(
  world: World,
  limits: Limits,
  family: Family,
  progress: (line: string) => void,
  effort: Effort,
): Promise<Row[]> {
  try {
    const node = await DrivenNode.create(world, limits)
    const ports = FAMILIES.flatMap(each => [...fewServices(each), ...manyServices(each, effort.manyServices)])
    await node.apply(1, ports)
    // Until the programs rely on the filter.
    await new Promise(resolve => setTimeout(resolve, 300))
    return await runAtOnce(async () => new ProgramBench(node, family, effort, progress).run())
  } finally {
    world.close()
  }
}

/** One measurement: frames, the program that meets them, and what each run must be counted as. */
interface Case {
  readonly what: string
  readonly n?: number
  readonly target: Target
  /** Anew for each round where they open flows. */
  readonly frames: () => Frames
  readonly runs: number
  readonly outcome: Outcome
}

class ProgramBench {
  readonly #node: DrivenNode
  readonly #family: Family
  readonly #effort: Effort
  readonly #progress: (line: string) => void
  /** Makes clients that nobody has seen. */
  #clients = 0

  constructor(node: DrivenNode, family: Family, effort: Effort, progress: (line: string) => void) {
    this.#node = node
    this.#family = family
    this.#effort = effort
    this.#progress = progress
  }

  run(): Row[] {
    const rows = this.#measure('packets of no Service', this.#passing())
    rows.push(...this.#measure('new flows', this.#fresh()))
    for (const count of new Set([1, Math.min(this.#effort.flows, MAX_FRAMES)])) {
      this.#progress(`${this.#family}: opening ${count} flows of each kind`)
      rows.push(...this.#measure(`${count} known flows`, this.#known(count)))
    }
    return rows
  }

  /** Each case next to the empty program on the same frames, all in each round. */
  #measure(what: string, cases: readonly Case[]): Row[] {
    const { rounds } = this.#effort
    this.#progress(`${this.#family}: ${rounds} rounds of ${what}`)
    const floors = cases.map((): number[] => [])
    const values = cases.map((): number[] => [])
    for (let round = -1; round < rounds; round++) {
      for (const [i, each] of cases.entries()) {
        const frames = each.frames()
        const floor = this.#node.run('empty', frames, each.runs)
        const took = this.#counted(each, frames)
        if (round < 0) continue
        floors[i]?.push(floor)
        values[i]?.push(took)
      }
    }
    return cases.map((each, i): Row => {
      const floor = floors[i] as number[]
      const took = values[i] as number[]
      return {
        bench: BENCH,
        family: this.#family,
        unit: 'ns',
        what: each.what,
        ...(each.n === undefined ? {} : { n: each.n }),
        value: spread(took.map((value, round) => value - (floor[round] as number))),
        rounds,
        ratio: { to: EMPTY, ...ratios(took, floor) },
        note: `less the ${EMPTY}`,
      }
    })
  }

  /** Throws when a run was not what the case says it is: it would be another figure. */
  #counted({ what, target, runs, outcome }: Case, frames: Frames): number {
    const hook = target === 'waggle_egress' ? Hook.TC_EGRESS : Hook.TC_INGRESS
    const before = this.#node.counted(hook, outcome)
    const took = this.#node.run(target, frames, runs)
    const counted = this.#node.counted(hook, outcome) - before
    if (counted !== runs) throw new Error(`${what}: ${runs - counted} of ${runs} runs were something else`)
    return took
  }

  #passing(): Case[] {
    const family = this.#family
    const from = endpoint(addressIn(family, CLIENTS, 0), 40_000)
    const to = endpoint(addressIn(family, OTHERS, 0), 80)
    const constant = (what: string, outcome: Outcome, frame: Uint8Array, target: Target = 'waggle_ingress'): Case => {
      const frames = packFrames([frame])
      return { what, target, outcome, frames: () => frames, runs: this.#effort.runs }
    }
    const many = packFrames(Array.from({ length: MANY_CONNECTIONS }, () => tcp(this.#client(), to, 'A')))
    return [
      constant('neither TCP, UDP nor ICMP', Outcome.NOT_HANDLED, otherProtocol(from, to, 47)),
      constant('no Service: segment of a connection', Outcome.NOT_SERVICE, tcp(from, to, 'A')),
      constant('no Service: SYN', Outcome.NOT_SERVICE, tcp(from, to, 'S')),
      constant('no Service: datagram', Outcome.NOT_SERVICE, udp(from, to)),
      constant('no Service, at egress: segment', Outcome.NOT_SERVICE, tcp(from, to, 'A'), 'waggle_egress'),
      ...(['waggle_ingress', 'waggle_egress'] as const).map(target => ({
        what: `no Service${target === 'waggle_egress' ? ', at egress' : ''}: segments of many connections`,
        n: MANY_CONNECTIONS,
        target,
        outcome: Outcome.NOT_SERVICE,
        frames: () => many,
        runs: Math.max(MANY_CONNECTIONS, this.#effort.runs),
      })),
    ]
  }

  #fresh(): Case[] {
    const family = this.#family
    const fresh = (what: string, place: Place, frame: (from: string, i: number) => Uint8Array): Case => ({
      what: `new flow: ${what}`,
      target: 'waggle_ingress',
      outcome: place === 'here' ? Outcome.DELIVERED : Outcome.FORWARDED,
      frames: () => packFrames(Array.from({ length: NEW_FLOWS }, (_, i) => frame(this.#client(), i))),
      runs: NEW_FLOWS,
    })
    const few = (place: Place) => endpoint(FRONTEND[family], PORTS[place])
    const many = (i: number) =>
      endpoint(addressIn(family, MANY, (this.#clients * 7919 + i) % this.#effort.manyServices), PORTS.elsewhere)
    return [
      fresh('TCP, backend here', 'here', from => tcp(from, few('here'), 'S')),
      fresh('UDP, backend here', 'here', from => udp(from, few('here'))),
      fresh('TCP, backend elsewhere', 'elsewhere', from => tcp(from, few('elsewhere'), 'S')),
      fresh('UDP, backend elsewhere', 'elsewhere', from => udp(from, few('elsewhere'))),
      {
        ...fresh('TCP, elsewhere, of many backends', 'elsewhere', (from, i) => tcp(from, many(i), 'S')),
        n: this.#effort.manyServices * BACKENDS_OF_MANY,
      },
    ]
  }

  #known(count: number): Case[] {
    const runs = Math.max(count, this.#effort.runs)
    return (['here', 'elsewhere'] as const).flatMap((place): Case[] => {
      const { forward, reply } = this.#open(place, count)
      const back = place === 'here' ? 'waggle_egress' : 'waggle_ingress'
      const there = place === 'here' ? Outcome.DELIVERED : Outcome.FORWARDED
      return [
        {
          what: `known flow, backend ${place}`,
          n: count,
          target: 'waggle_ingress',
          outcome: there,
          frames: () => forward,
          runs,
        },
        {
          what: `known flow, reply from ${place}`,
          n: count,
          target: back,
          outcome: Outcome.REPLIED,
          frames: () => reply,
          runs,
        },
      ]
    })
  }

  /** Opens connections through the programs, as client and backend would, in random order; segments of both directions. */
  #open(place: Place, count: number): { forward: Frames; reply: Frames } {
    const to = endpoint(FRONTEND[this.#family], PORTS[place])
    const back = place === 'here' ? 'waggle_egress' : 'waggle_ingress'
    const clients = Array.from({ length: count }, () => this.#client())
    const opened = this.#node.each(
      'waggle_ingress',
      clients.map(from => tcp(from, to, 'S')),
    )
    const forward = packFrames(clients.map(from => tcp(from, to, 'A')))
    const reply = packFrames(opened.map(frame => answerTo(frame, this.#family)))
    // The backend answers, the client goes on, the backend answers: nothing is news any more.
    this.#node.run(back, reply, count)
    this.#node.run('waggle_ingress', forward, count)
    this.#node.run(back, reply, count)
    return { forward, reply }
  }

  /** An address and port that were not used before, far from those of the one before. */
  #client(): string {
    const i = this.#clients++
    return endpoint(addressIn(this.#family, CLIENTS, (i * 40_503) % 65_521), 1024 + ((i * 7_919) % 60_000))
  }
}

/** The segment that a backend sends to a translated one. */
function answerTo(frame: Uint8Array, family: Family): Uint8Array {
  const out = frame.slice()
  const [size, addresses, length, ttl] = family === 'IPv4' ? ([20, 12, 4, 8] as const) : ([40, 8, 16, 7] as const)
  const swap = (at: number, bytes: number) => {
    out.set(frame.subarray(at + bytes, at + 2 * bytes), at)
    out.set(frame.subarray(at, at + bytes), at + bytes)
  }
  swap(ETH_LENGTH + addresses, length)
  swap(ETH_LENGTH + size, 2)
  out[ETH_LENGTH + ttl] = 64
  // ACK, alone: nothing of it opens or ends a connection.
  out[ETH_LENGTH + size + 13] = 0x10
  return out
}

/** One Service port each with backends here and elsewhere, TCP and UDP. */
function fewServices(family: Family): PortSpec[] {
  return (['here', 'elsewhere'] as const).flatMap(place =>
    (['TCP', 'UDP'] as const).map(
      (protocol): PortSpec => ({
        name: place,
        family,
        protocol,
        frontends: [{ kind: 'ExternalIP', address: FRONTEND[family], port: PORTS[place] }],
        backends: Array.from({ length: 8 }, (_, i) => ({
          address: addressIn(family, PODS, 0x800000 + i),
          port: 8080,
          local: place === 'here',
        })),
      }),
    ),
  )
}

function manyServices(family: Family, count: number): PortSpec[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `many-${i}`,
    family,
    protocol: 'TCP' as const,
    frontends: [{ kind: 'ExternalIP' as const, address: addressIn(family, MANY, i), port: PORTS.elsewhere }],
    backends: Array.from({ length: BACKENDS_OF_MANY }, (_, k) => ({
      address: addressIn(family, PODS, i * BACKENDS_OF_MANY + k),
      port: 8080,
    })),
  }))
}
