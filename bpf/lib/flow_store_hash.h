/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_store_hash.h: flows as two entries each, one a direction, in a hash map of the
 * kernel; flow_store.h says what is asked of it.
 *
 * Each half is found by the tuple of a packet as it arrives. A half's `to` is the tuple
 * that the packet becomes, and exchanged it is the other half's key. The reply half is
 * made first and the forward half goes first, so whoever finds a forward half finds a
 * whole flow; what two CPUs may leave of one is found out within a second of traffic.
 *
 * Each half keeps what its own packets have said and what it was told of the other's
 * (flow_state.h). The other half is told only when that changes, a few times in a flow's
 * life, so a packet of a known flow costs one look-up.
 *
 * maps  flows_v1 (read, write)
 */
#ifndef WAGGLE_LIB_FLOW_STORE_HASH_H
#define WAGGLE_LIB_FLOW_STORE_HASH_H

#include <linux/errno.h>

#include "../maps.h"
#include "clock.h"
#include "flow_slot.h"
#include "flow_state.h"
#include "flow_store.h"
#include "packet.h"

/*
 * The other half, or NULL. A function of its own: a packet of a known flow rarely asks, and the
 * key would be on the stack of all that is called beside it.
 */
static __noinline struct flow *flow_store_peer(const struct flow *half)
{
	struct tuple key;

	tuple_exchange(&key, &half->to);
	return bpf_map_lookup_elem(&flows_v1, &key);
}

/* The half that packets with this tuple are of, or NULL. */
static __always_inline struct flow *flow_store_find(const struct tuple *key)
{
	return bpf_map_lookup_elem(&flows_v1, key);
}

/* Signed: another CPU may have written a tick that this one has not seen yet. */
static __always_inline __s64 flow_store_idle_ns(const struct flow *half)
{
	return clock_coarse_ns() - half->seen_ns;
}

/* Of a packet of the client. */
static __always_inline bool flow_store_is_over(__u8 proto, const struct flow *half)
{
	const struct flow *peer = flow_store_peer(half);

	return !peer || flow_is_over(proto, half, peer, flow_state_of(half));
}

/* out   false: the other half is missing, so this is no flow any more */
static __always_inline bool flow_store_note(struct flow *half, __u8 sent)
{
	struct flow *peer = flow_store_peer(half);

	if (!peer)
		return false;
	if (half->sent != sent) {
		half->sent = sent;
		peer->heard = sent;
	}
	half->seen_ns = clock_coarse_ns();
	return true;
}

/* Its slot is found free when its turn comes. A reply half that is ended has no other. */
static __always_inline void flow_store_end(const struct tuple *key, const struct flow *half)
{
	struct tuple reply;

	tuple_exchange(&reply, &half->to);
	bpf_map_delete_elem(&flows_v1, key);
	if (half->direction == FLOW_FORWARD)
		bpf_map_delete_elem(&flows_v1, &reply);
}

/*
 * A flow whose time is over cannot keep a port that is asked for, though its slot's turn has
 * not come.
 *
 * in    to: what the packets become whose replies are asked about
 * out   enum flow_direction of who would take them for its own; 0: nobody
 */
static __always_inline int flow_store_stays(const struct tuple *to)
{
	const struct flow *forward;
	const struct flow *half;
	struct tuple key;

	tuple_exchange(&key, to);
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
	tuple_exchange(&key, to);
	bpf_map_delete_elem(&flows_v1, &key);
	return 0;
}

/*
 * Stores the flow that turns packets with this tuple into *to.
 *
 * out   0; FLOW_TAKEN; FLOW_EXISTS; -OUTCOME_FLOWS_FULL
 */
static __always_inline int flow_store_add(const struct tuple *from, const struct tuple *to,
					  const struct flow_new *new)
{
	struct flow half = {
		.seen_ns = clock_coarse_ns(),
		.backend = new->backend,
		.generation = new->generation,
		.service = new->service,
		.slot = new->slot,
		.flags = new->flags,
		.direction = FLOW_REPLY,
		.heard = FLOW_SENT,
	};
	/* On the stack, since Linux 6.1 takes no key from where a global function's argument
	 * points; and one after the other, since the stack is short. */
	struct tuple key;
	/* Not long: before Linux 6.4 the upper half of a map helper's result is not set. */
	int err;

	tuple_exchange(&half.to, from);
	tuple_exchange(&key, to);
	err = bpf_map_update_elem(&flows_v1, &key, &half, BPF_NOEXIST);
	if (err)
		return err == -EEXIST ? FLOW_TAKEN : -OUTCOME_FLOWS_FULL;
	half.direction = FLOW_FORWARD;
	half.sent = FLOW_SENT;
	half.heard = 0;
	half.to = *to;
	key = *from;
	err = bpf_map_update_elem(&flows_v1, &key, &half, BPF_NOEXIST);
	if (!err) {
		flow_slot_take(new->slot, &key);
		return OUTCOME_CONTINUE;
	}
	tuple_exchange(&key, to);
	bpf_map_delete_elem(&flows_v1, &key);
	return err == -EEXIST ? FLOW_EXISTS : -OUTCOME_FLOWS_FULL;
}

#endif
