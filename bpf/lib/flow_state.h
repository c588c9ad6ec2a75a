/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_state.h: how far has a flow come, and how long may it be silent? Pure.
 *
 * Sequence numbers are not followed, so anybody who can send a segment with a flow's
 * addresses can close it. All that does is to shorten the time it may be silent: packets
 * go on to the same backend, and the next segment of that side takes a reset back.
 */
#ifndef WAGGLE_LIB_FLOW_STATE_H
#define WAGGLE_LIB_FLOW_STATE_H

#include "../layout/flow.h"
#include "clock.h"
#include "packet.h"

/* Seconds without a packet in either direction, set by the loader (RFC 5382 REQ-5, RFC 4787 REQ-5).
 */
const volatile __u32 cfg_flow_tcp_established_s = 7440;
const volatile __u32 cfg_flow_tcp_transitory_s = 240;
const volatile __u32 cfg_flow_tcp_closed_s = 10;
const volatile __u32 cfg_flow_udp_s = 120;
const volatile __u32 cfg_flow_udp_stream_s = 300;

/*
 * Seconds that a datagram flow to a removed backend may be silent: answers that were under
 * way when it was removed still find it. The next datagram chooses again at once (flow.h).
 */
#define FLOW_LAST_ANSWERS_S 5

/* enum flow_sent of a direction after another of its packets. */
static __always_inline __u8 flow_sent_with(const struct packet *p, __u8 direction, __u8 sent,
					   __u8 heard)
{
	sent |= FLOW_SENT;
	if (p->tcp_flags & TCP_RST)
		return sent | FLOW_SENT_RST;
	sent &= ~FLOW_SENT_RST;
	if (p->tcp_flags & TCP_FIN)
		sent |= FLOW_SENT_FIN;
	if (direction == FLOW_FORWARD && heard && !(p->tcp_flags & TCP_SYN))
		sent |= FLOW_SENT_ON;
	return sent;
}

/* in    enum flow_sent of the client's packets, and of the backend's */
static __always_inline enum flow_state flow_state_of(__u8 sent, __u8 heard)
{
	__u8 either = sent | heard;

	if (either & FLOW_SENT_RST || sent & heard & FLOW_SENT_FIN)
		return FLOW_CLOSED;
	if (!(sent & FLOW_SENT_ON))
		return FLOW_OPENING;
	return either & FLOW_SENT_FIN ? FLOW_HALF_CLOSED : FLOW_ESTABLISHED;
}

/* May a flow in this state end before its time, to make room for another? */
static __always_inline bool flow_state_yields(enum flow_state state)
{
	return state == FLOW_OPENING || state == FLOW_CLOSED;
}

/* in    current: whether its backend is there still */
static __always_inline __u64 flow_timeout_ns(__u8 proto, enum flow_state state, bool current)
{
	__u32 seconds;

	if (proto == IPPROTO_UDP && !current)
		seconds = FLOW_LAST_ANSWERS_S;
	else if (proto == IPPROTO_UDP)
		seconds = state == FLOW_OPENING ? cfg_flow_udp_s : cfg_flow_udp_stream_s;
	else if (state == FLOW_CLOSED)
		seconds = cfg_flow_tcp_closed_s;
	else
		seconds = state == FLOW_OPENING ? cfg_flow_tcp_transitory_s :
						  cfg_flow_tcp_established_s;
	return seconds * NSEC_PER_SEC;
}

#endif
