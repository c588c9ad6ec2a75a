import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type fc from 'fast-check'
import type { ApiObjects } from '../api-objects.js'
import { ApiServer } from '../api-server.js'
import { findParts } from '../parts.js'
import { type Comparison, compare, type Decision, type Difference } from './compare.js'
import { healthDifferences, NODE_ADDRESS } from './health.js'
import { type History, history, NAMESPACES, render, type State, statesOf, ZONES } from './history.js'
import { KubeProxy } from './kube-proxy.js'
import { OurPlan } from './our-plan.js'
import { HistoryWriter } from './writer.js'

const NODE = 'node-a'
/** kube-proxy's detector of pods; no other address of the tests is in there. */
const CLUSTER_CIDR = '10.244.0.0/16,2001:db8:244::/48'
const STEPS = 5
/** As many as there are node ports for. */
const PER_ROUND = 500
/** Requests in flight. */
const WRITERS = 16
const SETTLE_MS = 90_000
const POLL_MS = 150
const MOST_SHOWN = 5

export interface OracleOptions {
  readonly dir: string
  readonly seed: number
  readonly count: number
  /** Only this history and its neighbour, with which it shares addresses. */
  readonly only: number | undefined
  readonly sample: typeof fc.sample
}

export interface OracleResult {
  readonly histories: number
  readonly steps: number
  readonly frontends: number
  /** Health checks that were asked for. */
  readonly healthChecks: number
  readonly decided: Readonly<Record<Decision, number>>
  /** Which deliberate mistakes made a difference. */
  readonly noticed: readonly string[]
}

/** Throws at the first step after which waggle and kube-proxy differ, with the history that shows it. */
export async function runOracle(options: OracleOptions): Promise<OracleResult> {
  const parts = findParts()
  if ('missing' in parts) throw new Error(parts.missing)
  const api = await ApiServer.up(path.join(options.dir, 'api'))
  const objects = api.objects()
  let proxy: KubeProxy | undefined
  let ours: OurPlan | undefined
  try {
    for (const name of NAMESPACES) await objects.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    await objects.apply(THE_NODE)
    proxy = KubeProxy.start({
      binary: parts.kubeProxy,
      dir: options.dir,
      kubeconfig: api.adminKubeconfig,
      nodeName: NODE,
      clusterCIDR: CLUSTER_CIDR,
    })
    ours = await OurPlan.start(api.agentKubeconfig, NODE)
    return await new Run(options, objects, proxy, ours).all()
  } finally {
    await ours?.stop()
    await proxy?.stop()
    objects.close()
    await api.down()
  }
}

class Run {
  readonly #options: OracleOptions
  readonly #objects: ApiObjects
  readonly #proxy: KubeProxy
  readonly #ours: OurPlan
  readonly #decided: Record<Decision, number> = { claimedTwice: 0, duplicates: 0, sourceRanges: 0 }
  readonly #noticed = new Set<string>()
  #steps = 0
  #frontends = 0
  #healthChecks = 0

  constructor(options: OracleOptions, objects: ApiObjects, proxy: KubeProxy, ours: OurPlan) {
    this.#options = options
    this.#objects = objects
    this.#proxy = proxy
    this.#ours = ours
  }

  async all(): Promise<OracleResult> {
    const { seed, count, only, sample } = this.#options
    const histories = sample(history(STEPS), { seed, numRuns: count })
    let done = 0
    for (let from = 0; from < count; from += PER_ROUND) {
      const round = histories
        .slice(from, from + PER_ROUND)
        .map((each, index) => ({ history: each, number: from + index, index }))
        .filter(({ number }) => only === undefined || number >> 1 === only >> 1)
      if (round.length > 0) await this.#round(round)
      done += round.length
    }
    return {
      histories: done,
      steps: this.#steps,
      frontends: this.#frontends,
      healthChecks: this.#healthChecks,
      decided: this.#decided,
      noticed: [...this.#noticed],
    }
  }

  async #round(round: readonly { history: History; number: number; index: number }[]): Promise<void> {
    const lives = round.map(({ history, number, index }) => {
      return { states: statesOf(history), number, index, writer: new HistoryWriter(this.#objects) }
    })
    for (let step = 0; step < STEPS; step++) {
      await inParallel(lives, async ({ states, index, number, writer }) => {
        try {
          await writer.become(render(states[step] as State, index))
        } catch (cause) {
          throw new Error(`history ${number}, step ${step}: ${(cause as Error).message}`, { cause })
        }
      })
      // A zone more than there are: the node has none then.
      const zone = ZONES[(this.#options.seed + this.#steps) % (ZONES.length + 1)]
      await this.#settle(zone)
      const { differences } = await this.#compare()
      if (differences.length === 0) continue
      throw new Error(`after step ${step} of ${STEPS}:\n${await this.#explain(differences, lives, step)}`)
    }
    await inParallel(lives, ({ writer }) => writer.become({ service: undefined, slices: new Map() }))
    await this.#settle(undefined)
    const { differences } = await this.#compare()
    if (differences.length > 0) throw new Error(`after all are gone:\n${differences.map(each => each.text).join('\n')}`)
  }

  /**
   * Waits until both sides have seen all that was written: what is written last, and needs a
   * Service, a slice and the Node to come out right, is there on both.
   */
  async #settle(zone: string | undefined): Promise<void> {
    const portName = `step${++this.#steps}`
    await this.#objects.patch(THE_NODE, { metadata: { labels: { 'topology.kubernetes.io/zone': zone ?? null } } })
    await this.#objects.apply(...marker(portName))
    const wanted = zone === undefined ? ZONES : [zone]
    const addresses = (ipv4: boolean) => wanted.map(name => markerAddress(name, ipv4))
    const deadline = performance.now() + SETTLE_MS
    const seen = async () => {
      for (const family of ['IPv4', 'IPv6'] as const) {
        const all = addresses(family === 'IPv4')
        const port = this.#ours.desired.services.get(`default/marker:${portName}/TCP/${family}`)
        const chosen = port?.backends.filter(each => each.inCluster).map(each => each.address as string)
        if (chosen?.join() !== all.join()) return `waggle's ${family}`
        const theirs = await this.#proxy.backendsOf(family, { namespace: 'default', name: 'marker', portName })
        const has = (name: string) => theirs?.includes(`"${markerAddress(name, family === 'IPv4')}"`) === true
        if (!ZONES.every(name => has(name) === wanted.includes(name as never))) return `kube-proxy's ${family}`
      }
      return undefined
    }
    for (let missing = await seen(); missing !== undefined; missing = await seen()) {
      this.#proxy.check()
      if (performance.now() > deadline) {
        const seconds = SETTLE_MS / 1000
        throw new Error(`${missing} side has not settled in ${seconds} s; kube-proxy's log:\n${this.#proxy.logTail()}`)
      }
      await sleep(POLL_MS)
    }
  }

  async #compare(): Promise<Comparison> {
    const [ipv4, ipv6] = await Promise.all([this.#proxy.rules('IPv4'), this.#proxy.rules('IPv6')])
    const { desired, objects } = this.#ours
    const place = { nodeName: NODE, zone: this.#ours.node?.zone }
    const sides = { rules: { IPv4: ipv4, IPv6: ipv6 }, objects, place, contested: this.#ours.contested() }
    const result = compare({ ...sides, desired })
    const health = await healthDifferences(this.#ours.healthChecks, objects)
    this.#healthChecks += health.asked
    this.#frontends += result.frontends
    for (const [name, times] of Object.entries(result.decided)) this.#decided[name as Decision] += times
    for (const [name, mistaken] of Object.entries(MISTAKES)) {
      if (this.#noticed.has(name)) continue
      if (compare({ ...sides, desired: mistaken(this.#ours) }).differences.length > 0) this.#noticed.add(name)
    }
    return { ...result, differences: [...result.differences, ...health.differences] }
  }

  async #explain(
    differences: readonly Difference[],
    lives: readonly { states: readonly State[]; number: number; index: number }[],
    step: number,
  ): Promise<string> {
    const lines = [`${differences.length} differences`]
    const { body } = await this.#objects.request('GET', '/api/v1/services')
    for (const { service: named, frontend, text } of differences.slice(0, MOST_SHOWN)) {
      // One that waggle does not serve is known by what the API server says of it.
      const owner = body.items.find((item: object) => JSON.stringify(item).includes(`"${frontend}"`))?.metadata
      const service = named || `${owner?.namespace}/${owner?.name}`
      const life = lives.find(({ index }) => service === `${NAMESPACES[index % 2]}/s${index}`)
      lines.push('', text)
      if (life === undefined) continue
      lines.push(
        `SEED=${this.#options.seed} N=${this.#options.count} HISTORY=${life.number}, node in ${this.#ours.node?.zone}`,
      )
      if (step > 0)
        lines.push(`before: ${JSON.stringify(render(life.states[step - 1] as State, life.index).service?.body)}`)
      const { service: now, slices } = render(life.states[step] as State, life.index)
      for (const object of [now?.body, now?.status, ...slices.values()]) lines.push(JSON.stringify(object))
    }
    return lines.join('\n')
  }
}

/** Desired states with one mistake each: a comparison that misses them is worth nothing. */
const MISTAKES: Readonly<Record<string, (ours: OurPlan) => OurPlan['desired']>> = {
  node: ours => ours.mistaken('node-b', same, same),
  terminating: ours =>
    ours.mistaken(NODE, same, slice => ({
      ...slice,
      endpoints: slice.endpoints.map(each => ({ ...each, terminating: false })),
    })),
  serving: ours =>
    ours.mistaken(NODE, same, slice => ({
      ...slice,
      endpoints: slice.endpoints.map(each => ({ ...each, serving: each.ready })),
    })),
  hints: ours =>
    ours.mistaken(NODE, same, slice => ({
      ...slice,
      endpoints: slice.endpoints.map(({ zones, nodes, ...each }) => each),
    })),
  'internal policy': ours => ours.mistaken(NODE, service => ({ ...service, internalLocal: false }), same),
  'external policy': ours => ours.mistaken(NODE, service => ({ ...service, externalLocal: false }), same),
  affinity: ours => ours.mistaken(NODE, service => ({ ...service, affinitySeconds: 0 }), same),
  'source ranges': ours => ours.mistaken(NODE, ({ sourceRanges, ...service }) => service, same),
}

function same<T>(value: T): T {
  return value
}

const THE_NODE = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: NODE },
  spec: { podCIDR: '10.244.1.0/24', podCIDRs: ['10.244.1.0/24', '2001:db8:244:1::/64'] },
  status: {
    addresses: [
      { type: 'InternalIP', address: NODE_ADDRESS.IPv4 },
      { type: 'InternalIP', address: NODE_ADDRESS.IPv6 },
    ],
  },
}

function markerAddress(zone: string, ipv4: boolean): string {
  const number = ZONES.indexOf(zone as (typeof ZONES)[number]) + 1
  return ipv4 ? `10.255.0.${number}` : `2001:db8:ff::${number}`
}

/** A dual-stack Service with an endpoint for each zone; the port's name says of which step it is. */
function marker(portName: string): object[] {
  const slice = (ipv4: boolean) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `marker-${ipv4 ? 4 : 6}`, labels: { 'kubernetes.io/service-name': 'marker' } },
    addressType: ipv4 ? 'IPv4' : 'IPv6',
    ports: [{ name: portName, protocol: 'TCP', port: 8080 }],
    endpoints: ZONES.map(name => ({
      addresses: [markerAddress(name, ipv4)],
      conditions: { ready: true },
      hints: { forZones: [{ name }] },
    })),
  })
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'marker' },
    spec: { ipFamilyPolicy: 'RequireDualStack', ports: [{ name: portName, port: 80, protocol: 'TCP' }] },
  }
  return [slice(true), slice(false), service]
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const worker = async () => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: WRITERS }, worker))
}
