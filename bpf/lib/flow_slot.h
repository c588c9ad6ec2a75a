/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_slot.h: the places of flow_hand.h for flows in a hash map of the kernel, which has no
 * order that a hand could follow.
 *
 * There are as many slots as flows, and each flow holds one; a slot knows the forward key of
 * the flow that holds it, if that flow says so, too.
 *
 * What the hand does not see to: two CPUs, one of which confirms a flow, or opens one in
 * the place of a flow that is over, in the nanoseconds between another's look at it and
 * its end. That is why flows are ended by programs only: user space would take
 * milliseconds between the two.
 *
 * maps  flow_slots_v1, flow_hand_v1, flows_v1 (read, write), flow_stats_v1 (write)
 */
#ifndef WAGGLE_LIB_FLOW_SLOT_H
#define WAGGLE_LIB_FLOW_SLOT_H

#include "../maps.h"
#include "../maps_flow_hash.h"
#include "backend.h"
#include "clock.h"
#include "flow_hand.h"
#include "flow_state.h"
#include "packet.h"

static __always_inline bool flow_is_over(__u8 proto, const struct flow *forward,
					 const struct flow *reply, enum flow_state state)
{
	bool current =
		proto != IPPROTO_UDP || backend_is_current(forward->backend, forward->generation);
	__u64 timeout_ns = flow_timeout_ns(proto, state, current);
	__u64 seen_ns = forward->seen_ns;

	if ((__s64)(reply->seen_ns - seen_ns) > 0)
		seen_ns = reply->seen_ns;
	return (__s64)(clock_coarse_ns() - seen_ns) > (__s64)timeout_ns;
}

/* Is this slot free? Ends the flow that holds it when it may go; evict: also one that yields. */
static __always_inline enum flow_place_answer flow_slot_look(__u32 slot, const struct tuple *key,
							     bool evict)
{
	const struct flow *forward;
	const struct flow *reply;
	struct flow_stats *stats;
	enum flow_state state;
	struct tuple reply_key;
	__u32 zero = 0;

	forward = bpf_map_lookup_elem(&flows_v1, key);
	if (!forward || forward->slot != slot || forward->direction != FLOW_FORWARD)
		return FLOW_PLACE_FREE;
	state = flow_state_of(forward->sent, forward->heard);
	tuple_exchange(&reply_key, &forward->to);
	reply = bpf_map_lookup_elem(&flows_v1, &reply_key);
	if (reply && !flow_is_over(key->proto, forward, reply, state)) {
		if (!flow_state_yields(state))
			return FLOW_PLACE_HELD;
		if (!evict)
			return FLOW_PLACE_YIELDS;
		stats = bpf_map_lookup_elem(&flow_stats_v1, &zero);
		if (stats)
			stats->evicted++;
	}
	bpf_map_delete_elem(&flows_v1, key);
	bpf_map_delete_elem(&flows_v1, &reply_key);
	return FLOW_PLACE_FREE;
}

__noinline int flow_place_ask(__u32 slot, __u32 behind, __u32 need)
{
	struct flow_slot *place = bpf_map_lookup_elem(&flow_slots_v1, &slot);
	__u32 slots = ((const struct bpf_map *)&flow_slots_v1)->max_entries;
	enum flow_place_answer answer;
	__u32 claimed;

	if (!place)
		return FLOW_PLACE_HELD;
	claimed = *(volatile __u32 *)&place->claimed;
	if (need != FLOW_PLACE_NEEDS_RECENT && claimed && behind - claimed < slots / 2)
		return FLOW_PLACE_RECENT;
	answer = flow_slot_look(slot, &place->key, need != FLOW_PLACE_NEEDS_FREE);
	/* Two CPUs may come to one slot, where the round changes. */
	if (answer == FLOW_PLACE_FREE &&
	    __sync_val_compare_and_swap(&place->claimed, claimed, behind) != claimed)
		return FLOW_PLACE_HELD;
	return answer;
}

/* Ends the flow that holds this slot if its time is over. A function of its own, verified once. */
__noinline int flow_slot_sweep(__u32 slot)
{
	const struct flow_slot *place = bpf_map_lookup_elem(&flow_slots_v1, &slot);

	if (place)
		flow_slot_look(slot, &place->key, false);
	return 0;
}

/* A slot for a new flow, or FLOW_PLACE_NONE: all that were looked at are held. */
__noinline __u32 flow_slot_claim(void)
{
	__u32 slots = ((const struct bpf_map *)&flow_slots_v1)->max_entries;
	__u32 zero = 0;
	struct flow_hand *hand = bpf_map_lookup_elem(&flow_hand_v1, &zero);

	return hand && slots ? flow_hand_find(hand, 0, slots) : FLOW_PLACE_NONE;
}

/* Says who holds a claimed slot. */
static __always_inline void flow_slot_take(__u32 slot, const struct tuple *forward_key)
{
	struct flow_slot *place = bpf_map_lookup_elem(&flow_slots_v1, &slot);

	if (place)
		place->key = *forward_key;
}

#endif
