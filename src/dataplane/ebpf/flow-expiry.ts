import { codeOf } from '../../base/errors.js'
import { toBytes, u32 } from '../../ebpf/codec.js'
import { type Flow, FlowSent, FlowState } from '../../ebpf/generated/layouts.js'
import type { BpfProgram } from '../../ebpf/native.js'

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

/** The constants of the object files that hold the timeouts. */
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

/** Places that one run of `flow_sweep` looks at (bpf/flows.bpf.c). */
const PLACES_PER_RUN = 64

/** The kernel wants an Ethernet header's bytes; nobody looks at them. */
const NO_PACKET = new Uint8Array(64)

/**
 * Has the programs look at the next `share` (0 to 1) of all places and end the flows whose
 * time is over. Never from here: between our look at a flow and its end its client might
 * have opened another one in its place.
 *
 * False: a signal ended that early, as the kernel does with repeated runs.
 */
export function sweepFlows(program: BpfProgram, places: number, share: number): boolean {
  const repeat = Math.ceil((places * share) / PLACES_PER_RUN)
  try {
    if (repeat > 0) program.testRun({ data: NO_PACKET, repeat })
    return true
  } catch (error) {
    if (codeOf(error) === 'EINTR') return false
    throw error
  }
}
