import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { listTarget, spread } from '../../src/dataplane/ebpf/list-target.js'
import { FlowDirection, Scheduler } from '../../src/ebpf/generated/layouts.js'
import type { Scheduler as SchedulerName } from '../../src/model/desired.js'
import { udp } from './packet.js'
import type { ServiceHandle } from './services.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const SERVICE = 'default/web:http/UDP/IPv4'
const NUMBERS: Readonly<Record<SchedulerName, Scheduler>> = {
  random: Scheduler.RANDOM,
  rr: Scheduler.RR,
  'source-hash': Scheduler.SOURCE_HASH,
  maglev: Scheduler.MAGLEV,
  'least-conn': Scheduler.LEAST_CONN,
}
const FAMILIES = {
  IPv4: {
    vip: '192.168.0.1:30080',
    backend: (n: number) => `10.0.2.${n}:8080`,
    client: (n: number) => `203.0.${n >> 8}.${n & 255}`,
  },
  IPv6: {
    vip: '[2001:db8:c0::1]:30080',
    backend: (n: number) => `[2001:db8:a2::${n}]:8080`,
    client: (n: number) => `[2001:db8:f::${n.toString(16)}]`,
  },
} as const

/** Which backend each scheduler gives to packets, on the programs themselves. */
describe.skipIf(lacking)('packets', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode({ flows: 8192, slots: 65536 })
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  /** A Service with backends of these numbers, its list as the control plane makes it. */
  class Web {
    readonly family: keyof typeof FAMILIES
    readonly #scheduler: SchedulerName
    readonly #weights: ReadonlyMap<number, number>
    readonly #numbers: readonly number[]
    readonly #handle: ServiceHandle

    constructor(
      scheduler: SchedulerName,
      numbers: readonly number[],
      options: { weights?: ReadonlyMap<number, number>; affinityS?: number; family?: keyof typeof FAMILIES } = {},
    ) {
      this.family = options.family ?? 'IPv4'
      this.#scheduler = scheduler
      this.#numbers = numbers
      this.#weights = options.weights ?? new Map()
      this.#handle = node.services.add({
        proto: 'UDP',
        frontends: [{ at: FAMILIES[this.family].vip }],
        backends: numbers.map(n => ({
          at: FAMILIES[this.family].backend(n),
          weight: this.#weights.get(n) ?? 1,
        })),
        scheduler: NUMBERS[scheduler],
        affinityS: options.affinityS ?? 0,
      })
      this.use(numbers)
    }

    /** Leaves these in the list. */
    use(numbers: readonly number[]): void {
      const members = numbers.map(n => ({
        index: this.#handle.backends[this.#numbers.indexOf(n)] ?? 0,
        key: FAMILIES[this.family].backend(n),
        weight: this.#weights.get(n) ?? 1,
      }))
      const target = listTarget(this.#scheduler, SERVICE, members)
      node.services.setList(this.#handle, target.kind === 'table' ? [...target.slots] : spread(target.counts))
    }

    /** The number of the backend that each `client port` is given. All flows before are forgotten. */
    ask(clients: Iterable<readonly [client: number, port: number]>): Map<string, number> {
      node.services.forgetFlows()
      const { vip, client: addressOf } = FAMILIES[this.family]
      for (const [client, port] of clients) {
        node.measure('waggle_ingress', udp(`${addressOf(client)}:${port}`, vip), 1)
      }
      const given = new Map<string, number>()
      for (const { key, flow } of node.services.flows()) {
        if (flow.direction !== FlowDirection.FORWARD) continue
        const number = this.#numbers[this.#handle.backends.indexOf(flow.backend)]
        given.set(key.split(' > ')[0] ?? '', number ?? 0)
      }
      return given
    }
  }

  /** n connections of clients with one port each. */
  const clients = (n: number): [number, number][] => Array.from({ length: n }, (_, i) => [i + 1, 40000])
  /** n connections of one client. */
  const ports = (n: number, client = 7): [number, number][] => Array.from({ length: n }, (_, i) => [client, 20000 + i])

  function countsOf(given: ReadonlyMap<string, number>): Map<number, number> {
    const counts = new Map<number, number>()
    for (const backend of given.values()) counts.set(backend, (counts.get(backend) ?? 0) + 1)
    return counts
  }

  /** Six standard deviations of n flows thrown at random. */
  function expectShares(given: ReadonlyMap<string, number>, shares: ReadonlyMap<number, number>): void {
    const n = given.size
    const counts = countsOf(given)
    for (const [backend, share] of shares) {
      const off = Math.abs((counts.get(backend) ?? 0) - n * share)
      expect(off, `backend ${backend}: ${counts.get(backend)} of ${n}`).toBeLessThan(
        6 * Math.sqrt(n * share * (1 - share)),
      )
    }
    expect([...counts.values()].reduce((a, b) => a + b, 0)).toBe(n)
  }

  const even = (numbers: readonly number[]) => new Map(numbers.map(n => [n, 1 / numbers.length]))
  const FIVE = [1, 2, 3, 4, 5]
  const families = ['IPv4', 'IPv6'] as const

  test.each(
    families.flatMap(family =>
      (['random', 'source-hash', 'maglev', 'least-conn'] as const).map(name => ({ family, name })),
    ),
  )('$name spreads $family clients evenly', ({ family, name }) => {
    const given = new Web(name, FIVE, { family }).ask(clients(1000))
    expect(given.size).toBe(1000)
    expectShares(given, even(FIVE))
  })

  test('round robin is even to one flow', () => {
    const counts = countsOf(new Web('rr', FIVE).ask(clients(500)))
    for (const n of FIVE) expect(Math.abs((counts.get(n) ?? 0) - 100)).toBeLessThanOrEqual(node.cpus)
  })

  const weights = new Map([
    [1, 5],
    [2, 3],
    [3, 2],
  ])
  const weighted = new Map([
    [1, 0.5],
    [2, 0.3],
    [3, 0.2],
  ])

  test.each(['random', 'rr', 'source-hash', 'maglev', 'least-conn'] as const)('%s gives shares by weight', name => {
    expectShares(new Web(name, [1, 2, 3], { weights }).ask(clients(1000)), weighted)
  })

  test.each(families)('source hash: %s ports do not count, and nothing is remembered', family => {
    const web = new Web('source-hash', FIVE, { family })
    const first = [...web.ask(ports(20)).values()]
    expect(new Set(first).size).toBe(1)
    expect([...web.ask(ports(20)).values()]).toEqual(first)
    expect(new Set(web.ask(clients(40)).values()).size).toBe(5)
  })

  test.each(families)('maglev: connections of one %s client differ, and each is given the same again', family => {
    const web = new Web('maglev', FIVE, { family })
    const first = web.ask(ports(200))
    expect(new Set(first.values())).toEqual(new Set(FIVE))
    expect(web.ask(ports(200))).toEqual(first)
  })

  test.each(families.flatMap(family => (['maglev', 'source-hash'] as const).map(name => ({ family, name }))))(
    'row 47: $name over $family is the same on another node, and stays when a backend goes',
    ({ family, name }) => {
      const all = Array.from({ length: 10 }, (_, i) => i + 1)
      const here = new Web(name, all, { family }).ask(clients(1500))
      // Another node learnt of them in another order: other indexes.
      node.services.clear()
      const other = new Web(name, [...all].reverse(), { family })
      expect(other.ask(clients(1500))).toEqual(here)

      other.use(all.filter(n => n !== 4))
      const after = other.ask(clients(1500))
      const others = [...here].filter(([, backend]) => backend !== 4)
      const kept = others.filter(([client, backend]) => after.get(client) === backend).length
      expect(kept / others.length).toBeGreaterThanOrEqual(0.99)
      expect([...after.values()]).not.toContain(4)
    },
  )

  test.each(['random', 'maglev', 'least-conn'] as const)('affinity goes before %s', name => {
    const given = new Web(name, FIVE, { affinityS: 60 }).ask(ports(50))
    expect(given.size).toBe(50)
    expect(new Set(given.values()).size).toBe(1)
  })
})
