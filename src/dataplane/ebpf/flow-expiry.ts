import { toBytes, u32 } from '../../ebpf/codec.js'
import {
  backend,
  type Flow,
  FlowDirection,
  FlowSent,
  FlowState,
  flow,
  type Tuple,
  tuple,
} from '../../ebpf/generated/layouts.js'
import type { KernelMaps } from './kernel-maps.js'

/**
 * Seconds without a packet in either direction after which a flow ends (RFC 5382, RFC
 * 4787). The programs have the same ones (bpf/lib/flow_state.h).
 */
export interface FlowTimeouts {
  /** Half-closed ones included. */
  readonly tcpEstablishedSeconds: number
  /** TCP flows whose client has not answered a reply. */
  readonly tcpTransitorySeconds: number
  /** FIN from both sides, or RST. */
  readonly tcpClosedSeconds: number
  /** UDP flows whose client has sent nothing after a reply. */
  readonly udpSeconds: number
  readonly udpStreamSeconds: number
}

const UDP = 17
const NS_PER_SECOND = 1_000_000_000n

/** Silence after which a datagram flow to a removed backend ends: answers under way still find it. */
const LAST_ANSWERS_SECONDS = 5

/** How far a flow has come, from its forward half. Pure; `flow_state_of` of the programs says the same. */
export function stateOf(forward: Pick<Flow, 'sent' | 'heard'>): FlowState {
  const either = forward.sent | forward.heard
  const both = forward.sent & forward.heard
  if (either & FlowSent.RST || both & FlowSent.FIN) return FlowState.CLOSED
  if (!(forward.sent & FlowSent.ON)) return FlowState.OPENING
  return either & FlowSent.FIN ? FlowState.HALF_CLOSED : FlowState.ESTABLISHED
}

/** Seconds that a flow in this state may be silent. Pure. */
export function timeoutOf(proto: number, state: FlowState, timeouts: FlowTimeouts): number {
  if (proto === UDP) return state === FlowState.OPENING ? timeouts.udpSeconds : timeouts.udpStreamSeconds
  if (state === FlowState.CLOSED) return timeouts.tcpClosedSeconds
  return state === FlowState.OPENING ? timeouts.tcpTransitorySeconds : timeouts.tcpEstablishedSeconds
}

/** The constants of tc.bpf.o that hold the timeouts. */
export function timeoutConstants(timeouts: FlowTimeouts): Readonly<Record<string, Uint8Array>> {
  const seconds = {
    cfg_flow_tcp_established_s: timeouts.tcpEstablishedSeconds,
    cfg_flow_tcp_transitory_s: timeouts.tcpTransitorySeconds,
    cfg_flow_tcp_closed_s: timeouts.tcpClosedSeconds,
    cfg_flow_udp_s: timeouts.udpSeconds,
    cfg_flow_udp_stream_s: timeouts.udpStreamSeconds,
  }
  return Object.fromEntries(Object.entries(seconds).map(([name, value]) => [name, toBytes(u32, Math.ceil(value))]))
}

/** The key of a flow's other half: `to` with source and destination exchanged. */
export function otherHalf(half: Flow): Tuple {
  const { src, dst, sport, dport, proto } = half.to
  return { src: dst, dst: src, sport: dport, dport: sport, proto }
}

/** Both halves of a flow, keyed by the forward one. `reply` is missing when only one was found. */
export interface WholeFlow {
  readonly key: Tuple
  readonly forward: Flow
  readonly reply: Flow | undefined
}

export interface FlowWalk {
  readonly flows: readonly WholeFlow[]
  /** Keys of reply halves whose forward half is missing. */
  readonly widows: readonly Uint8Array[]
}

/** Reads the flow table. A walk beside the programs may miss a flow that just came or went. */
export function walkFlows(maps: KernelMaps): FlowWalk {
  const { keys, values, count } = maps.handles.flows.entries()
  const keyView = new DataView(keys.buffer, keys.byteOffset, keys.byteLength)
  const valueView = new DataView(values.buffer, values.byteOffset, values.byteLength)
  const forwards: { key: Tuple; half: Flow }[] = []
  const replies = new Map<string, { key: Uint8Array; half: Flow }>()
  const nameOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1')
  for (let i = 0; i < count; i++) {
    const half = flow.decode(valueView, i * flow.size)
    if (half.direction === FlowDirection.FORWARD) {
      forwards.push({ key: tuple.decode(keyView, i * tuple.size), half })
    } else {
      const key = keys.slice(i * tuple.size, (i + 1) * tuple.size)
      replies.set(nameOf(key), { key, half })
    }
  }
  const flows = forwards.map(({ key, half }) => {
    const name = nameOf(toBytes(tuple, otherHalf(half)))
    const reply = replies.get(name)?.half
    replies.delete(name)
    return { key, forward: half, reply }
  })
  return { flows, widows: [...replies.values()].map(each => each.key) }
}

/** When the flow last saw a packet, CLOCK_MONOTONIC ns. */
export function lastSeen(each: WholeFlow): bigint {
  const reply = each.reply?.seenNs ?? 0n
  return each.forward.seenNs > reply ? each.forward.seenNs : reply
}

/** Whether a flow should end now. Pure; `retired` says that the backend it names was removed. */
export function isExpired(each: WholeFlow, nowNs: bigint, retired: boolean, timeouts: FlowTimeouts): boolean {
  const orphan = each.key.proto === UDP && retired
  const seconds = orphan ? LAST_ANSWERS_SECONDS : timeoutOf(each.key.proto, stateOf(each.forward), timeouts)
  return nowNs - lastSeen(each) > BigInt(Math.ceil(seconds)) * NS_PER_SECOND
}

/** Ends the flows that are due; returns how many. */
export function sweepFlows(maps: KernelMaps, nowNs: bigint, timeouts: FlowTimeouts): number {
  const { backends, handles } = maps
  const isRetired = ({ backend: index, generation }: Flow) => {
    if (index >= backends.length) return true
    return backends.view.getUint32(backends.offset(index) + backend.offsets.generation, true) !== generation
  }
  const { flows, widows } = walkFlows(maps)
  const due = flows.filter(each => isExpired(each, nowNs, isRetired(each.forward), timeouts))
  for (const { key, forward } of due) {
    handles.flows.delete(toBytes(tuple, otherHalf(forward)))
    handles.flows.delete(toBytes(tuple, key))
  }
  for (const key of widows) {
    // Its forward half may have been made after the walk passed; a widow of this walk only is left alone.
    const value = handles.flows.lookup(key)
    if (!value) continue
    const half = flow.decode(new DataView(value.buffer, value.byteOffset, value.byteLength), 0)
    if (!handles.flows.lookup(toBytes(tuple, otherHalf(half)))) handles.flows.delete(key)
  }
  return due.length
}
