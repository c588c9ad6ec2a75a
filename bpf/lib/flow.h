/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow.h: which flow is this packet of, and what does it become? The one header that
 * knows how flows are stored.
 *
 * A flow is two entries, one a direction, each found by the tuple of a packet as it
 * arrives. A half's `to` is the tuple that the packet becomes, and exchanged it is the
 * other half's key. The reply half is made first and the forward half goes first, so
 * whoever finds a forward half finds a whole flow; what two CPUs may leave of one is
 * found out within a second of traffic (below).
 *
 * Each half keeps what its own packets have said and what it was told of the other's
 * (flow_state.h). The other half is told only when that changes, a few times in a flow's
 * life, so a packet of a known flow costs one look-up.
 *
 * maps  flows_v1 (read, write)
 */
#ifndef WAGGLE_LIB_FLOW_H
#define WAGGLE_LIB_FLOW_H

#include <linux/errno.h>

#include "../maps.h"
#include "affinity.h"
#include "backend.h"
#include "clock.h"
#include "flow_slot.h"
#include "flow_state.h"
#include "packet.h"

/* What the functions here return besides outcomes; never an exit of a program. */
enum flow_result {
	FLOW_NONE = OUTCOME_COUNT, /* no flow has this tuple */
	FLOW_TAKEN,		   /* another flow's replies look like this one's would */
};

/* Where a program looks from: replies of backends on this node pass at egress only. */
enum flow_side {
	FLOW_SIDE_INGRESS,
	FLOW_SIDE_EGRESS,
};

static __always_inline struct flow *flow_peer(const struct flow *half)
{
	struct tuple key;

	tuple_exchange(&key, &half->to);
	return bpf_map_lookup_elem(&flows_v1, &key);
}

/* Ends the flow of the forward half that packet p found. Its slot is found free when its turn
 * comes. */
static __always_inline void flow_remove(const struct packet *p, const struct flow *forward)
{
	struct tuple reply;

	tuple_exchange(&reply, &forward->to);
	bpf_map_delete_elem(&flows_v1, &p->tuple);
	bpf_map_delete_elem(&flows_v1, &reply);
}

/*
 * Does this packet need another backend? A datagram does once its backend is removed:
 * its sender cannot notice. Of a TCP connection only a SYN does, and only when the old
 * connection is over or its backend is removed; all others are left to their peers.
 */
static __always_inline bool flow_has_ended(const struct packet *p, const struct flow *forward)
{
	if (!packet_is_tcp(p))
		return !backend_is_current(forward->backend, forward->generation);
	if (!packet_is_pure_syn(p))
		return false;
	return (forward->sent | forward->heard) & (FLOW_SENT_FIN | FLOW_SENT_RST) ||
	       !backend_is_current(forward->backend, forward->generation);
}

/*
 * A backend that holds an older connection with the same ports in TIME_WAIT may answer a
 * SYN with a bare ACK. The client resets what it did not ask for, which frees the ports
 * there, and sends its SYN again (RFC 9293 3.10.7.3): that one must come with the same
 * ports, so none of this ends or confirms the flow. A RST of the backend does.
 */
static __always_inline bool flow_keeps_opening(const struct packet *p, const struct flow *half)
{
	if (!packet_is_tcp(p))
		return false;
	if (half->direction == FLOW_FORWARD)
		return !half->heard && p->tcp_flags & TCP_RST;
	return !half->sent && !(p->tcp_flags & (TCP_SYN | TCP_RST));
}

/* Notes in both halves what this one's packets have said; false when the other half is missing. */
static __always_inline bool flow_report(const struct packet *p, struct flow *half)
{
	__u8 sent = flow_sent_with(p, half);
	struct flow *peer;

	if (half->sent == sent || flow_keeps_opening(p, half))
		return true;
	peer = flow_peer(half);
	if (!peer)
		return false;
	half->sent = sent;
	peer->heard = sent;
	return true;
}

/* Whether a packet of the client that comes when the flow's time is over opens another one. Of a
 * TCP connection only a SYN does: its peers may have more patience than we. */
static __always_inline bool flow_may_begin_anew(const struct packet *p, const struct flow *half)
{
	return half->direction == FLOW_FORWARD && (!packet_is_tcp(p) || packet_is_pure_syn(p));
}

/*
 * Once a second of traffic: writes the time and looks whether the other half is there and
 * the flow's time is not over. Once a second keeps a busy flow's cache line shared;
 * timeouts are minutes.
 *
 * out   false: this is no flow any more
 */
static __always_inline bool flow_touch(const struct packet *p, struct flow *half)
{
	__u64 now = clock_coarse_ns();
	const struct flow *peer;

	/* Signed: another CPU may have written a tick that this one has not seen yet. */
	if ((__s64)(now - half->seen_ns) < (__s64)NSEC_PER_SEC)
		return true;
	peer = flow_peer(half);
	if (!peer)
		return false;
	if (flow_may_begin_anew(p, half) &&
	    flow_is_over(p->tuple.proto, half, peer, flow_state_of(half)))
		return false;
	half->seen_ns = now;
	return true;
}

/*
 * Which half of a flow would take the replies to p->to for its own: an enum
 * flow_direction, or 0. A flow whose time is over is ended, if it was its reply half: it
 * cannot keep a port that is asked for, though its slot's turn has not come. A function of
 * its own, verified once.
 */
__noinline int flow_half_for_replies(struct packet *p)
{
	const struct flow *forward;
	const struct flow *half;
	struct tuple key;

	if (!p)
		return 0;
	tuple_exchange(&key, &p->to);
	half = bpf_map_lookup_elem(&flows_v1, &key);
	if (!half)
		return 0;
	if (half->direction != FLOW_REPLY)
		return half->direction;
	tuple_exchange(&key, &half->to);
	forward = bpf_map_lookup_elem(&flows_v1, &key);
	if (forward && !flow_is_over(key.proto, forward, half, flow_state_of(forward)))
		return FLOW_REPLY;
	bpf_map_delete_elem(&flows_v1, &key);
	tuple_exchange(&key, &p->to);
	bpf_map_delete_elem(&flows_v1, &key);
	return 0;
}

static __always_inline void flow_use(struct packet *p, const struct flow *half)
{
	p->to = half->to;
	p->flow_flags = half->flags;
	p->flow_direction = half->direction;
}

/* Do packets of this flow go through the stack? All others are redirected. */
static __always_inline bool flow_is_of_stack(__u8 flags)
{
	return flags & (FLOW_LOCAL_BACKEND | FLOW_OF_NODE);
}

/* Where packets of this half are translated. */
static __always_inline enum flow_side flow_side(const struct flow *half)
{
	if (half->flags & FLOW_OF_NODE)
		return half->direction == FLOW_FORWARD ? FLOW_SIDE_EGRESS : FLOW_SIDE_INGRESS;
	return half->direction == FLOW_REPLY && half->flags & FLOW_LOCAL_BACKEND ?
		       FLOW_SIDE_EGRESS :
		       FLOW_SIDE_INGRESS;
}

/*
 * The half that a packet with this tuple would be of, for an ICMP error that goes its
 * way: nothing is written, so an error neither keeps a flow alive nor ends it.
 *
 * out   as flow_find
 */
static __always_inline int flow_find_of_error(struct packet *p, const struct tuple *tuple,
					      enum flow_side side)
{
	const struct flow *half = bpf_map_lookup_elem(&flows_v1, tuple);

	if (!half)
		return FLOW_NONE;
	if (side != flow_side(half))
		return OUTCOME_NOT_SERVICE;
	flow_use(p, half);
	return OUTCOME_CONTINUE;
}

/*
 * out   0 with p->to, flow_flags and flow_direction set; FLOW_NONE;
 *       OUTCOME_NOT_SERVICE: a flow's, but not to be changed on this side
 */
static __always_inline int flow_find(struct packet *p, enum flow_side side)
{
	struct flow *half = bpf_map_lookup_elem(&flows_v1, &p->tuple);

	if (!half)
		return FLOW_NONE;
	if (side != flow_side(half))
		return OUTCOME_NOT_SERVICE;
	if (half->direction == FLOW_FORWARD && flow_has_ended(p, half)) {
		flow_remove(p, half);
		return FLOW_NONE;
	}
	if (!flow_touch(p, half) || !flow_report(p, half)) {
		if (half->direction == FLOW_FORWARD)
			flow_remove(p, half);
		else
			bpf_map_delete_elem(&flows_v1, &p->tuple);
		return FLOW_NONE;
	}
	flow_use(p, half);
	return OUTCOME_CONTINUE;
}

/*
 * Stores the flow that turns p->tuple into p->to.
 *
 * in    p->to; half with backend, generation, service, slot and flags set, the rest is filled in
 * out   0 with p->flow_flags and flow_direction set; FLOW_TAKEN; -OUTCOME_FLOWS_FULL;
 *       -OUTCOME_BROKEN_STATE: another CPU made and ended the flow meanwhile
 *
 * When another CPU opened the same flow first, that one is used: p->to is then its, and
 * p->egress, which was found for another backend, is 0 again.
 */
static __always_inline int flow_add(struct packet *p, struct flow *half)
{
	const struct flow *first;
	/* On the stack, since Linux 6.1 takes no key from where a global function's argument
	 * points; and one after the other, since the stack is short. */
	struct tuple key;
	/* Not long: before Linux 6.4 the upper half of a map helper's result is not set. */
	int err;

	half->seen_ns = clock_coarse_ns();
	half->direction = FLOW_REPLY;
	half->sent = 0;
	half->heard = FLOW_SENT;
	tuple_exchange(&half->to, &p->tuple);
	tuple_exchange(&key, &p->to);
	err = bpf_map_update_elem(&flows_v1, &key, half, BPF_NOEXIST);
	if (err)
		return err == -EEXIST ? FLOW_TAKEN : -OUTCOME_FLOWS_FULL;
	half->direction = FLOW_FORWARD;
	half->sent = FLOW_SENT;
	half->heard = 0;
	half->to = p->to;
	key = p->tuple;
	err = bpf_map_update_elem(&flows_v1, &key, half, BPF_NOEXIST);
	if (!err) {
		flow_slot_take(half->slot, &key);
		flow_use(p, half);
		return OUTCOME_CONTINUE;
	}
	tuple_exchange(&key, &p->to);
	bpf_map_delete_elem(&flows_v1, &key);
	if (err != -EEXIST)
		return -OUTCOME_FLOWS_FULL;
	key = p->tuple;
	first = bpf_map_lookup_elem(&flows_v1, &key);
	if (!first)
		return -OUTCOME_BROKEN_STATE;
	flow_use(p, first);
	p->egress = 0;
	return OUTCOME_CONTINUE;
}

#endif
