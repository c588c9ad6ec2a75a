import type { Answer, Side } from '../../src/dataplane/memory/answer.js'
import { MemoryDataplane } from '../../src/dataplane/memory/memory-dataplane.js'
import { type NodeFacts, type Route, Routes } from '../../src/dataplane/memory/node.js'
import { type Packet, TCP, TcpFlag, type Tuple, UDP } from '../../src/dataplane/memory/packet.js'
import { type Address, familyOf } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'
import type { Backend, ServicePort } from '../../src/model/desired.js'
import { SnapshotMap } from '../../src/plan/snapshot-map.js'

/** The reference with one node: uplink up0 to everybody, up1 to the pods 10.0.2.0/24 of another node. */

const route = (to: string, target: Route['target']): Route => ({ to: to as Cidr, target })

export const FACTS: NodeFacts = {
  devices: new Map([
    ['up0', { address4: '192.168.0.1' as Address, mtu: 1500 }],
    ['up1', { address4: '192.168.1.1' as Address, mtu: 1400 }],
    ['up2', { mtu: 1500 }],
  ]),
  routes: new Routes([
    route('0.0.0.0/0', { device: 'up0' }),
    route('10.0.2.0/24', { device: 'up1' }),
    route('10.0.3.0/24', { device: 'up2' }),
    route('10.0.9.0/24', 'unreachable'),
    route('192.168.0.1/32', 'local'),
  ]),
  ownAddresses: new Set(['192.168.0.1', '192.168.1.1'] as Address[]),
  answerPing: false,
  timeouts: {
    tcpEstablishedSeconds: 7440,
    tcpTransitorySeconds: 240,
    tcpClosedSeconds: 10,
    udpSeconds: 120,
    udpStreamSeconds: 300,
  },
  sourcePorts: [[1024, 29999]],
  flows: 1024,
}

export const CLIENT = '203.0.113.7:40000'
export const VIP = '172.30.0.1:80'

export interface Spec extends Partial<Omit<ServicePort, 'frontends' | 'backends'>> {
  /** `ClusterIP 172.30.0.1:80` */
  readonly frontends?: readonly string[]
  /** `10.0.1.5:8080 here`; words: here, draining (in no list) */
  readonly backends: readonly string[]
}

export class MemoryNode {
  readonly dataplane: MemoryDataplane
  #revision = 0
  now = 1000

  constructor(facts: Partial<NodeFacts> = {}) {
    this.dataplane = new MemoryDataplane({ ...FACTS, ...facts })
  }

  apply(...specs: readonly Spec[]): void {
    const ports = specs.map((spec, i) => [`x/s${i}:/TCP/IPv4`, port(spec, i)] as const)
    const services = SnapshotMap.empty<ServicePort>().with(new Map(ports))
    this.dataplane.take({ revision: ++this.#revision, services, podNetworks: ['10.0.0.0/16' as Cidr] })
  }

  where(packet: Packet, side: Side = 'ingress', device = 'up0'): readonly Answer[] {
    return this.dataplane.where({ packet, frame: new Uint8Array(), side, device, now: this.now })
  }

  /** Takes the only answer, or the first; with `sport` where a port was free to choose. */
  send(packet: Packet, side: Side = 'ingress', { device = 'up0', sport = 2000 } = {}): Answer & { to?: string } {
    const [answer] = this.where(packet, side, device)
    if (!answer) throw new Error('no answer')
    const { becomes } = answer
    const to = becomes?.kind === 'translated' ? (becomes.sport ? { ...becomes.to, sport } : becomes.to) : packet.tuple
    answer.take?.(to)
    return becomes?.kind === 'translated' ? { ...answer, to: textOf(to) } : answer
  }
}

function port({ frontends = [`ClusterIP ${VIP}`], backends, ...rest }: Spec, i: number): ServicePort {
  return {
    id: `x/s${i}:/TCP/IPv4`,
    namespace: 'x',
    name: `s${i}`,
    portName: '',
    protocol: 'TCP',
    family: 'IPv4',
    scheduler: 'random',
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    ...rest,
    frontends: frontends.map(text => {
      const [kind, at = ''] = text.split(' ')
      return { kind: kind as 'ClusterIP', ...endpoint(at) }
    }),
    backends: backends.map(text => {
      const [at = '', ...words] = text.split(' ')
      const local = words.includes('here')
      const usable = !words.includes('draining')
      return { ...endpoint(at), local, inCluster: usable, inLocal: local && usable, weight: 1 } satisfies Backend
    }),
  }
}

function endpoint(text: string): { address: Address; port: number } {
  const [address = '', port] = text.split(':')
  return { address: address as Address, port: Number(port) }
}

export function packet(from: string, to: string, proto: 'TCP' | 'UDP', rest: Partial<Packet> = {}): Packet {
  const [src, dst] = [endpoint(from), endpoint(to)]
  const tuple: Tuple = {
    src: src.address,
    sport: src.port,
    dst: dst.address,
    dport: dst.port,
    proto: proto === 'TCP' ? TCP : UDP,
  }
  return {
    tuple,
    family: familyOf(src.address),
    forHost: true,
    ttl: 64,
    size: 60,
    frameSize: 74,
    tcpFlags: 0,
    fragment: undefined,
    icmp: undefined,
    left: undefined,
    defect: undefined,
    ...rest,
  }
}

/** `flags` are letters of FSRA. */
export function tcp(from: string, to: string, flags: string, rest: Partial<Packet> = {}): Packet {
  const bits = { F: TcpFlag.FIN, S: TcpFlag.SYN, R: TcpFlag.RST, A: TcpFlag.ACK } as Record<string, number>
  return packet(from, to, 'TCP', { tcpFlags: [...flags].reduce((sum, each) => sum | (bits[each] ?? 0), 0), ...rest })
}

export function udp(from: string, to: string, rest: Partial<Packet> = {}): Packet {
  return packet(from, to, 'UDP', rest)
}

export function textOf({ src, sport, dst, dport }: Tuple): string {
  return `${src}:${sport} > ${dst}:${dport}`
}
