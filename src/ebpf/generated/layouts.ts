// Written by `make gen` from bpf/layout/ and bpf/maps.h (tools/gen-layouts). Do not edit.
import { type Codec, type MapLayout, checkCount, getBytes, getText, i32, putBytes, putText, putZero, u32, uint, uint64 } from '../codec.js'

/** enum outcome */
export const Outcome = {
  CONTINUE: 0,
  NOT_SERVICE: 1,
  NOT_HANDLED: 2,
  FRAGMENT: 3,
  TRANSLATED: 4,
  DELIVERED: 5,
  FORWARDED: 6,
  REPLIED: 7,
  UNKNOWN_FLOW: 8,
  HOST_PORT: 9,
  NO_PORT: 10,
  NO_BACKEND: 11,
  NO_LOCAL_BACKEND: 12,
  MALFORMED: 13,
  SNAT_EXHAUSTED: 14,
  FLOWS_FULL: 15,
  NO_ROUTE: 16,
  NO_SOURCE_ADDRESS: 17,
  TTL_EXCEEDED: 18,
  REWRITE_FAILED: 19,
  STALE_SOCKET: 20,
  BROKEN_STATE: 21,
  TOO_BIG: 22,
  SOURCE_DENIED: 23,
  BAD_FRAGMENT: 24,
  FRAGMENT_HELD: 25,
  FRAGMENT_RELEASED: 26,
  SOURCE_ROUTE: 27,
  EXTENSION_HEADERS: 28,
  MARTIAN: 29,
  ICMP_TRANSLATED: 30,
  PING_ANSWERED: 31,
  PING_IGNORED: 32,
  REPLY_LIMITED: 33,
  PORT_MOVED: 34,
  LEFT_TO_TC: 35,
  KERNEL_FLOW: 36,
  SNAT_LIMITED: 37,
  COUNT: 38,
} as const
export type Outcome = (typeof Outcome)[keyof typeof Outcome]

/** Labels of enum outcome by value. */
export const outcomeNames: Readonly<Record<number, string>> = {
  0: 'continue',
  1: 'not_service',
  2: 'not_handled',
  3: 'fragment',
  4: 'translated',
  5: 'delivered',
  6: 'forwarded',
  7: 'replied',
  8: 'unknown_flow',
  9: 'host_port',
  10: 'no_port',
  11: 'no_backend',
  12: 'no_local_backend',
  13: 'malformed',
  14: 'snat_exhausted',
  15: 'flows_full',
  16: 'no_route',
  17: 'no_source_address',
  18: 'ttl_exceeded',
  19: 'rewrite_failed',
  20: 'stale_socket',
  21: 'broken_state',
  22: 'too_big',
  23: 'source_denied',
  24: 'bad_fragment',
  25: 'fragment_held',
  26: 'fragment_released',
  27: 'source_route',
  28: 'extension_headers',
  29: 'martian',
  30: 'icmp_translated',
  31: 'ping_answered',
  32: 'ping_ignored',
  33: 'reply_limited',
  34: 'port_moved',
  35: 'left_to_tc',
  36: 'kernel_flow',
  37: 'snat_limited',
}

/** enum hook */
export const Hook = {
  CONNECT: 0,
  SENDMSG: 1,
  RECVMSG: 2,
  GETPEERNAME: 3,
  SOCK_EGRESS: 4,
  TC_INGRESS: 5,
  TC_EGRESS: 6,
  XDP: 7,
  COUNT: 8,
} as const
export type Hook = (typeof Hook)[keyof typeof Hook]

/** Labels of enum hook by value. */
export const hookNames: Readonly<Record<number, string>> = {
  0: 'connect',
  1: 'sendmsg',
  2: 'recvmsg',
  3: 'getpeername',
  4: 'sock_egress',
  5: 'tc_ingress',
  6: 'tc_egress',
  7: 'xdp',
}

/** enum frontend_kind */
export const FrontendKind = {
  CLUSTER_IP: 1,
  EXTERNAL_IP: 2,
  LOAD_BALANCER: 3,
  NODE_PORT: 4,
  ADDRESS: 5,
} as const
export type FrontendKind = (typeof FrontendKind)[keyof typeof FrontendKind]

/** Labels of enum frontend_kind by value. */
export const frontendKindNames: Readonly<Record<number, string>> = {
  1: 'cluster_ip',
  2: 'external_ip',
  3: 'load_balancer',
  4: 'node_port',
  5: 'address',
}

/** enum frontend_flag */
export const FrontendFlag = {
  OWN_ADDRESS: 1,
  LOOPBACK: 2,
} as const
export type FrontendFlag = (typeof FrontendFlag)[keyof typeof FrontendFlag]

/** Labels of enum frontend_flag by value. */
export const frontendFlagNames: Readonly<Record<number, string>> = {
  1: 'own_address',
  2: 'loopback',
}

/** enum scheduler */
export const Scheduler = {
  RANDOM: 0,
  RR: 1,
  SOURCE_HASH: 2,
  MAGLEV: 3,
  LEAST_CONN: 4,
} as const
export type Scheduler = (typeof Scheduler)[keyof typeof Scheduler]

/** Labels of enum scheduler by value. */
export const schedulerNames: Readonly<Record<number, string>> = {
  0: 'random',
  1: 'rr',
  2: 'source_hash',
  3: 'maglev',
  4: 'least_conn',
}

/** enum service_flag */
export const ServiceFlag = {
  INTERNAL_LOCAL: 1,
  EXTERNAL_LOCAL: 2,
  SOURCE_RANGES: 4,
  SOURCE_NODE: 8,
  SOURCE_PODS: 16,
} as const
export type ServiceFlag = (typeof ServiceFlag)[keyof typeof ServiceFlag]

/** Labels of enum service_flag by value. */
export const serviceFlagNames: Readonly<Record<number, string>> = {
  1: 'internal_local',
  2: 'external_local',
  4: 'source_ranges',
  8: 'source_node',
  16: 'source_pods',
}

/** enum backend_flag */
export const BackendFlag = {
  LOCAL: 1,
  IN_CLUSTER: 2,
  IN_LOCAL: 4,
} as const
export type BackendFlag = (typeof BackendFlag)[keyof typeof BackendFlag]

/** Labels of enum backend_flag by value. */
export const backendFlagNames: Readonly<Record<number, string>> = {
  1: 'local',
  2: 'in_cluster',
  4: 'in_local',
}

/** enum flow_direction */
export const FlowDirection = {
  FORWARD: 1,
  REPLY: 2,
} as const
export type FlowDirection = (typeof FlowDirection)[keyof typeof FlowDirection]

/** Labels of enum flow_direction by value. */
export const flowDirectionNames: Readonly<Record<number, string>> = {
  1: 'forward',
  2: 'reply',
}

/** enum flow_sent */
export const FlowSent = {
  SENT: 1,
  ON: 2,
  FIN: 4,
  RST: 8,
} as const
export type FlowSent = (typeof FlowSent)[keyof typeof FlowSent]

/** Labels of enum flow_sent by value. */
export const flowSentNames: Readonly<Record<number, string>> = {
  1: 'sent',
  2: 'on',
  4: 'fin',
  8: 'rst',
}

/** enum flow_state */
export const FlowState = {
  OPENING: 0,
  ESTABLISHED: 1,
  HALF_CLOSED: 2,
  CLOSED: 3,
} as const
export type FlowState = (typeof FlowState)[keyof typeof FlowState]

/** Labels of enum flow_state by value. */
export const flowStateNames: Readonly<Record<number, string>> = {
  0: 'opening',
  1: 'established',
  2: 'half_closed',
  3: 'closed',
}

/** enum flow_flag */
export const FlowFlag = {
  LOCAL_BACKEND: 1,
  SNAT: 2,
  OF_NODE: 4,
} as const
export type FlowFlag = (typeof FlowFlag)[keyof typeof FlowFlag]

/** Labels of enum flow_flag by value. */
export const flowFlagNames: Readonly<Record<number, string>> = {
  1: 'local_backend',
  2: 'snat',
  4: 'of_node',
}

/** enum flat_record_state */
export const FlatRecordState = {
  FREE: 0,
  TAKEN: 1,
  OFFERED: 2,
  REFUSED: 3,
  LIVE: 4,
  ENDED: 5,
} as const
export type FlatRecordState = (typeof FlatRecordState)[keyof typeof FlatRecordState]

/** Labels of enum flat_record_state by value. */
export const flatRecordStateNames: Readonly<Record<number, string>> = {
  0: 'free',
  1: 'taken',
  2: 'offered',
  3: 'refused',
  4: 'live',
  5: 'ended',
}

/** enum flat_control */
export const FlatControl = {
  CLIENT_AT: 3,
  BACKEND_AT: 7,
  CLAIMED_AT: 11,
  AGE_AT: 17,
  SEEN_AT: 32,
  TICK_BITS: 28,
} as const
export type FlatControl = (typeof FlatControl)[keyof typeof FlatControl]

/** Labels of enum flat_control by value. */
export const flatControlNames: Readonly<Record<number, string>> = {
  3: 'client_at',
  7: 'backend_at',
  11: 'claimed_at',
  17: 'age_at',
  32: 'seen_at',
  28: 'tick_bits',
}

/** enum device_takes */
export const DeviceTakes = {
  TX: 1,
  REDIRECT: 2,
} as const
export type DeviceTakes = (typeof DeviceTakes)[keyof typeof DeviceTakes]

/** Labels of enum device_takes by value. */
export const deviceTakesNames: Readonly<Record<number, string>> = {
  1: 'tx',
  2: 'redirect',
}

/** enum device_xdp */
export const DeviceXdp = {
  OFF: 0,
  NATIVE: 1,
  GENERIC: 2,
  NO_ETHERNET: 3,
  VLANS: 4,
  PORTS: 5,
  FOREIGN: 6,
  UNSUPPORTED: 7,
  CANNOT_SEND: 8,
  REFUSED: 9,
} as const
export type DeviceXdp = (typeof DeviceXdp)[keyof typeof DeviceXdp]

/** Labels of enum device_xdp by value. */
export const deviceXdpNames: Readonly<Record<number, string>> = {
  0: 'off',
  1: 'native',
  2: 'generic',
  3: 'no_ethernet',
  4: 'vlans',
  5: 'ports',
  6: 'foreign',
  7: 'unsupported',
  8: 'cannot_send',
  9: 'refused',
}

/** struct frontend4_key */
export interface Frontend4Key {
  readonly addr: number
  readonly port: number
  readonly proto: number
}

/** struct frontend4_key, 8 bytes */
export const frontend4Key = {
  name: 'frontend4_key',
  size: 8,
  offsets: {
    addr: 0,
    port: 4,
    proto: 6,
  },
  encode(view: DataView, at: number, value: Frontend4Key): void {
    view.setUint32(at, uint(value.addr, 0xffffffff, 'frontend4_key.addr'))
    view.setUint16(at + 4, uint(value.port, 0xffff, 'frontend4_key.port'))
    view.setUint8(at + 6, uint(value.proto, 0xff, 'frontend4_key.proto'))
    putZero(view, at + 7, 1)
  },
  decode(view: DataView, at: number): Frontend4Key {
    return {
      addr: view.getUint32(at),
      port: view.getUint16(at + 4),
      proto: view.getUint8(at + 6),
    }
  },
} as const satisfies Codec<Frontend4Key> & { offsets: Readonly<Record<string, number>> }

/** struct frontend */
export interface Frontend {
  readonly service: number
  readonly kind: number
  readonly flags: number
}

/** struct frontend, 8 bytes */
export const frontend = {
  name: 'frontend',
  size: 8,
  offsets: {
    service: 0,
    kind: 4,
    flags: 5,
  },
  encode(view: DataView, at: number, value: Frontend): void {
    view.setUint32(at, uint(value.service, 0xffffffff, 'frontend.service'), true)
    view.setUint8(at + 4, uint(value.kind, 0xff, 'frontend.kind'))
    view.setUint8(at + 5, uint(value.flags, 0xff, 'frontend.flags'))
    putZero(view, at + 6, 2)
  },
  decode(view: DataView, at: number): Frontend {
    return {
      service: view.getUint32(at, true),
      kind: view.getUint8(at + 4),
      flags: view.getUint8(at + 5),
    }
  },
} as const satisfies Codec<Frontend> & { offsets: Readonly<Record<string, number>> }

/** struct frontend6_key */
export interface Frontend6Key {
  readonly addr: Uint8Array
  readonly port: number
  readonly proto: number
}

/** struct frontend6_key, 20 bytes */
export const frontend6Key = {
  name: 'frontend6_key',
  size: 20,
  offsets: {
    addr: 0,
    port: 16,
    proto: 18,
  },
  encode(view: DataView, at: number, value: Frontend6Key): void {
    putBytes(view, at, 16, value.addr, 'frontend6_key.addr')
    view.setUint16(at + 16, uint(value.port, 0xffff, 'frontend6_key.port'))
    view.setUint8(at + 18, uint(value.proto, 0xff, 'frontend6_key.proto'))
    putZero(view, at + 19, 1)
  },
  decode(view: DataView, at: number): Frontend6Key {
    return {
      addr: getBytes(view, at, 16),
      port: view.getUint16(at + 16),
      proto: view.getUint8(at + 18),
    }
  },
} as const satisfies Codec<Frontend6Key> & { offsets: Readonly<Record<string, number>> }

/** struct source_range_key */
export interface SourceRangeKey {
  readonly prefix: number
  readonly service: number
  readonly addr: Uint8Array
}

/** struct source_range_key, 24 bytes */
export const sourceRangeKey = {
  name: 'source_range_key',
  size: 24,
  offsets: {
    prefix: 0,
    service: 4,
    addr: 8,
  },
  encode(view: DataView, at: number, value: SourceRangeKey): void {
    view.setUint32(at, uint(value.prefix, 0xffffffff, 'source_range_key.prefix'), true)
    view.setUint32(at + 4, uint(value.service, 0xffffffff, 'source_range_key.service'), true)
    putBytes(view, at + 8, 16, value.addr, 'source_range_key.addr')
  },
  decode(view: DataView, at: number): SourceRangeKey {
    return {
      prefix: view.getUint32(at, true),
      service: view.getUint32(at + 4, true),
      addr: getBytes(view, at + 8, 16),
    }
  },
} as const satisfies Codec<SourceRangeKey> & { offsets: Readonly<Record<string, number>> }

/** struct service */
export interface Service {
  readonly cluster: bigint
  readonly local: bigint
  readonly affinityS: number
  readonly scheduler: number
  readonly flags: number
}

/** struct service, 32 bytes */
export const service = {
  name: 'service',
  size: 32,
  offsets: {
    cluster: 0,
    local: 8,
    affinityS: 16,
    scheduler: 20,
    flags: 21,
  },
  encode(view: DataView, at: number, value: Service): void {
    view.setBigUint64(at, uint64(value.cluster, 'service.cluster'), true)
    view.setBigUint64(at + 8, uint64(value.local, 'service.local'), true)
    view.setUint32(at + 16, uint(value.affinityS, 0xffffffff, 'service.affinity_s'), true)
    view.setUint8(at + 20, uint(value.scheduler, 0xff, 'service.scheduler'))
    view.setUint8(at + 21, uint(value.flags, 0xff, 'service.flags'))
    putZero(view, at + 22, 2)
    putZero(view, at + 24, 8)
  },
  decode(view: DataView, at: number): Service {
    return {
      cluster: view.getBigUint64(at, true),
      local: view.getBigUint64(at + 8, true),
      affinityS: view.getUint32(at + 16, true),
      scheduler: view.getUint8(at + 20),
      flags: view.getUint8(at + 21),
    }
  },
} as const satisfies Codec<Service> & { offsets: Readonly<Record<string, number>> }

/** struct slot_block */
export interface SlotBlock {
  readonly words: readonly number[]
}

/** struct slot_block, 64 bytes */
export const slotBlock = {
  name: 'slot_block',
  size: 64,
  offsets: {
    words: 0,
  },
  encode(view: DataView, at: number, value: SlotBlock): void {
    checkCount(value.words, 16, 'slot_block.words')
    value.words.forEach((element, i) => {
      view.setUint32(at + i * 4, uint(element, 0xffffffff, 'slot_block.words'), true)
    })
  },
  decode(view: DataView, at: number): SlotBlock {
    return {
      words: Array.from({ length: 16 }, (_, i) => view.getUint32(at + i * 4, true)),
    }
  },
} as const satisfies Codec<SlotBlock> & { offsets: Readonly<Record<string, number>> }

/** struct backend */
export interface Backend {
  readonly addr: Uint8Array
  readonly port: number
  readonly flags: number
  readonly generation: number
  readonly service: number
  readonly weight: number
}

/** struct backend, 32 bytes */
export const backend = {
  name: 'backend',
  size: 32,
  offsets: {
    addr: 0,
    port: 16,
    flags: 18,
    generation: 20,
    service: 24,
    weight: 28,
  },
  encode(view: DataView, at: number, value: Backend): void {
    putBytes(view, at, 16, value.addr, 'backend.addr')
    view.setUint16(at + 16, uint(value.port, 0xffff, 'backend.port'))
    view.setUint8(at + 18, uint(value.flags, 0xff, 'backend.flags'))
    putZero(view, at + 19, 1)
    view.setUint32(at + 20, uint(value.generation, 0xffffffff, 'backend.generation'), true)
    view.setUint32(at + 24, uint(value.service, 0xffffffff, 'backend.service'), true)
    view.setUint32(at + 28, uint(value.weight, 0xffffffff, 'backend.weight'), true)
  },
  decode(view: DataView, at: number): Backend {
    return {
      addr: getBytes(view, at, 16),
      port: view.getUint16(at + 16),
      flags: view.getUint8(at + 18),
      generation: view.getUint32(at + 20, true),
      service: view.getUint32(at + 24, true),
      weight: view.getUint32(at + 28, true),
    }
  },
} as const satisfies Codec<Backend> & { offsets: Readonly<Record<string, number>> }

/** struct service_name */
export interface ServiceName {
  readonly namespace: string
  readonly name: string
  readonly port: string
  readonly proto: number
  readonly family: number
}

/** struct service_name, 200 bytes */
export const serviceName = {
  name: 'service_name',
  size: 200,
  offsets: {
    namespace: 0,
    name: 64,
    port: 128,
    proto: 192,
    family: 193,
  },
  encode(view: DataView, at: number, value: ServiceName): void {
    putText(view, at, 64, value.namespace, 'service_name.namespace')
    putText(view, at + 64, 64, value.name, 'service_name.name')
    putText(view, at + 128, 64, value.port, 'service_name.port')
    view.setUint8(at + 192, uint(value.proto, 0xff, 'service_name.proto'))
    view.setUint8(at + 193, uint(value.family, 0xff, 'service_name.family'))
    putZero(view, at + 194, 6)
  },
  decode(view: DataView, at: number): ServiceName {
    return {
      namespace: getText(view, at, 64),
      name: getText(view, at + 64, 64),
      port: getText(view, at + 128, 64),
      proto: view.getUint8(at + 192),
      family: view.getUint8(at + 193),
    }
  },
} as const satisfies Codec<ServiceName> & { offsets: Readonly<Record<string, number>> }

/** struct service_stats */
export interface ServiceStats {
  readonly opened: bigint
  readonly refused: bigint
  readonly rrCursor: bigint
}

/** struct service_stats, 24 bytes */
export const serviceStats = {
  name: 'service_stats',
  size: 24,
  offsets: {
    opened: 0,
    refused: 8,
    rrCursor: 16,
  },
  encode(view: DataView, at: number, value: ServiceStats): void {
    view.setBigUint64(at, uint64(value.opened, 'service_stats.opened'), true)
    view.setBigUint64(at + 8, uint64(value.refused, 'service_stats.refused'), true)
    view.setBigUint64(at + 16, uint64(value.rrCursor, 'service_stats.rr_cursor'), true)
  },
  decode(view: DataView, at: number): ServiceStats {
    return {
      opened: view.getBigUint64(at, true),
      refused: view.getBigUint64(at + 8, true),
      rrCursor: view.getBigUint64(at + 16, true),
    }
  },
} as const satisfies Codec<ServiceStats> & { offsets: Readonly<Record<string, number>> }

/** struct backend_stats */
export interface BackendStats {
  readonly opened: bigint
  readonly udpLive: bigint
  readonly tcpLive: bigint
}

/** struct backend_stats, 32 bytes */
export const backendStats = {
  name: 'backend_stats',
  size: 32,
  offsets: {
    opened: 0,
    udpLive: 8,
    tcpLive: 16,
  },
  encode(view: DataView, at: number, value: BackendStats): void {
    view.setBigUint64(at, uint64(value.opened, 'backend_stats.opened'), true)
    view.setBigUint64(at + 8, uint64(value.udpLive, 'backend_stats.udp_live'), true)
    view.setBigUint64(at + 16, uint64(value.tcpLive, 'backend_stats.tcp_live'), true)
    putZero(view, at + 24, 8)
  },
  decode(view: DataView, at: number): BackendStats {
    return {
      opened: view.getBigUint64(at, true),
      udpLive: view.getBigUint64(at + 8, true),
      tcpLive: view.getBigUint64(at + 16, true),
    }
  },
} as const satisfies Codec<BackendStats> & { offsets: Readonly<Record<string, number>> }

/** struct outcome_stats */
export interface OutcomeStats {
  readonly packets: bigint
  readonly bytes: bigint
}

/** struct outcome_stats, 16 bytes */
export const outcomeStats = {
  name: 'outcome_stats',
  size: 16,
  offsets: {
    packets: 0,
    bytes: 8,
  },
  encode(view: DataView, at: number, value: OutcomeStats): void {
    view.setBigUint64(at, uint64(value.packets, 'outcome_stats.packets'), true)
    view.setBigUint64(at + 8, uint64(value.bytes, 'outcome_stats.bytes'), true)
  },
  decode(view: DataView, at: number): OutcomeStats {
    return {
      packets: view.getBigUint64(at, true),
      bytes: view.getBigUint64(at + 8, true),
    }
  },
} as const satisfies Codec<OutcomeStats> & { offsets: Readonly<Record<string, number>> }

/** struct affinity_key */
export interface AffinityKey {
  readonly client: Uint8Array
  readonly service: number
  readonly byCookie: number
}

/** struct affinity_key, 24 bytes */
export const affinityKey = {
  name: 'affinity_key',
  size: 24,
  offsets: {
    client: 0,
    service: 16,
    byCookie: 20,
  },
  encode(view: DataView, at: number, value: AffinityKey): void {
    putBytes(view, at, 16, value.client, 'affinity_key.client')
    view.setUint32(at + 16, uint(value.service, 0xffffffff, 'affinity_key.service'), true)
    view.setUint32(at + 20, uint(value.byCookie, 0xffffffff, 'affinity_key.by_cookie'), true)
  },
  decode(view: DataView, at: number): AffinityKey {
    return {
      client: getBytes(view, at, 16),
      service: view.getUint32(at + 16, true),
      byCookie: view.getUint32(at + 20, true),
    }
  },
} as const satisfies Codec<AffinityKey> & { offsets: Readonly<Record<string, number>> }

/** struct affinity */
export interface Affinity {
  readonly seenNs: bigint
  readonly backend: number
  readonly generation: number
}

/** struct affinity, 16 bytes */
export const affinity = {
  name: 'affinity',
  size: 16,
  offsets: {
    seenNs: 0,
    backend: 8,
    generation: 12,
  },
  encode(view: DataView, at: number, value: Affinity): void {
    view.setBigUint64(at, uint64(value.seenNs, 'affinity.seen_ns'), true)
    view.setUint32(at + 8, uint(value.backend, 0xffffffff, 'affinity.backend'), true)
    view.setUint32(at + 12, uint(value.generation, 0xffffffff, 'affinity.generation'), true)
  },
  decode(view: DataView, at: number): Affinity {
    return {
      seenNs: view.getBigUint64(at, true),
      backend: view.getUint32(at + 8, true),
      generation: view.getUint32(at + 12, true),
    }
  },
} as const satisfies Codec<Affinity> & { offsets: Readonly<Record<string, number>> }

/** struct flow_stats */
export interface FlowStats {
  readonly evicted: bigint
  readonly snatFlows: bigint
  readonly snatTries: bigint
  readonly snatDueNs: bigint
}

/** struct flow_stats, 32 bytes */
export const flowStats = {
  name: 'flow_stats',
  size: 32,
  offsets: {
    evicted: 0,
    snatFlows: 8,
    snatTries: 16,
    snatDueNs: 24,
  },
  encode(view: DataView, at: number, value: FlowStats): void {
    view.setBigUint64(at, uint64(value.evicted, 'flow_stats.evicted'), true)
    view.setBigUint64(at + 8, uint64(value.snatFlows, 'flow_stats.snat_flows'), true)
    view.setBigUint64(at + 16, uint64(value.snatTries, 'flow_stats.snat_tries'), true)
    view.setBigUint64(at + 24, uint64(value.snatDueNs, 'flow_stats.snat_due_ns'), true)
  },
  decode(view: DataView, at: number): FlowStats {
    return {
      evicted: view.getBigUint64(at, true),
      snatFlows: view.getBigUint64(at + 8, true),
      snatTries: view.getBigUint64(at + 16, true),
      snatDueNs: view.getBigUint64(at + 24, true),
    }
  },
} as const satisfies Codec<FlowStats> & { offsets: Readonly<Record<string, number>> }

/** struct filter */
export interface Filter {
  readonly agent: readonly bigint[]
  readonly flows: readonly bigint[]
  readonly current: bigint
}

/** struct filter, 393224 bytes */
export const filter = {
  name: 'filter',
  size: 393224,
  offsets: {
    agent: 0,
    flows: 131072,
    current: 393216,
  },
  encode(view: DataView, at: number, value: Filter): void {
    checkCount(value.agent, 16384, 'filter.agent')
    value.agent.forEach((element, i) => {
      view.setBigUint64(at + i * 8, uint64(element, 'filter.agent'), true)
    })
    checkCount(value.flows, 32768, 'filter.flows')
    value.flows.forEach((element, i) => {
      view.setBigUint64(at + 131072 + i * 8, uint64(element, 'filter.flows'), true)
    })
    view.setBigUint64(at + 393216, uint64(value.current, 'filter.current'), true)
  },
  decode(view: DataView, at: number): Filter {
    return {
      agent: Array.from({ length: 16384 }, (_, i) => view.getBigUint64(at + i * 8, true)),
      flows: Array.from({ length: 32768 }, (_, i) => view.getBigUint64(at + 131072 + i * 8, true)),
      current: view.getBigUint64(at + 393216, true),
    }
  },
} as const satisfies Codec<Filter> & { offsets: Readonly<Record<string, number>> }

/** struct fragment_key */
export interface FragmentKey {
  readonly src: Uint8Array
  readonly dst: Uint8Array
  readonly id: number
  readonly proto: number
  readonly slot: number
}

/** struct fragment_key, 40 bytes */
export const fragmentKey = {
  name: 'fragment_key',
  size: 40,
  offsets: {
    src: 0,
    dst: 16,
    id: 32,
    proto: 36,
    slot: 37,
  },
  encode(view: DataView, at: number, value: FragmentKey): void {
    putBytes(view, at, 16, value.src, 'fragment_key.src')
    putBytes(view, at + 16, 16, value.dst, 'fragment_key.dst')
    view.setUint32(at + 32, uint(value.id, 0xffffffff, 'fragment_key.id'))
    view.setUint8(at + 36, uint(value.proto, 0xff, 'fragment_key.proto'))
    view.setUint8(at + 37, uint(value.slot, 0xff, 'fragment_key.slot'))
    putZero(view, at + 38, 2)
  },
  decode(view: DataView, at: number): FragmentKey {
    return {
      src: getBytes(view, at, 16),
      dst: getBytes(view, at + 16, 16),
      id: view.getUint32(at + 32),
      proto: view.getUint8(at + 36),
      slot: view.getUint8(at + 37),
    }
  },
} as const satisfies Codec<FragmentKey> & { offsets: Readonly<Record<string, number>> }

/** struct fragment */
export interface Fragment {
  readonly seenNs: bigint
  readonly sport: number
  readonly dport: number
  readonly size: number
  readonly proto: number
  readonly ignore: number
  readonly backend: number
}

/** struct fragment, 24 bytes */
export const fragment = {
  name: 'fragment',
  size: 24,
  offsets: {
    seenNs: 0,
    sport: 8,
    dport: 10,
    size: 12,
    proto: 14,
    ignore: 15,
    backend: 16,
  },
  encode(view: DataView, at: number, value: Fragment): void {
    view.setBigUint64(at, uint64(value.seenNs, 'fragment.seen_ns'), true)
    view.setUint16(at + 8, uint(value.sport, 0xffff, 'fragment.sport'))
    view.setUint16(at + 10, uint(value.dport, 0xffff, 'fragment.dport'))
    view.setUint16(at + 12, uint(value.size, 0xffff, 'fragment.size'), true)
    view.setUint8(at + 14, uint(value.proto, 0xff, 'fragment.proto'))
    view.setUint8(at + 15, uint(value.ignore, 0xff, 'fragment.ignore'))
    view.setUint32(at + 16, uint(value.backend, 0xffffffff, 'fragment.backend'), true)
    putZero(view, at + 20, 4)
  },
  decode(view: DataView, at: number): Fragment {
    return {
      seenNs: view.getBigUint64(at, true),
      sport: view.getUint16(at + 8),
      dport: view.getUint16(at + 10),
      size: view.getUint16(at + 12, true),
      proto: view.getUint8(at + 14),
      ignore: view.getUint8(at + 15),
      backend: view.getUint32(at + 16, true),
    }
  },
} as const satisfies Codec<Fragment> & { offsets: Readonly<Record<string, number>> }

/** struct held_fragment */
export interface HeldFragment {
  readonly seenNs: bigint
  readonly size: number
  readonly frame: readonly number[]
}

/** struct held_fragment, 1616 bytes */
export const heldFragment = {
  name: 'held_fragment',
  size: 1616,
  offsets: {
    seenNs: 0,
    size: 8,
    frame: 16,
  },
  encode(view: DataView, at: number, value: HeldFragment): void {
    view.setBigUint64(at, uint64(value.seenNs, 'held_fragment.seen_ns'), true)
    view.setUint32(at + 8, uint(value.size, 0xffffffff, 'held_fragment.size'), true)
    putZero(view, at + 12, 4)
    checkCount(value.frame, 1600, 'held_fragment.frame')
    value.frame.forEach((element, i) => {
      view.setUint8(at + 16 + i * 1, uint(element, 0xff, 'held_fragment.frame'))
    })
  },
  decode(view: DataView, at: number): HeldFragment {
    return {
      seenNs: view.getBigUint64(at, true),
      size: view.getUint32(at + 8, true),
      frame: Array.from({ length: 1600 }, (_, i) => view.getUint8(at + 16 + i * 1)),
    }
  },
} as const satisfies Codec<HeldFragment> & { offsets: Readonly<Record<string, number>> }

/** struct tuple */
export interface Tuple {
  readonly src: Uint8Array
  readonly dst: Uint8Array
  readonly sport: number
  readonly dport: number
  readonly proto: number
}

/** struct tuple, 40 bytes */
export const tuple = {
  name: 'tuple',
  size: 40,
  offsets: {
    src: 0,
    dst: 16,
    sport: 32,
    dport: 34,
    proto: 36,
  },
  encode(view: DataView, at: number, value: Tuple): void {
    putBytes(view, at, 16, value.src, 'tuple.src')
    putBytes(view, at + 16, 16, value.dst, 'tuple.dst')
    view.setUint16(at + 32, uint(value.sport, 0xffff, 'tuple.sport'))
    view.setUint16(at + 34, uint(value.dport, 0xffff, 'tuple.dport'))
    view.setUint8(at + 36, uint(value.proto, 0xff, 'tuple.proto'))
    putZero(view, at + 37, 3)
  },
  decode(view: DataView, at: number): Tuple {
    return {
      src: getBytes(view, at, 16),
      dst: getBytes(view, at + 16, 16),
      sport: view.getUint16(at + 32),
      dport: view.getUint16(at + 34),
      proto: view.getUint8(at + 36),
    }
  },
} as const satisfies Codec<Tuple> & { offsets: Readonly<Record<string, number>> }

/** struct icmp_quote */
export interface IcmpQuote {
  readonly tuple: Tuple
  readonly to: Tuple
  readonly ip: number
  readonly l4: number
  readonly diff: number
  readonly ipCheck: number
  readonly check: number
}

/** struct icmp_quote, 96 bytes */
export const icmpQuote = {
  name: 'icmp_quote',
  size: 96,
  offsets: {
    tuple: 0,
    to: 40,
    ip: 80,
    l4: 84,
    diff: 88,
    ipCheck: 92,
    check: 94,
  },
  encode(view: DataView, at: number, value: IcmpQuote): void {
    tuple.encode(view, at, value.tuple)
    tuple.encode(view, at + 40, value.to)
    view.setUint32(at + 80, uint(value.ip, 0xffffffff, 'icmp_quote.ip'), true)
    view.setUint32(at + 84, uint(value.l4, 0xffffffff, 'icmp_quote.l4'), true)
    view.setUint32(at + 88, uint(value.diff, 0xffffffff, 'icmp_quote.diff'), true)
    view.setUint16(at + 92, uint(value.ipCheck, 0xffff, 'icmp_quote.ip_check'), true)
    view.setUint16(at + 94, uint(value.check, 0xffff, 'icmp_quote.check'), true)
  },
  decode(view: DataView, at: number): IcmpQuote {
    return {
      tuple: tuple.decode(view, at),
      to: tuple.decode(view, at + 40),
      ip: view.getUint32(at + 80, true),
      l4: view.getUint32(at + 84, true),
      diff: view.getUint32(at + 88, true),
      ipCheck: view.getUint16(at + 92, true),
      check: view.getUint16(at + 94, true),
    }
  },
} as const satisfies Codec<IcmpQuote> & { offsets: Readonly<Record<string, number>> }

/** struct device */
export interface Device {
  readonly addr4: Uint8Array
  readonly addr6: Uint8Array
  readonly mac: readonly number[]
  readonly takesFrames: number
  readonly xdp: number
}

/** struct device, 40 bytes */
export const device = {
  name: 'device',
  size: 40,
  offsets: {
    addr4: 0,
    addr6: 16,
    mac: 32,
    takesFrames: 38,
    xdp: 39,
  },
  encode(view: DataView, at: number, value: Device): void {
    putBytes(view, at, 16, value.addr4, 'device.addr4')
    putBytes(view, at + 16, 16, value.addr6, 'device.addr6')
    checkCount(value.mac, 6, 'device.mac')
    value.mac.forEach((element, i) => {
      view.setUint8(at + 32 + i * 1, uint(element, 0xff, 'device.mac'))
    })
    view.setUint8(at + 38, uint(value.takesFrames, 0xff, 'device.takes_frames'))
    view.setUint8(at + 39, uint(value.xdp, 0xff, 'device.xdp'))
  },
  decode(view: DataView, at: number): Device {
    return {
      addr4: getBytes(view, at, 16),
      addr6: getBytes(view, at + 16, 16),
      mac: Array.from({ length: 6 }, (_, i) => view.getUint8(at + 32 + i * 1)),
      takesFrames: view.getUint8(at + 38),
      xdp: view.getUint8(at + 39),
    }
  },
} as const satisfies Codec<Device> & { offsets: Readonly<Record<string, number>> }

/** struct route */
export interface Route {
  readonly to: Tuple
  readonly untilNs: bigint
  readonly cameBy: number
  readonly ifindex: number
  readonly next: readonly number[]
  readonly toMac: readonly number[]
  readonly fromMac: readonly number[]
  readonly mtu: number
  readonly family: number
}

/** struct route, 88 bytes */
export const route = {
  name: 'route',
  size: 88,
  offsets: {
    to: 0,
    untilNs: 40,
    cameBy: 48,
    ifindex: 52,
    next: 56,
    toMac: 72,
    fromMac: 78,
    mtu: 84,
    family: 86,
  },
  encode(view: DataView, at: number, value: Route): void {
    tuple.encode(view, at, value.to)
    view.setBigUint64(at + 40, uint64(value.untilNs, 'route.until_ns'), true)
    view.setUint32(at + 48, uint(value.cameBy, 0xffffffff, 'route.came_by'), true)
    view.setUint32(at + 52, uint(value.ifindex, 0xffffffff, 'route.ifindex'), true)
    checkCount(value.next, 16, 'route.next')
    value.next.forEach((element, i) => {
      view.setUint8(at + 56 + i * 1, uint(element, 0xff, 'route.next'))
    })
    checkCount(value.toMac, 6, 'route.to_mac')
    value.toMac.forEach((element, i) => {
      view.setUint8(at + 72 + i * 1, uint(element, 0xff, 'route.to_mac'))
    })
    checkCount(value.fromMac, 6, 'route.from_mac')
    value.fromMac.forEach((element, i) => {
      view.setUint8(at + 78 + i * 1, uint(element, 0xff, 'route.from_mac'))
    })
    view.setUint16(at + 84, uint(value.mtu, 0xffff, 'route.mtu'), true)
    view.setUint8(at + 86, uint(value.family, 0xff, 'route.family'))
    putZero(view, at + 87, 1)
  },
  decode(view: DataView, at: number): Route {
    return {
      to: tuple.decode(view, at),
      untilNs: view.getBigUint64(at + 40, true),
      cameBy: view.getUint32(at + 48, true),
      ifindex: view.getUint32(at + 52, true),
      next: Array.from({ length: 16 }, (_, i) => view.getUint8(at + 56 + i * 1)),
      toMac: Array.from({ length: 6 }, (_, i) => view.getUint8(at + 72 + i * 1)),
      fromMac: Array.from({ length: 6 }, (_, i) => view.getUint8(at + 78 + i * 1)),
      mtu: view.getUint16(at + 84, true),
      family: view.getUint8(at + 86),
    }
  },
} as const satisfies Codec<Route> & { offsets: Readonly<Record<string, number>> }

/** struct reply_state */
export interface ReplyState {
  readonly dueNs: bigint
  readonly words: readonly number[]
}

/** struct reply_state, 264 bytes */
export const replyState = {
  name: 'reply_state',
  size: 264,
  offsets: {
    dueNs: 0,
    words: 8,
  },
  encode(view: DataView, at: number, value: ReplyState): void {
    view.setBigUint64(at, uint64(value.dueNs, 'reply_state.due_ns'), true)
    checkCount(value.words, 64, 'reply_state.words')
    value.words.forEach((element, i) => {
      view.setUint32(at + 8 + i * 4, uint(element, 0xffffffff, 'reply_state.words'), true)
    })
  },
  decode(view: DataView, at: number): ReplyState {
    return {
      dueNs: view.getBigUint64(at, true),
      words: Array.from({ length: 64 }, (_, i) => view.getUint32(at + 8 + i * 4, true)),
    }
  },
} as const satisfies Codec<ReplyState> & { offsets: Readonly<Record<string, number>> }

/** struct sock_peer */
export interface SockPeer {
  readonly frontendAddr: Uint8Array
  readonly backendAddr: Uint8Array
  readonly frontendPort: number
  readonly backendPort: number
  readonly backend: number
  readonly generation: number
  readonly service: number
  readonly proto: number
  readonly counted: number
}

/** struct sock_peer, 56 bytes */
export const sockPeer = {
  name: 'sock_peer',
  size: 56,
  offsets: {
    frontendAddr: 0,
    backendAddr: 16,
    frontendPort: 32,
    backendPort: 34,
    backend: 36,
    generation: 40,
    service: 44,
    proto: 48,
    counted: 49,
  },
  encode(view: DataView, at: number, value: SockPeer): void {
    putBytes(view, at, 16, value.frontendAddr, 'sock_peer.frontend_addr')
    putBytes(view, at + 16, 16, value.backendAddr, 'sock_peer.backend_addr')
    view.setUint16(at + 32, uint(value.frontendPort, 0xffff, 'sock_peer.frontend_port'))
    view.setUint16(at + 34, uint(value.backendPort, 0xffff, 'sock_peer.backend_port'))
    view.setUint32(at + 36, uint(value.backend, 0xffffffff, 'sock_peer.backend'), true)
    view.setUint32(at + 40, uint(value.generation, 0xffffffff, 'sock_peer.generation'), true)
    view.setUint32(at + 44, uint(value.service, 0xffffffff, 'sock_peer.service'), true)
    view.setUint8(at + 48, uint(value.proto, 0xff, 'sock_peer.proto'))
    view.setUint8(at + 49, uint(value.counted, 0xff, 'sock_peer.counted'))
    putZero(view, at + 50, 6)
  },
  decode(view: DataView, at: number): SockPeer {
    return {
      frontendAddr: getBytes(view, at, 16),
      backendAddr: getBytes(view, at + 16, 16),
      frontendPort: view.getUint16(at + 32),
      backendPort: view.getUint16(at + 34),
      backend: view.getUint32(at + 36, true),
      generation: view.getUint32(at + 40, true),
      service: view.getUint32(at + 44, true),
      proto: view.getUint8(at + 48),
      counted: view.getUint8(at + 49),
    }
  },
} as const satisfies Codec<SockPeer> & { offsets: Readonly<Record<string, number>> }

/** struct sock_place */
export interface SockPlace {
  readonly cookie: bigint
  readonly mark: SockPeer
}

/** struct sock_place, 64 bytes */
export const sockPlace = {
  name: 'sock_place',
  size: 64,
  offsets: {
    cookie: 0,
    mark: 8,
  },
  encode(view: DataView, at: number, value: SockPlace): void {
    view.setBigUint64(at, uint64(value.cookie, 'sock_place.cookie'), true)
    sockPeer.encode(view, at + 8, value.mark)
  },
  decode(view: DataView, at: number): SockPlace {
    return {
      cookie: view.getBigUint64(at, true),
      mark: sockPeer.decode(view, at + 8),
    }
  },
} as const satisfies Codec<SockPlace> & { offsets: Readonly<Record<string, number>> }

/** struct udp_peer_key */
export interface UdpPeerKey {
  readonly cookie: bigint
  readonly addr: Uint8Array
  readonly port: number
  readonly backend: number
}

/** struct udp_peer_key, 32 bytes */
export const udpPeerKey = {
  name: 'udp_peer_key',
  size: 32,
  offsets: {
    cookie: 0,
    addr: 8,
    port: 24,
    backend: 26,
  },
  encode(view: DataView, at: number, value: UdpPeerKey): void {
    view.setBigUint64(at, uint64(value.cookie, 'udp_peer_key.cookie'), true)
    putBytes(view, at + 8, 16, value.addr, 'udp_peer_key.addr')
    view.setUint16(at + 24, uint(value.port, 0xffff, 'udp_peer_key.port'))
    view.setUint8(at + 26, uint(value.backend, 0xff, 'udp_peer_key.backend'))
    putZero(view, at + 27, 5)
  },
  decode(view: DataView, at: number): UdpPeerKey {
    return {
      cookie: view.getBigUint64(at, true),
      addr: getBytes(view, at + 8, 16),
      port: view.getUint16(at + 24),
      backend: view.getUint8(at + 26),
    }
  },
} as const satisfies Codec<UdpPeerKey> & { offsets: Readonly<Record<string, number>> }

/** struct flat_secret */
export interface FlatSecret {
  readonly words: readonly bigint[]
}

/** struct flat_secret, 80 bytes */
export const flatSecret = {
  name: 'flat_secret',
  size: 80,
  offsets: {
    words: 0,
  },
  encode(view: DataView, at: number, value: FlatSecret): void {
    checkCount(value.words, 10, 'flat_secret.words')
    value.words.forEach((element, i) => {
      view.setBigUint64(at + i * 8, uint64(element, 'flat_secret.words'), true)
    })
  },
  decode(view: DataView, at: number): FlatSecret {
    return {
      words: Array.from({ length: 10 }, (_, i) => view.getBigUint64(at + i * 8, true)),
    }
  },
} as const satisfies Codec<FlatSecret> & { offsets: Readonly<Record<string, number>> }

/** struct flat_bucket */
export interface FlatBucket {
  readonly elsewhere: number
  readonly words: readonly number[]
}

/** struct flat_bucket, 32 bytes */
export const flatBucket = {
  name: 'flat_bucket',
  size: 32,
  offsets: {
    elsewhere: 0,
    words: 4,
  },
  encode(view: DataView, at: number, value: FlatBucket): void {
    view.setUint32(at, uint(value.elsewhere, 0xffffffff, 'flat_bucket.elsewhere'), true)
    checkCount(value.words, 7, 'flat_bucket.words')
    value.words.forEach((element, i) => {
      view.setUint32(at + 4 + i * 4, uint(element, 0xffffffff, 'flat_bucket.words'), true)
    })
  },
  decode(view: DataView, at: number): FlatBucket {
    return {
      elsewhere: view.getUint32(at, true),
      words: Array.from({ length: 7 }, (_, i) => view.getUint32(at + 4 + i * 4, true)),
    }
  },
} as const satisfies Codec<FlatBucket> & { offsets: Readonly<Record<string, number>> }

/** struct flat_record */
export interface FlatRecord {
  readonly control: bigint
  readonly backend: number
  readonly generation: number
  readonly flags: number
  readonly proto: number
}

/** struct flat_record, 16 bytes */
export const flatRecord = {
  name: 'flat_record',
  size: 16,
  offsets: {
    control: 0,
    backend: 8,
    generation: 12,
    flags: 14,
    proto: 15,
  },
  encode(view: DataView, at: number, value: FlatRecord): void {
    view.setBigUint64(at, uint64(value.control, 'flat_record.control'), true)
    view.setUint32(at + 8, uint(value.backend, 0xffffffff, 'flat_record.backend'), true)
    view.setUint16(at + 12, uint(value.generation, 0xffff, 'flat_record.generation'), true)
    view.setUint8(at + 14, uint(value.flags, 0xff, 'flat_record.flags'))
    view.setUint8(at + 15, uint(value.proto, 0xff, 'flat_record.proto'))
  },
  decode(view: DataView, at: number): FlatRecord {
    return {
      control: view.getBigUint64(at, true),
      backend: view.getUint32(at + 8, true),
      generation: view.getUint16(at + 12, true),
      flags: view.getUint8(at + 14),
      proto: view.getUint8(at + 15),
    }
  },
} as const satisfies Codec<FlatRecord> & { offsets: Readonly<Record<string, number>> }

/** struct flat_key4 */
export interface FlatKey4 {
  readonly src: number
  readonly dst: number
  readonly sport: number
  readonly dport: number
}

/** struct flat_key4, 12 bytes */
export const flatKey4 = {
  name: 'flat_key4',
  size: 12,
  offsets: {
    src: 0,
    dst: 4,
    sport: 8,
    dport: 10,
  },
  encode(view: DataView, at: number, value: FlatKey4): void {
    view.setUint32(at, uint(value.src, 0xffffffff, 'flat_key4.src'))
    view.setUint32(at + 4, uint(value.dst, 0xffffffff, 'flat_key4.dst'))
    view.setUint16(at + 8, uint(value.sport, 0xffff, 'flat_key4.sport'))
    view.setUint16(at + 10, uint(value.dport, 0xffff, 'flat_key4.dport'))
  },
  decode(view: DataView, at: number): FlatKey4 {
    return {
      src: view.getUint32(at),
      dst: view.getUint32(at + 4),
      sport: view.getUint16(at + 8),
      dport: view.getUint16(at + 10),
    }
  },
} as const satisfies Codec<FlatKey4> & { offsets: Readonly<Record<string, number>> }

/** struct flat_record4 */
export interface FlatRecord4 {
  readonly base: FlatRecord
  readonly client: FlatKey4
  readonly backend: FlatKey4
}

/** struct flat_record4, 40 bytes */
export const flatRecord4 = {
  name: 'flat_record4',
  size: 40,
  offsets: {
    base: 0,
    client: 16,
    backend: 28,
  },
  encode(view: DataView, at: number, value: FlatRecord4): void {
    flatRecord.encode(view, at, value.base)
    flatKey4.encode(view, at + 16, value.client)
    flatKey4.encode(view, at + 28, value.backend)
  },
  decode(view: DataView, at: number): FlatRecord4 {
    return {
      base: flatRecord.decode(view, at),
      client: flatKey4.decode(view, at + 16),
      backend: flatKey4.decode(view, at + 28),
    }
  },
} as const satisfies Codec<FlatRecord4> & { offsets: Readonly<Record<string, number>> }

/** struct flat_key6 */
export interface FlatKey6 {
  readonly src: Uint8Array
  readonly dst: Uint8Array
  readonly sport: number
  readonly dport: number
}

/** struct flat_key6, 36 bytes */
export const flatKey6 = {
  name: 'flat_key6',
  size: 36,
  offsets: {
    src: 0,
    dst: 16,
    sport: 32,
    dport: 34,
  },
  encode(view: DataView, at: number, value: FlatKey6): void {
    putBytes(view, at, 16, value.src, 'flat_key6.src')
    putBytes(view, at + 16, 16, value.dst, 'flat_key6.dst')
    view.setUint16(at + 32, uint(value.sport, 0xffff, 'flat_key6.sport'))
    view.setUint16(at + 34, uint(value.dport, 0xffff, 'flat_key6.dport'))
  },
  decode(view: DataView, at: number): FlatKey6 {
    return {
      src: getBytes(view, at, 16),
      dst: getBytes(view, at + 16, 16),
      sport: view.getUint16(at + 32),
      dport: view.getUint16(at + 34),
    }
  },
} as const satisfies Codec<FlatKey6> & { offsets: Readonly<Record<string, number>> }

/** struct flat_record6 */
export interface FlatRecord6 {
  readonly base: FlatRecord
  readonly client: FlatKey6
  readonly backend: FlatKey6
}

/** struct flat_record6, 88 bytes */
export const flatRecord6 = {
  name: 'flat_record6',
  size: 88,
  offsets: {
    base: 0,
    client: 16,
    backend: 52,
  },
  encode(view: DataView, at: number, value: FlatRecord6): void {
    flatRecord.encode(view, at, value.base)
    flatKey6.encode(view, at + 16, value.client)
    flatKey6.encode(view, at + 52, value.backend)
  },
  decode(view: DataView, at: number): FlatRecord6 {
    return {
      base: flatRecord.decode(view, at),
      client: flatKey6.decode(view, at + 16),
      backend: flatKey6.decode(view, at + 52),
    }
  },
} as const satisfies Codec<FlatRecord6> & { offsets: Readonly<Record<string, number>> }

/** struct flow_hand */
export interface FlowHand {
  readonly next: bigint
  readonly swept: bigint
  readonly crowded: bigint
}

/** struct flow_hand, 24 bytes */
export const flowHand = {
  name: 'flow_hand',
  size: 24,
  offsets: {
    next: 0,
    swept: 8,
    crowded: 16,
  },
  encode(view: DataView, at: number, value: FlowHand): void {
    view.setBigUint64(at, uint64(value.next, 'flow_hand.next'), true)
    view.setBigUint64(at + 8, uint64(value.swept, 'flow_hand.swept'), true)
    view.setBigUint64(at + 16, uint64(value.crowded, 'flow_hand.crowded'), true)
  },
  decode(view: DataView, at: number): FlowHand {
    return {
      next: view.getBigUint64(at, true),
      swept: view.getBigUint64(at + 8, true),
      crowded: view.getBigUint64(at + 16, true),
    }
  },
} as const satisfies Codec<FlowHand> & { offsets: Readonly<Record<string, number>> }

/** struct flow */
export interface Flow {
  readonly to: Tuple
  readonly seenNs: bigint
  readonly backend: number
  readonly generation: number
  readonly service: number
  readonly slot: number
  readonly direction: number
  readonly flags: number
  readonly sent: number
  readonly heard: number
}

/** struct flow, 72 bytes */
export const flow = {
  name: 'flow',
  size: 72,
  offsets: {
    to: 0,
    seenNs: 40,
    backend: 48,
    generation: 52,
    service: 56,
    slot: 60,
    direction: 64,
    flags: 65,
    sent: 66,
    heard: 67,
  },
  encode(view: DataView, at: number, value: Flow): void {
    tuple.encode(view, at, value.to)
    view.setBigUint64(at + 40, uint64(value.seenNs, 'flow.seen_ns'), true)
    view.setUint32(at + 48, uint(value.backend, 0xffffffff, 'flow.backend'), true)
    view.setUint32(at + 52, uint(value.generation, 0xffffffff, 'flow.generation'), true)
    view.setUint32(at + 56, uint(value.service, 0xffffffff, 'flow.service'), true)
    view.setUint32(at + 60, uint(value.slot, 0xffffffff, 'flow.slot'), true)
    view.setUint8(at + 64, uint(value.direction, 0xff, 'flow.direction'))
    view.setUint8(at + 65, uint(value.flags, 0xff, 'flow.flags'))
    view.setUint8(at + 66, uint(value.sent, 0xff, 'flow.sent'))
    view.setUint8(at + 67, uint(value.heard, 0xff, 'flow.heard'))
    putZero(view, at + 68, 4)
  },
  decode(view: DataView, at: number): Flow {
    return {
      to: tuple.decode(view, at),
      seenNs: view.getBigUint64(at + 40, true),
      backend: view.getUint32(at + 48, true),
      generation: view.getUint32(at + 52, true),
      service: view.getUint32(at + 56, true),
      slot: view.getUint32(at + 60, true),
      direction: view.getUint8(at + 64),
      flags: view.getUint8(at + 65),
      sent: view.getUint8(at + 66),
      heard: view.getUint8(at + 67),
    }
  },
} as const satisfies Codec<Flow> & { offsets: Readonly<Record<string, number>> }

/** struct flow_slot */
export interface FlowSlot {
  readonly key: Tuple
  readonly claimed: number
}

/** struct flow_slot, 48 bytes */
export const flowSlot = {
  name: 'flow_slot',
  size: 48,
  offsets: {
    key: 0,
    claimed: 40,
  },
  encode(view: DataView, at: number, value: FlowSlot): void {
    tuple.encode(view, at, value.key)
    view.setUint32(at + 40, uint(value.claimed, 0xffffffff, 'flow_slot.claimed'), true)
    putZero(view, at + 44, 4)
  },
  decode(view: DataView, at: number): FlowSlot {
    return {
      key: tuple.decode(view, at),
      claimed: view.getUint32(at + 40, true),
    }
  },
} as const satisfies Codec<FlowSlot> & { offsets: Readonly<Record<string, number>> }

/** Every map of bpf/maps.h, by its name without the version. */
export const maps = {
  frontends4: {
    name: 'frontends4_v1',
    type: 1,
    flags: 1,
    maxEntries: 65536,
    key: frontend4Key,
    value: frontend,
  } satisfies MapLayout<Frontend4Key, Frontend>,
  frontends6: {
    name: 'frontends6_v1',
    type: 1,
    flags: 1,
    maxEntries: 65536,
    key: frontend6Key,
    value: frontend,
  } satisfies MapLayout<Frontend6Key, Frontend>,
  srcRanges: {
    name: 'src_ranges_v1',
    type: 11,
    flags: 1,
    maxEntries: 65536,
    key: sourceRangeKey,
    value: u32,
  } satisfies MapLayout<SourceRangeKey, number>,
  services: {
    name: 'services_v1',
    type: 2,
    flags: 1024,
    maxEntries: 16384,
    key: u32,
    value: service,
  } satisfies MapLayout<number, Service>,
  slots: {
    name: 'slots_v1',
    type: 2,
    flags: 1024,
    maxEntries: 32768,
    key: u32,
    value: slotBlock,
  } satisfies MapLayout<number, SlotBlock>,
  backends: {
    name: 'backends_v1',
    type: 2,
    flags: 1024,
    maxEntries: 131072,
    key: u32,
    value: backend,
  } satisfies MapLayout<number, Backend>,
  svcNames: {
    name: 'svc_names_v1',
    type: 1,
    flags: 1,
    maxEntries: 16384,
    key: u32,
    value: serviceName,
  } satisfies MapLayout<number, ServiceName>,
  svcStats: {
    name: 'svc_stats_v1',
    type: 6,
    flags: 0,
    maxEntries: 16384,
    key: u32,
    value: serviceStats,
  } satisfies MapLayout<number, ServiceStats>,
  beStats: {
    name: 'be_stats_v1',
    type: 2,
    flags: 1024,
    maxEntries: 131072,
    key: u32,
    value: backendStats,
  } satisfies MapLayout<number, BackendStats>,
  outcomes: {
    name: 'outcomes_v1',
    type: 6,
    flags: 0,
    maxEntries: 304,
    key: u32,
    value: outcomeStats,
  } satisfies MapLayout<number, OutcomeStats>,
  affinity: {
    name: 'affinity_v1',
    type: 9,
    flags: 0,
    maxEntries: 65536,
    key: affinityKey,
    value: affinity,
  } satisfies MapLayout<AffinityKey, Affinity>,
  flowStats: {
    name: 'flow_stats_v1',
    type: 6,
    flags: 0,
    maxEntries: 1,
    key: u32,
    value: flowStats,
  } satisfies MapLayout<number, FlowStats>,
  filter: {
    name: 'filter_v1',
    type: 2,
    flags: 1024,
    maxEntries: 1,
    key: u32,
    value: filter,
  } satisfies MapLayout<number, Filter>,
  fragments: {
    name: 'fragments_v1',
    type: 9,
    flags: 0,
    maxEntries: 16384,
    key: fragmentKey,
    value: fragment,
  } satisfies MapLayout<FragmentKey, Fragment>,
  heldFrags: {
    name: 'held_frags_v1',
    type: 9,
    flags: 0,
    maxEntries: 1024,
    key: fragmentKey,
    value: heldFragment,
  } satisfies MapLayout<FragmentKey, HeldFragment>,
  heldBuf: {
    name: 'held_buf_v1',
    type: 6,
    flags: 0,
    maxEntries: 1,
    key: u32,
    value: heldFragment,
  } satisfies MapLayout<number, HeldFragment>,
  icmpQuote: {
    name: 'icmp_quote_v1',
    type: 6,
    flags: 0,
    maxEntries: 1,
    key: u32,
    value: icmpQuote,
  } satisfies MapLayout<number, IcmpQuote>,
  devices: {
    name: 'devices_v1',
    type: 1,
    flags: 0,
    maxEntries: 4096,
    key: u32,
    value: device,
  } satisfies MapLayout<number, Device>,
  routes: {
    name: 'routes_v1',
    type: 6,
    flags: 0,
    maxEntries: 512,
    key: u32,
    value: route,
  } satisfies MapLayout<number, Route>,
  reply: {
    name: 'reply_v1',
    type: 6,
    flags: 0,
    maxEntries: 1,
    key: u32,
    value: replyState,
  } satisfies MapLayout<number, ReplyState>,
  sockPlaces: {
    name: 'sock_places_v1',
    type: 2,
    flags: 1024,
    maxEntries: 65536,
    key: u32,
    value: sockPlace,
  } satisfies MapLayout<number, SockPlace>,
  sockConn: {
    name: 'sock_conn_v1',
    type: 24,
    flags: 1,
    maxEntries: 0,
    key: i32,
    value: sockPeer,
  } satisfies MapLayout<number, SockPeer>,
  sockSendto: {
    name: 'sock_sendto_v1',
    type: 24,
    flags: 1,
    maxEntries: 0,
    key: i32,
    value: sockPeer,
  } satisfies MapLayout<number, SockPeer>,
  udpPeers: {
    name: 'udp_peers_v1',
    type: 9,
    flags: 0,
    maxEntries: 65536,
    key: udpPeerKey,
    value: sockPeer,
  } satisfies MapLayout<UdpPeerKey, SockPeer>,
  flatSecret: {
    name: 'flat_secret_v1',
    type: 2,
    flags: 0,
    maxEntries: 1,
    key: u32,
    value: flatSecret,
  } satisfies MapLayout<number, FlatSecret>,
  flatIndex: {
    name: 'flat_index_v1',
    type: 2,
    flags: 1024,
    maxEntries: 65536,
    key: u32,
    value: flatBucket,
  } satisfies MapLayout<number, FlatBucket>,
  flatRecs4: {
    name: 'flat_recs4_v1',
    type: 2,
    flags: 1024,
    maxEntries: 65537,
    key: u32,
    value: flatRecord4,
  } satisfies MapLayout<number, FlatRecord4>,
  flatRecs6: {
    name: 'flat_recs6_v1',
    type: 2,
    flags: 1024,
    maxEntries: 65537,
    key: u32,
    value: flatRecord6,
  } satisfies MapLayout<number, FlatRecord6>,
  flatHand: {
    name: 'flat_hand_v1',
    type: 2,
    flags: 0,
    maxEntries: 2,
    key: u32,
    value: flowHand,
  } satisfies MapLayout<number, FlowHand>,
  flows: {
    name: 'flows_v1',
    type: 1,
    flags: 0,
    maxEntries: 131072,
    key: tuple,
    value: flow,
  } satisfies MapLayout<Tuple, Flow>,
  flowSlots: {
    name: 'flow_slots_v1',
    type: 2,
    flags: 0,
    maxEntries: 65536,
    key: u32,
    value: flowSlot,
  } satisfies MapLayout<number, FlowSlot>,
  flowHand: {
    name: 'flow_hand_v1',
    type: 2,
    flags: 0,
    maxEntries: 1,
    key: u32,
    value: flowHand,
  } satisfies MapLayout<number, FlowHand>,
} as const

/** Names of {@link maps}. */
export type MapId = keyof typeof maps
