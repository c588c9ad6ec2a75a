import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe } from 'vitest'
import { sourceRangeKeyBytes } from '../../src/dataplane/ebpf/encode.js'
import { type Codec, fromBytes, type MapLayout, toBytes, u32 } from '../../src/ebpf/codec.js'
import {
  BackendFlag,
  type backendStats,
  FrontendFlag,
  FrontendKind,
  type Hook,
  maps,
  Outcome,
  outcomeNames,
  outcomeStats,
  Scheduler,
  ServiceFlag,
  serviceStats,
  type sockPlace,
} from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfLink, BpfMap, BpfObject } from '../../src/ebpf/native.js'
import { SOCK_EGRESS_HOOK, SOCK_HOOKS, type SockHook } from '../../src/ebpf/sock-hooks.js'
import { addressToBytes, parseAddress } from '../../src/model/address.js'
import { parseCidr } from '../../src/model/cidr.js'

/**
 * A small world for the socket layer: network namespaces whose loopback carries the
 * backends' addresses, echo servers on them, a cgroup with our programs, and clients in
 * it that make system calls one by one. Services exist only in the maps.
 *
 *   backends  10.1.0.N, 2001:db8:1::N, port 8080, TCP and UDP (N = 1-4)
 *   services  172.30.0.N, 2001:db8:30::N (routed nowhere)
 */
export const BACKENDS_V4 = ['10.1.0.1', '10.1.0.2', '10.1.0.3'] as const
export const BACKENDS_V6 = ['2001:db8:1::1', '2001:db8:1::2', '2001:db8:1::3'] as const
/** Reachable, but a backend of no service. */
export const OUTSIDER_V4 = '10.1.0.4'
export const OUTSIDER_V6 = '2001:db8:1::4'
export const BACKEND_PORT = 8080

const ECHO_ADDRESSES = [...BACKENDS_V4, OUTSIDER_V4, ...BACKENDS_V6, OUTSIDER_V6]
const PROTO = { TCP: 6, UDP: 17 } as const
/** Of each map; the defaults would cost 100 MB a test file. */
const MAP_ENTRIES = 1024
/** Sockets whose cookies differ by a multiple of this meet. */
export const SOCK_PLACES = BigInt(maps.sockPlaces.maxEntries)
const OBJECTS = join(import.meta.dirname, '../../build/bpf')

/** What these tests need and this machine lacks, or undefined. */
function missing(): string | undefined {
  if (process.getuid?.() !== 0) return 'root, for BPF programs and network namespaces'
  if (!cgroupRoot()) return 'a mounted cgroup v2, to attach to'
  return undefined
}

/** `describe` with real sockets; skipped where they cannot be had, except in CI, where that fails. */
export function describeSockets(name: string, body: () => void): void {
  const lack = missing()
  if (lack === undefined || process.env.CI) describe(name, body)
  else describe.skip(`${name} (needs ${lack})`, body)
}

function cgroupRoot(): string | undefined {
  const mount = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map(line => line.split(' '))
    .find(fields => fields[2] === 'cgroup2')
  return mount?.[1]
}

export interface ServiceSpec {
  readonly frontends: readonly {
    readonly addr: string
    readonly port: number
    readonly proto: 'TCP' | 'UDP'
    readonly kind?: FrontendKind
    readonly loopback?: boolean
  }[]
  readonly backends: readonly { readonly addr: string; readonly local?: boolean; readonly weight?: number }[]
  readonly scheduler?: Scheduler
  readonly affinityS?: number
  readonly internalLocal?: boolean
  readonly externalLocal?: boolean
  /** Networks that may use its load-balancer frontends; unset = everybody. */
  readonly sourceRanges?: readonly string[]
  /** Whether these let in the node, and all its pods. */
  readonly sources?: { readonly node?: boolean; readonly pods?: boolean }
}

export interface ServiceHandle {
  readonly index: number
  /** Indexes of its backends, in the order of the spec. */
  readonly backends: readonly number[]
}

export class SockRig {
  readonly #name = `waggle-sock-test-${process.pid}`
  readonly #dir = mkdtempSync(join(tmpdir(), 'waggle-sock-'))
  readonly #cgroup = join(cgroupRoot() ?? '', this.#name)
  readonly #processes: ChildProcess[] = []
  readonly #netns: string[] = []
  readonly #links: BpfLink[] = []
  readonly #objects: BpfObject[] = []
  readonly #maps = new Map<string, BpfMap>()
  #egress: BpfObject | undefined
  #egressLink: BpfLink | undefined
  #cpus = 1
  #services = 0
  #backends = 0
  readonly #slots: number[] = []
  readonly #specs = new Map<number, ServiceSpec>()
  readonly #local = new Set<number>()

  /** Loads, attaches and starts the echo servers. Whatever fails, nothing is left behind. */
  static async create(): Promise<SockRig> {
    const rig = new SockRig()
    try {
      mkdirSync(rig.#cgroup)
      execFileSync('gcc', ['-O1', '-o', rig.#helper, join(import.meta.dirname, 'sock-client.c')])
      await rig.#addNetns('a')
      rig.#load()
      return rig
    } catch (error) {
      await rig.close()
      throw error
    }
  }

  /** Ends all processes and removes everything that was made. */
  async close(): Promise<void> {
    for (const link of [this.#egressLink, ...this.#links]) link?.close()
    for (const map of this.#maps.values()) map.close()
    for (const object of this.#objects) object.close()
    await Promise.all(this.#processes.map(end))
    for (const name of this.#netns) execFileSync('ip', ['netns', 'del', name])
    if (existsSync(this.#cgroup)) rmdirSync(this.#cgroup)
    rmSync(this.#dir, { recursive: true })
  }

  get #helper(): string {
    return join(this.#dir, 'sock-client')
  }

  #load(): void {
    const native = loadNative()
    const sock = this.#open('sock.bpf.o')
    const cookie = new Uint8Array(8)
    const node = native.inNetns(`/run/netns/${this.#name}-a`, () => native.netnsCookie())
    new DataView(cookie.buffer).setBigUint64(0, node ?? 0n, true)
    sock.setConstant('cfg_node_netns', cookie)
    sock.load()
    // The maps of flows are none of theirs.
    const declared = sock.mapNames()
    for (const map of Object.values(maps)) if (declared.includes(map.name)) this.#maps.set(map.name, sock.map(map.name))
    for (const hook of SOCK_HOOKS) this.#links.push(this.#attach(sock, hook))
    const egress = this.#open('sockegress.bpf.o')
    for (const name of egress.mapNames()) if (this.#maps.has(name)) egress.reuseMap(name, this.#map(name))
    egress.load()
    this.#egress = egress
    this.#cpus = native.possibleCpus()
  }

  #open(name: string): BpfObject {
    const object = loadNative().openObject(join(OBJECTS, name))
    this.#objects.push(object)
    const declared = new Set(object.mapNames())
    for (const map of Object.values(maps)) {
      // Programs know the number of places.
      if (map.maxEntries <= MAP_ENTRIES || map === maps.sockPlaces) continue
      if (declared.has(map.name)) object.setMaxEntries(map.name, MAP_ENTRIES)
    }
    return object
  }

  #attach(object: BpfObject, hook: SockHook): BpfLink {
    const program = object.program(hook.program)
    const link = loadNative().attachCgroup(program, this.#cgroup, hook.attachType)
    program.close()
    return link
  }

  #map(name: string): BpfMap {
    const map = this.#maps.get(name)
    if (!map) throw new Error(`no map ${name}`)
    return map
  }

  /** Attaches the rule for stale datagrams, or takes it away. */
  setEgressRule(on: boolean): void {
    this.#egressLink?.close()
    this.#egressLink = on && this.#egress ? this.#attach(this.#egress, SOCK_EGRESS_HOOK) : undefined
  }

  /** A network namespace with the backends' addresses and an echo server on each. */
  async #addNetns(suffix: string): Promise<void> {
    const name = `${this.#name}-${suffix}`
    execFileSync('ip', ['netns', 'add', name])
    this.#netns.push(name)
    // Ping sockets, the one kind besides TCP and UDP that runs the connect hook.
    execFileSync('nsenter', [`--net=/run/netns/${name}`, 'sysctl', '-qw', 'net.ipv4.ping_group_range=0 0'])
    const addresses = ECHO_ADDRESSES.map(addr =>
      addr.includes(':') ? `addr add ${addr}/128 dev lo nodad` : `addr add ${addr}/32 dev lo`,
    )
    execFileSync('ip', ['-n', name, '-batch', '-'], { input: ['link set lo up', ...addresses].join('\n') })
    const endpoints = ECHO_ADDRESSES.flatMap(addr => [addr, String(BACKEND_PORT)])
    const server = spawn(this.#helper, ['serve', `/run/netns/${name}`, ...endpoints], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#processes.push(server)
    await firstLine(server)
  }

  /** A process in the cgroup. `netns` a is the node's network namespace, b a pod's. */
  async client(netns: 'a' | 'b' = 'a'): Promise<SockClient> {
    const name = `${this.#name}-${netns}`
    if (!this.#netns.includes(name)) await this.#addNetns(netns)
    const child = spawn(this.#helper, ['run', `/run/netns/${name}`, this.#cgroup], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#processes.push(child)
    return new SockClient(child)
  }

  /** Possible CPUs: round robin counts on each by itself. */
  get cpus(): number {
    return this.#cpus
  }

  // --- control plane ---------------------------------------------------------

  #put<K, V>(map: MapLayout<K, V>, key: K, value: V): void {
    this.#map(map.name).update(toBytes(map.key, key), toBytes(map.value, value))
  }

  /** Writes a Service port as the control plane does: backends, slots, service, frontends. */
  addService(spec: ServiceSpec): ServiceHandle {
    const index = ++this.#services
    const backends = spec.backends.map(() => ++this.#backends)
    this.#specs.set(index, spec)
    spec.backends.forEach((backend, i) => {
      if (backend.local) this.#local.add(backends[i] ?? 0)
      const flags = BackendFlag.IN_CLUSTER | (backend.local ? BackendFlag.LOCAL | BackendFlag.IN_LOCAL : 0)
      this.#putBackend(backends[i] ?? 0, backend.addr, flags, 1, index, backend.weight)
    })
    for (const range of spec.sourceRanges ?? []) {
      const cidr = parseCidr(range)
      if (cidr === undefined) throw new Error(`not a network: ${range}`)
      this.#map(maps.srcRanges.name).update(sourceRangeKeyBytes(index, cidr), toBytes(u32, 1))
    }
    this.setBackends(index, backends)
    for (const frontend of spec.frontends) {
      const flags = frontend.loopback ? FrontendFlag.LOOPBACK : 0
      this.#putFrontend(frontend.addr, frontend.port, PROTO[frontend.proto], index, frontend.kind, flags)
    }
    // The address is a Service's whatever the port.
    for (const addr of new Set(spec.frontends.filter(each => !each.loopback).map(each => each.addr))) {
      this.#putFrontend(addr, 0, 0, 0, FrontendKind.ADDRESS)
    }
    return { index, backends }
  }

  /** Moves the service to another list of its backends, which may stand in it several times. */
  setBackends(index: number, backends: readonly number[]): void {
    const spec = this.#specs.get(index)
    if (!spec) throw new Error(`no service ${index}`)
    const local = backends.filter(each => this.#local.has(each))
    this.#put(maps.services, index, {
      cluster: this.#range(backends),
      local: this.#range(local),
      affinityS: spec.affinityS ?? 0,
      scheduler: spec.scheduler ?? Scheduler.RR,
      flags:
        (spec.internalLocal ? ServiceFlag.INTERNAL_LOCAL : 0) |
        (spec.externalLocal ? ServiceFlag.EXTERNAL_LOCAL : 0) |
        (spec.sourceRanges ? ServiceFlag.SOURCE_RANGES : 0) |
        (spec.sources?.node ? ServiceFlag.SOURCE_NODE : 0) |
        (spec.sources?.pods ? ServiceFlag.SOURCE_PODS : 0),
    })
  }

  /** What the loader must never leave: a list whose slots hold no backend. */
  breakService(index: number): void {
    const broken = (1n << 32n) | BigInt(MAP_ENTRIES * 16)
    this.#put(maps.services, index, { cluster: broken, local: 0n, affinityS: 0, scheduler: 0, flags: 0 })
  }

  /** The backend leaves its service's list and is gone: its generation is raised. */
  removeBackend(service: ServiceHandle, backend: number): void {
    this.setBackends(
      service.index,
      service.backends.filter(each => each !== backend),
    )
    this.#putBackend(backend, this.#addressOf(service, backend), 0, 2, service.index)
  }

  /** The backend leaves its service's list but goes on serving those who have it. */
  drainBackend(service: ServiceHandle, backend: number): void {
    this.setBackends(
      service.index,
      service.backends.filter(each => each !== backend),
    )
    this.#putBackend(backend, this.#addressOf(service, backend), 0, 1, service.index)
  }

  /** Index of the service's backend with this address. */
  backendAt(service: ServiceHandle, addr: string): number {
    const position = this.#specs.get(service.index)?.backends.findIndex(each => each.addr === addr) ?? -1
    const index = service.backends[position]
    if (index === undefined) throw new Error(`service ${service.index} has no backend at ${addr}`)
    return index
  }

  #addressOf(service: ServiceHandle, backend: number): string {
    const spec = this.#specs.get(service.index)?.backends[service.backends.indexOf(backend)]
    if (!spec) throw new Error(`service ${service.index} has no backend ${backend}`)
    return spec.addr
  }

  /** A frontend's address is dialled by nobody's Service any more. */
  removeFrontend(addr: string, port: number, proto: 'TCP' | 'UDP'): void {
    for (const key of [this.#frontendKey(addr, port, PROTO[proto]), this.#frontendKey(addr, 0, 0)]) {
      this.#map(key.map).delete(key.bytes)
    }
  }

  #putBackend(index: number, addr: string, flags: number, generation: number, service: number, weight = 1): void {
    this.#put(maps.backends, index, { addr: bytesOf(addr), port: BACKEND_PORT, flags, generation, service, weight })
  }

  #frontendKey(addr: string, port: number, proto: number): { map: string; bytes: Uint8Array } {
    if (addr.includes(':')) {
      const bytes = toBytes(maps.frontends6.key, { addr: bytesOf(addr), port, proto })
      return { map: maps.frontends6.name, bytes }
    }
    const word = new DataView(bytesOf(addr).buffer).getUint32(12)
    return { map: maps.frontends4.name, bytes: toBytes(maps.frontends4.key, { addr: word, port, proto }) }
  }

  #putFrontend(addr: string, port: number, proto: number, service: number, kind?: FrontendKind, flags = 0): void {
    const key = this.#frontendKey(addr, port, proto)
    const value = { service, kind: kind ?? FrontendKind.CLUSTER_IP, flags }
    this.#map(key.map).update(key.bytes, toBytes(maps.frontends4.value, value))
  }

  /** Puts a list into fresh slots and returns the word for the service. */
  #range(backends: readonly number[]): bigint {
    const base = this.#slots.length
    this.#slots.push(...backends)
    for (let block = Math.floor(base / 16); block * 16 < this.#slots.length; block++) {
      const words = Array.from({ length: 16 }, (_, i) => this.#slots[block * 16 + i] ?? 0)
      this.#put(maps.slots, block, { words })
    }
    return (BigInt(backends.length) << 32n) | BigInt(base)
  }

  // --- counters --------------------------------------------------------------

  #get<V>(map: MapLayout<number, V>, key: number): V {
    const bytes = this.#map(map.name).lookup(toBytes(map.key, key))
    if (!bytes) throw new Error(`${map.name} has no ${key}`)
    return fromBytes(map.value, bytes)
  }

  #perCpu<V>(map: MapLayout<number, V>, codec: Codec<V>, key: number): V[] {
    const bytes = this.#map(map.name).lookup(toBytes(map.key, key))
    if (!bytes) throw new Error(`${map.name} has no ${key}`)
    const step = Math.ceil(codec.size / 8) * 8
    return Array.from({ length: bytes.length / step }, (_, cpu) => fromBytes(codec, bytes, cpu * step))
  }

  /** Who has the place of the socket with this cookie (0 = nobody), and the mark there. */
  place(cookie: bigint): ReturnType<typeof sockPlace.decode> {
    return this.#get<ReturnType<typeof sockPlace.decode>>(maps.sockPlaces, Number(cookie % SOCK_PLACES))
  }

  /** Gives that place to whoever has the cookie `place.cookie`. */
  setPlace(cookie: bigint, place: ReturnType<typeof sockPlace.decode>): void {
    this.#put(maps.sockPlaces, Number(cookie % SOCK_PLACES), place)
  }

  /** How many places are taken. */
  places(): number {
    let taken = 0
    for (let cookie = 0n; cookie < SOCK_PLACES; cookie++) if (this.place(cookie).cookie !== 0n) taken++
    return taken
  }

  /** Sockets close without being noticed while this is off. */
  setRelease(on: boolean): void {
    const at = SOCK_HOOKS.findIndex(hook => hook.program === 'sock_release')
    const [sock] = this.#objects
    this.#links[at]?.close()
    if (on && sock) this.#links[at] = this.#attach(sock, SOCK_HOOKS[at] as SockHook)
  }

  /** Connected UDP sockets that point at a backend. */
  udpLive(backend: number): bigint {
    return this.#get<ReturnType<typeof backendStats.decode>>(maps.beStats, backend).udpLive
  }

  /** The same for TCP. */
  tcpLive(backend: number): bigint {
    return this.#get<ReturnType<typeof backendStats.decode>>(maps.beStats, backend).tcpLive
  }

  /** Flows a backend was given. */
  opened(backend: number): bigint {
    return this.#get<ReturnType<typeof backendStats.decode>>(maps.beStats, backend).opened
  }

  /** Counters of a service over all CPUs. */
  serviceStats(index: number): { opened: bigint; refused: bigint } {
    const cpus = this.#perCpu(maps.svcStats, serviceStats, index)
    return {
      opened: cpus.reduce((sum, each) => sum + each.opened, 0n),
      refused: cpus.reduce((sum, each) => sum + each.refused, 0n),
    }
  }

  /** Non-zero exits of a hook over all CPUs, by the label of the outcome. */
  outcomes(hook: Hook): Record<string, number> {
    const counted: Record<string, number> = {}
    for (let outcome = 0; outcome < Outcome.COUNT; outcome++) {
      const cpus = this.#perCpu(maps.outcomes, outcomeStats, hook * Outcome.COUNT + outcome)
      const packets = cpus.reduce((sum, each) => sum + each.packets, 0n)
      if (packets > 0n) counted[outcomeNames[outcome] ?? String(outcome)] = Number(packets)
    }
    return counted
  }

  /** What `body` adds to the exits of a hook. */
  async countedBy(hook: Hook, body: () => Promise<unknown>): Promise<Record<string, number>> {
    const before = this.outcomes(hook)
    await body()
    const after = Object.entries(this.outcomes(hook)).map(([name, n]) => [name, n - (before[name] ?? 0)] as const)
    return Object.fromEntries(after.filter(([, n]) => n > 0))
  }
}

export type SocketKind = 'tcp4' | 'tcp6' | 'udp4' | 'udp6' | 'icmp4' | 'mptcp4'

/** One process; each call is one system call there, answered with its result or errno. */
export class SockClient {
  readonly #child: ChildProcess
  readonly #answers: AsyncIterator<string>
  #sockets = 0

  constructor(child: ChildProcess) {
    if (!child.stdout) throw new Error('the client has no standard output')
    this.#child = child
    this.#answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  }

  /** Runs one command of sock-client.c; the answer without `ok `, or the name of the errno. */
  async call(...words: readonly (string | number)[]): Promise<string> {
    this.#child.stdin?.write(`${words.join(' ')}\n`)
    const { value, done } = await this.#answers.next()
    if (done) throw new Error(`the client ended at: ${words.join(' ')}`)
    return (value as string).replace(/^(ok|err) ?/, '')
  }

  async socket(kind: SocketKind): Promise<SockHandle> {
    return this.adopt(++this.#sockets, await this.call('socket', this.#sockets, kind))
  }

  /** The handle of a socket that a call made. */
  adopt(id: number, answer: string): SockHandle {
    if (answer !== '') throw new Error(answer)
    return new SockHandle(this, id)
  }

  nextId(): number {
    return ++this.#sockets
  }
}

/** A socket in a client; the empty string is success, anything else data or an errno. */
export class SockHandle {
  readonly #client: SockClient
  readonly #id: number

  constructor(client: SockClient, id: number) {
    this.#client = client
    this.#id = id
  }

  connect = (addr: string, port: number) => this.#client.call('connect', this.#id, addr, port)
  bind = (addr: string, port: number) => this.#client.call('bind', this.#id, addr, port)
  /** connect(AF_UNSPEC) */
  disconnect = () => this.#client.call('disconnect', this.#id)
  send = (text: string, how: 'send' | 'write' | 'sendmsg' | 'sendmmsg' = 'send') =>
    this.#client.call(how, this.#id, text)
  sendto = (addr: string, port: number, text: string) => this.#client.call('sendto', this.#id, addr, port, text)
  /** `SENDER:PORT TEXT`; a connection has no sender: `-`. */
  recv = () => this.#client.call('recv', this.#id)
  peer = () => this.#client.call('peer', this.#id)
  close = () => this.#client.call('close', this.#id)
  /** SO_COOKIE */
  cookie = async () => BigInt(await this.#client.call('cookie', this.#id))

  async dup(): Promise<SockHandle> {
    const id = this.#client.nextId()
    return this.#client.adopt(id, await this.#client.call('dup', this.#id, id))
  }

  /** Sends on a connected socket and returns the answer. */
  async ask(text: string): Promise<string> {
    const sent = await this.send(text)
    return sent === '' ? this.recv() : sent
  }

  /** Sends to an address and returns the answer. */
  async askTo(addr: string, port: number, text: string): Promise<string> {
    const sent = await this.sendto(addr, port, text)
    return sent === '' ? this.recv() : sent
  }
}

function bytesOf(addr: string): Uint8Array {
  const parsed = parseAddress(addr)
  if (!parsed) throw new Error(`not an address: ${addr}`)
  return addressToBytes(parsed)
}

async function firstLine(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve())
    child.once('exit', code => reject(new Error(`the echo server ended with ${code}`)))
  })
}

/** Closing standard input ends both kinds; one that does not listen is killed. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise(resolve => child.once('exit', resolve))
  child.stdin?.end()
  const timer = setTimeout(() => child.kill('SIGKILL'), 2000)
  await gone
  clearTimeout(timer)
}
