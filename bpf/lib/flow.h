/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow.h: which flow is this packet of, and what does it become?
 *
 * What a flow means is here: when a packet needs another one, what its packets tell, and
 * for how long. How flows are kept is up to a store (flow_store.h).
 *
 * maps  through the stores
 */
#ifndef WAGGLE_LIB_FLOW_H
#define WAGGLE_LIB_FLOW_H

#include "../maps.h"
#include "affinity.h"
#include "filter.h"
#include "flow_state.h"
/* Unless the entry file has included the other store. */
#include "flow_store_hash.h"
#include "packet.h"

/* Where a program looks from: replies of backends on this node pass at egress only. */
enum flow_side {
	FLOW_SIDE_INGRESS,
	FLOW_SIDE_EGRESS,
};

/*
 * Does this packet need another backend? A datagram does once its backend is removed:
 * its sender cannot notice. Of a TCP connection only a SYN does, and only when the old
 * connection is over or its backend is removed; all others are left to their peers.
 */
static __always_inline bool flow_has_ended(const struct packet *p, const struct flow_half *half)
{
	if (packet_is_of_connection(p)) {
		if (!packet_is_pure_syn(p))
			return false;
		if ((half->sent | half->heard) & (FLOW_SENT_FIN | FLOW_SENT_RST))
			return true;
	}
	return !flow_store_backend_is_current(half);
}

/*
 * A backend that holds an older connection with the same ports in TIME_WAIT may answer a
 * SYN with a bare ACK. The client resets what it did not ask for, which frees the ports
 * there, and sends its SYN again (RFC 9293 3.10.7.3): that one must come with the same
 * ports, so none of this ends or confirms the flow. A RST of the backend does.
 */
static __always_inline bool flow_keeps_opening(const struct packet *p, const struct flow_half *half)
{
	if (!packet_is_of_connection(p))
		return false;
	if (half->direction == FLOW_FORWARD)
		return !half->heard && p->tcp_flags & TCP_RST;
	return !half->sent && !(p->tcp_flags & (TCP_SYN | TCP_RST));
}

/* Whether a packet of the client that comes when the flow's time is over opens another one. Of a
 * TCP connection only a SYN does: its peers may have more patience than we. */
static __always_inline bool flow_may_begin_anew(const struct packet *p,
						const struct flow_half *half)
{
	return half->direction == FLOW_FORWARD &&
	       (!packet_is_of_connection(p) || packet_is_pure_syn(p));
}

/*
 * Tells the store what it does not know yet, and once a second of traffic that there is
 * some: a busy flow's cache line stays shared, and timeouts are minutes.
 *
 * out   false: this is no flow any more
 */
static __always_inline bool flow_tell(const struct packet *p, const struct flow_half *half)
{
	__u8 sent = flow_sent_with(p, half->direction, half->sent, half->heard);

	if (sent != half->sent && flow_keeps_opening(p, half))
		sent = half->sent;
	if (flow_store_idle_ns(half) < (__s64)NSEC_PER_SEC) {
		if (sent == half->sent)
			return true;
	} else if (flow_may_begin_anew(p, half) && flow_store_is_over(p->tuple.proto, half)) {
		return false;
	}
	return flow_store_note(half, sent);
}

/*
 * Which direction of a flow would take the replies to p->to for its own: an enum
 * flow_direction, or 0. A flow whose time is over is ended, if they are its backend's: it
 * cannot keep a port that is asked for, though its slot's turn has not come. A function of
 * its own, verified once.
 */
__noinline int flow_half_for_replies(struct packet *p)
{
	return p ? flow_store_stays(&p->to) : 0;
}

static __always_inline void flow_use(struct packet *p, const struct flow_half *half)
{
	p->flow_flags = half->flags;
	p->flow_direction = half->direction;
	p->backend = half->backend;
}

/* Do packets of this flow go through the stack? All others are redirected. */
static __always_inline bool flow_is_of_stack(__u8 flags)
{
	return flags & (FLOW_LOCAL_BACKEND | FLOW_OF_NODE);
}

/* Where packets of this half are translated. */
static __always_inline enum flow_side flow_side(const struct flow_half *half)
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
	struct flow_half half;

	if (!flow_store_find(tuple, &p->to, &half))
		return FLOW_NONE;
	if (side != flow_side(&half))
		return OUTCOME_NOT_SERVICE;
	flow_use(p, &half);
	return OUTCOME_CONTINUE;
}

/*
 * out   0 with p->to, flow_flags and flow_direction set; FLOW_NONE;
 *       OUTCOME_NOT_SERVICE: a flow's, but not to be changed on this side;
 *       -OUTCOME_FRAGMENT: the rest of a datagram whose first part went to another backend
 */
static __always_inline int flow_find(struct packet *p, enum flow_side side)
{
	struct flow_half half;

	if (!flow_store_find(&p->tuple, &p->to, &half))
		return FLOW_NONE;
	if (side != flow_side(&half))
		return OUTCOME_NOT_SERVICE;
	if (packet_is_later_fragment(p) && half.backend != p->backend)
		return -OUTCOME_FRAGMENT;
	if ((half.direction == FLOW_FORWARD && flow_has_ended(p, &half)) || !flow_tell(p, &half)) {
		flow_store_end(&p->tuple, &half);
		return FLOW_NONE;
	}
	flow_use(p, &half);
	return OUTCOME_CONTINUE;
}

/*
 * Stores the flow that turns p->tuple into p->to.
 *
 * in    p->to; new
 * out   0 with p->flow_flags and flow_direction set; FLOW_TAKEN; FLOW_EXISTS (flow_join);
 *       -OUTCOME_FLOWS_FULL
 *
 * A function of its own: its variables are too many to be on the stack beside those of who
 * calls it, and a global one, so that the verifier looks at it once.
 */
__noinline int flow_add(struct packet *p, const struct flow_new *new)
{
	int ret;

	if (!p || !new)
		return -OUTCOME_BROKEN_STATE;
	filter_let_flow_pass(p, new->flags);
	ret = flow_store_add(&p->tuple, &p->to, new);
	if (ret)
		return ret;
	p->flow_flags = new->flags;
	p->backend = new->backend;
	p->flow_direction = FLOW_FORWARD;
	return OUTCOME_CONTINUE;
}

/*
 * The packet of a flow that flow_add says another CPU has opened first: p->to is then that
 * one's, and p->egress, which was found for another backend, is 0 again.
 *
 * out   0; -OUTCOME_BROKEN_STATE: it has ended meanwhile
 */
static __noinline int flow_join(struct packet *p)
{
	struct flow_half first;

	if (!flow_store_find(&p->tuple, &p->to, &first))
		return -OUTCOME_BROKEN_STATE;
	flow_use(p, &first);
	p->egress = 0;
	return OUTCOME_CONTINUE;
}

#endif
