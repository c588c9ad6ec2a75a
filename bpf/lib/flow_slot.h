/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_slot.h: which place does a new flow get, and which flow has to go for it?
 *
 * There are as many slots as flows, and each flow holds one. A hand goes round them, in
 * another order each round; a new flow takes the first free slot from where it stands.
 * Free is a slot that no flow holds, and one whose flow's time is over, which is ended
 * here and now. So ended flows are collected by the flows that come after them, whoever
 * else is running, and the work is bounded.
 *
 * With no free slot among the next few a flow that is not confirmed yet, or that is
 * closed, has to go; most of a round has passed since it was opened. A confirmed flow
 * never does, whatever arrives.
 *
 * What the hand does not see to: two CPUs, one of which confirms a flow in the
 * nanoseconds between another's look at it and its end.
 *
 * maps  flow_slots_v1, flow_hand_v1, flows_v1 (read, write), flow_stats_v1 (write)
 */
#ifndef WAGGLE_LIB_FLOW_SLOT_H
#define WAGGLE_LIB_FLOW_SLOT_H

#include "../maps.h"
#include "backend.h"
#include "clock.h"
#include "flow_state.h"
#include "packet.h"

#define FLOW_SLOT_NONE ((__u32)-1)

/* Slots looked at before an unconfirmed flow has to go, and at most. */
#define FLOW_SLOT_LOOKS_KIND 8
#define FLOW_SLOT_LOOKS	     32

/*
 * Seconds that a datagram flow to a removed backend may be silent: answers that were under
 * way when it was removed still find it. The next datagram chooses again at once (flow.h).
 */
#define FLOW_LAST_ANSWERS_S 5

enum flow_slot_answer {
	FLOW_SLOT_FREE,
	FLOW_SLOT_YIELDS, /* free to those who need it */
	FLOW_SLOT_HELD,
};

/* The fields of the kernel's struct that are read here; libbpf finds their places. */
struct bpf_map {
	__u32 max_entries;
} __attribute__((preserve_access_index));

static __always_inline bool flow_is_over(__u8 proto, const struct flow *forward,
					 const struct tuple *reply_key, enum flow_state state)
{
	const struct flow *reply = bpf_map_lookup_elem(&flows_v1, reply_key);
	__u64 timeout_ns = flow_timeout_ns(proto, state);
	__u64 seen_ns = forward->seen_ns;

	if (!reply)
		return true;
	if (proto == IPPROTO_UDP && !backend_is_current(forward->backend, forward->generation))
		timeout_ns = FLOW_LAST_ANSWERS_S * NSEC_PER_SEC;
	if ((__s64)(reply->seen_ns - seen_ns) > 0)
		seen_ns = reply->seen_ns;
	return (__s64)(clock_coarse_ns() - seen_ns) > (__s64)timeout_ns;
}

/*
 * May this slot be taken? Ends the flow that holds it when it may go; needed = 1: also one
 * that yields. A function of its own, verified once.
 */
__noinline int flow_slot_ask(__u32 slot, __u32 needed)
{
	const struct tuple *key = bpf_map_lookup_elem(&flow_slots_v1, &slot);
	struct flow_stats *stats;
	const struct flow *forward;
	enum flow_state state;
	struct tuple reply;
	__u32 zero = 0;

	if (!key)
		return FLOW_SLOT_HELD;
	forward = bpf_map_lookup_elem(&flows_v1, key);
	if (!forward || forward->slot != slot || forward->direction != FLOW_FORWARD)
		return FLOW_SLOT_FREE;
	state = flow_state_of(forward);
	tuple_exchange(&reply, &forward->to);
	if (!flow_is_over(key->proto, forward, &reply, state)) {
		if (!flow_state_yields(state))
			return FLOW_SLOT_HELD;
		if (!needed)
			return FLOW_SLOT_YIELDS;
		stats = bpf_map_lookup_elem(&flow_stats_v1, &zero);
		if (stats)
			stats->evicted++;
	}
	bpf_map_delete_elem(&flows_v1, key);
	bpf_map_delete_elem(&flows_v1, &reply);
	return FLOW_SLOT_FREE;
}

/*
 * The slot at a position of the hand; slots is a power of two. Multiplying by an odd
 * number reaches each slot once a round, and another number each round pulls apart what
 * was opened in a row: the hand would run into thousands of long-lived flows otherwise.
 */
static __always_inline __u32 flow_slot_at(__u64 position, __u32 slots)
{
	__u64 round = position / slots;

	return (__u32)position * ((__u32)(round * 0x9e3779b97f4a7c15ULL >> 32) | 1) & (slots - 1);
}

/* A slot that no flow holds, or FLOW_SLOT_NONE. Nobody else gets it before the hand has been all
 * around. */
__noinline __u32 flow_slot_claim(void)
{
	__u32 slots = ((const struct bpf_map *)&flow_slots_v1)->max_entries;
	__u32 yields = FLOW_SLOT_NONE;
	__u32 zero = 0;
	struct flow_hand *hand = bpf_map_lookup_elem(&flow_hand_v1, &zero);
	int answer;
	int i;

	if (!hand || !slots)
		return FLOW_SLOT_NONE;
	for (i = 0; i < FLOW_SLOT_LOOKS; i++) {
		__u32 slot = flow_slot_at(__sync_fetch_and_add(&hand->next, 1), slots);

		answer = flow_slot_ask(slot, 0);
		if (answer == FLOW_SLOT_FREE)
			return slot;
		if (answer == FLOW_SLOT_YIELDS && yields == FLOW_SLOT_NONE)
			yields = slot;
		if (i + 1 >= FLOW_SLOT_LOOKS_KIND && yields != FLOW_SLOT_NONE) {
			/* Confirmed meanwhile: the next one may do. */
			if (flow_slot_ask(yields, 1) == FLOW_SLOT_FREE)
				return yields;
			yields = FLOW_SLOT_NONE;
		}
	}
	return FLOW_SLOT_NONE;
}

/* Says who holds a claimed slot. */
static __always_inline void flow_slot_take(__u32 slot, const struct tuple *forward_key)
{
	struct tuple *key = bpf_map_lookup_elem(&flow_slots_v1, &slot);

	if (key)
		*key = *forward_key;
}

#endif
