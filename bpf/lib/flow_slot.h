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
 * closed, has to go. A confirmed flow never does, whatever arrives.
 *
 * A slot that was taken is left alone for the next half round of looks, though the next
 * order may bring it up at once: a flow in the middle of its handshake has that long,
 * unless there is no other.
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
#include "backend.h"
#include "clock.h"
#include "flow_state.h"
#include "packet.h"

#define FLOW_SLOT_NONE ((__u32)-1)

/*
 * Slots looked at before an unconfirmed flow has to go, and at most. When the last flow
 * found none free, there is a flood: the first is small then, so that the hand goes slowly
 * and who means it has time for his handshake.
 */
#define FLOW_SLOT_LOOKS_KIND	8
#define FLOW_SLOT_LOOKS_CROWDED 2
#define FLOW_SLOT_LOOKS		32

/*
 * Seconds that a datagram flow to a removed backend may be silent: answers that were under
 * way when it was removed still find it. The next datagram chooses again at once (flow.h).
 */
#define FLOW_LAST_ANSWERS_S 5

enum flow_slot_answer {
	FLOW_SLOT_FREE,
	FLOW_SLOT_YIELDS, /* free to those who need it */
	FLOW_SLOT_RECENT, /* taken a moment ago; free only to those who find no other */
	FLOW_SLOT_HELD,
};

/* What a look may take. */
enum flow_slot_need {
	FLOW_SLOT_NEEDS_FREE,
	FLOW_SLOT_NEEDS_ANY,	/* also one that yields */
	FLOW_SLOT_NEEDS_RECENT, /* also one that was taken a moment ago */
};

/* The fields of the kernel's struct that are read here; libbpf finds their places. */
struct bpf_map {
	__u32 max_entries;
} __attribute__((preserve_access_index));

static __always_inline bool flow_is_over(__u8 proto, const struct flow *forward,
					 const struct flow *reply, enum flow_state state)
{
	__u64 timeout_ns = flow_timeout_ns(proto, state);
	__u64 seen_ns = forward->seen_ns;

	if (proto == IPPROTO_UDP && !backend_is_current(forward->backend, forward->generation))
		timeout_ns = FLOW_LAST_ANSWERS_S * NSEC_PER_SEC;
	if ((__s64)(reply->seen_ns - seen_ns) > 0)
		seen_ns = reply->seen_ns;
	return (__s64)(clock_coarse_ns() - seen_ns) > (__s64)timeout_ns;
}

/* Is this slot free? Ends the flow that holds it when it may go; evict: also one that yields. */
static __always_inline enum flow_slot_answer flow_slot_look(__u32 slot, const struct tuple *key,
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
		return FLOW_SLOT_FREE;
	state = flow_state_of(forward);
	tuple_exchange(&reply_key, &forward->to);
	reply = bpf_map_lookup_elem(&flows_v1, &reply_key);
	if (reply && !flow_is_over(key->proto, forward, reply, state)) {
		if (!flow_state_yields(state))
			return FLOW_SLOT_HELD;
		if (!evict)
			return FLOW_SLOT_YIELDS;
		stats = bpf_map_lookup_elem(&flow_stats_v1, &zero);
		if (stats)
			stats->evicted++;
	}
	bpf_map_delete_elem(&flows_v1, key);
	bpf_map_delete_elem(&flows_v1, &reply_key);
	return FLOW_SLOT_FREE;
}

/*
 * Takes the slot that a look of the hand came to, if it may. A function of its own,
 * verified once.
 *
 * in    behind: flow_hand.next after that look; need: enum flow_slot_need
 */
__noinline int flow_slot_ask(__u32 slot, __u32 behind, __u32 need)
{
	struct flow_slot *place = bpf_map_lookup_elem(&flow_slots_v1, &slot);
	__u32 slots = ((const struct bpf_map *)&flow_slots_v1)->max_entries;
	enum flow_slot_answer answer;
	__u32 claimed;

	if (!place)
		return FLOW_SLOT_HELD;
	claimed = *(volatile __u32 *)&place->claimed;
	if (need != FLOW_SLOT_NEEDS_RECENT && claimed && behind - claimed < slots / 2)
		return FLOW_SLOT_RECENT;
	answer = flow_slot_look(slot, &place->key, need != FLOW_SLOT_NEEDS_FREE);
	/* Two CPUs may come to one slot, where the round changes. */
	if (answer == FLOW_SLOT_FREE &&
	    __sync_val_compare_and_swap(&place->claimed, claimed, behind) != claimed)
		return FLOW_SLOT_HELD;
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

/*
 * The slot at a position of the hand; slots is a power of two. Each step keeps the numbers
 * below it apart, so a round reaches each slot once; what was opened in a row is pulled
 * apart in the next round: the hand would run into thousands of long-lived flows otherwise.
 */
static __always_inline __u32 flow_slot_at(__u64 position, __u32 slots)
{
	__u64 mix = (position / slots + 1) * 0x9e3779b97f4a7c15ULL;
	__u32 slot = position & (slots - 1);

	slot = slot * ((__u32)(mix >> 32) | 1) & (slots - 1);
	slot ^= slot >> 3;
	slot = slot * ((__u32)(mix >> 16) | 1) & (slots - 1);
	slot ^= slot >> 5;
	return slot * 0x2545f491 & (slots - 1);
}

/* Moves the hand on to a slot that a new flow may have; FLOW_SLOT_NONE: it found none. */
static __always_inline __u32 flow_slot_find(struct flow_hand *hand, __u32 slots)
{
	int kind = hand->crowded ? FLOW_SLOT_LOOKS_CROWDED : FLOW_SLOT_LOOKS_KIND;
	__u32 candidate = FLOW_SLOT_NONE;
	__u32 recent = FLOW_SLOT_NONE;
	__u32 candidate_behind = 0;
	__u32 recent_behind = 0;
	int answer;
	int i;

	for (i = 0; i < FLOW_SLOT_LOOKS; i++) {
		__u64 position = __sync_fetch_and_add(&hand->next, 1);
		__u32 slot = flow_slot_at(position, slots);

		answer = flow_slot_ask(slot, position + 1, FLOW_SLOT_NEEDS_FREE);
		if (answer == FLOW_SLOT_FREE) {
			if (hand->crowded)
				hand->crowded = 0;
			return slot;
		}
		if (answer == FLOW_SLOT_RECENT) {
			recent = slot;
			recent_behind = position + 1;
		}
		if (answer == FLOW_SLOT_YIELDS && candidate == FLOW_SLOT_NONE) {
			candidate = slot;
			candidate_behind = position + 1;
		}
		if (i + 1 >= kind && candidate != FLOW_SLOT_NONE) {
			/* Confirmed meanwhile: the next one may do. */
			if (flow_slot_ask(candidate, candidate_behind, FLOW_SLOT_NEEDS_ANY) ==
			    FLOW_SLOT_FREE) {
				hand->crowded = 1;
				return candidate;
			}
			candidate = FLOW_SLOT_NONE;
		}
	}
	if (recent != FLOW_SLOT_NONE &&
	    flow_slot_ask(recent, recent_behind, FLOW_SLOT_NEEDS_RECENT) == FLOW_SLOT_FREE)
		return recent;
	return FLOW_SLOT_NONE;
}

/* A slot for a new flow, or FLOW_SLOT_NONE: all that were looked at are held. */
__noinline __u32 flow_slot_claim(void)
{
	__u32 slots = ((const struct bpf_map *)&flow_slots_v1)->max_entries;
	__u32 zero = 0;
	struct flow_hand *hand = bpf_map_lookup_elem(&flow_hand_v1, &zero);

	return hand && slots ? flow_slot_find(hand, slots) : FLOW_SLOT_NONE;
}

/* Says who holds a claimed slot. */
static __always_inline void flow_slot_take(__u32 slot, const struct tuple *forward_key)
{
	struct flow_slot *place = bpf_map_lookup_elem(&flow_slots_v1, &slot);

	if (place)
		place->key = *forward_key;
}

#endif
