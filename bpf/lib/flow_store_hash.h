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
#ifndef WAGGLE_LIB_FLOW_STORE_OF_THIS_OBJECT
#define WAGGLE_LIB_FLOW_STORE_OF_THIS_OBJECT

#include <linux/errno.h>

#include "../maps.h"
#include "../maps_flow_hash.h"
#include "backend.h"
#include "clock.h"
#include "flow_slot.h"
#include "flow_state.h"
#include "flow_store.h"
#include "packet.h"

struct flow_half {
	struct flow *stored;
	__u32 backend;
	__u8 direction;
	__u8 flags;
	__u8 sent;
	__u8 heard;
};

/*
 * The other half, or NULL. A function of its own: a packet of a known flow rarely asks, and the
 * key would be on the stack of all that is called beside it.
 */
static __noinline struct flow *flow_store_peer(const struct flow *stored)
{
	struct tuple key;

	tuple_exchange(&key, &stored->to);
	return bpf_map_lookup_elem(&flows_v1, &key);
}

static __always_inline bool flow_store_has(const struct tuple *key)
{
	return bpf_map_lookup_elem(&flows_v1, key);
}

/* out   true with *to, *half; false: there is no flow */
static __always_inline bool flow_store_find(const struct tuple *key, struct tuple *to,
					    struct flow_half *half)
{
	struct flow *stored = bpf_map_lookup_elem(&flows_v1, key);

	if (!stored)
		return false;
	*to = stored->to;
	half->stored = stored;
	half->backend = stored->backend;
	half->direction = stored->direction;
	half->flags = stored->flags;
	half->sent = stored->sent;
	half->heard = stored->heard;
	return true;
}

static __always_inline bool flow_store_backend_is_current(const struct flow_half *half)
{
	return backend_is_current(half->backend, half->stored->generation);
}

/* Of this direction. Signed: another CPU may have written a tick that this one has not seen yet. */
static __always_inline __s64 flow_store_idle_ns(const struct flow_half *half)
{
	return clock_coarse_ns() - half->stored->seen_ns;
}

/* Of a packet of the client. */
static __always_inline bool flow_store_is_over(__u8 proto, const struct flow_half *half)
{
	const struct flow *peer = flow_store_peer(half->stored);

	return !peer ||
	       flow_is_over(proto, half->stored, peer, flow_state_of(half->sent, half->heard));
}

/* out   false: the other half is missing, so this is no flow any more */
static __always_inline bool flow_store_note(const struct flow_half *half, __u8 sent)
{
	struct flow *peer = flow_store_peer(half->stored);

	if (!peer)
		return false;
	if (half->sent != sent) {
		half->stored->sent = sent;
		peer->heard = sent;
	}
	half->stored->seen_ns = clock_coarse_ns();
	return true;
}

/* A function of its own as flow_store_peer is. */
static __noinline void flow_store_delete(const struct tuple *key, const struct flow *stored)
{
	bool forward = stored->direction == FLOW_FORWARD;
	struct tuple peer;

	tuple_exchange(&peer, &stored->to);
	bpf_map_delete_elem(&flows_v1, key);
	if (forward)
		bpf_map_delete_elem(&flows_v1, &peer);
}

/* Its slot is found free when its turn comes. A reply half that is ended has no other. */
static __always_inline void flow_store_end(const struct tuple *key, const struct flow_half *half)
{
	flow_store_delete(key, half->stored);
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
	if (forward &&
	    !flow_is_over(key.proto, forward, half, flow_state_of(forward->sent, forward->heard)))
		return FLOW_REPLY;
	bpf_map_delete_elem(&flows_v1, &key);
	tuple_exchange(&key, to);
	bpf_map_delete_elem(&flows_v1, &key);
	return 0;
}

static __always_inline __u32 flow_store_claim(bool ipv4)
{
	(void)ipv4;
	return flow_slot_claim();
}

/* A slot without a flow is found free when its turn comes. */
static __always_inline void flow_store_give_back(__u32 place)
{
	(void)place;
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
		.slot = new->place,
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
		flow_slot_take(new->place, &key);
		return OUTCOME_CONTINUE;
	}
	tuple_exchange(&key, to);
	bpf_map_delete_elem(&flows_v1, &key);
	return err == -EEXIST ? FLOW_EXISTS : -OUTCOME_FLOWS_FULL;
}

static __always_inline __u32 flow_store_places(void)
{
	return ((const struct bpf_map *)&flow_slots_v1)->max_entries;
}

static __always_inline struct flow_hand *flow_store_hand(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&flow_hand_v1, &zero);
}

static __always_inline void flow_store_sweep(__u32 place)
{
	flow_slot_sweep(place);
}

#endif
