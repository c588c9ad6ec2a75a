/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_hand.h: which place does a new flow get, and which flow has to go for it?
 *
 * There are as many places as flows, and each flow holds one. A hand goes round them, in
 * another order each round; a new flow takes the first free one from where it stands.
 * Free is a place that no flow holds, and one whose flow's time is over, which is ended
 * here and now. So ended flows are collected by the flows that come after them, whoever
 * else is running, and the work is bounded.
 *
 * With no free place among the next few a flow that is not confirmed yet, or that is
 * closed, has to go. A confirmed flow never does, whatever arrives.
 *
 * A place that was taken is left alone for the next half round of looks, though the next
 * order may bring it up at once: a flow in the middle of its handshake has that long,
 * unless there is no other.
 *
 * What a place is, is up to the store (flow_store.h), which answers flow_place_ask().
 */
#ifndef WAGGLE_LIB_FLOW_HAND_H
#define WAGGLE_LIB_FLOW_HAND_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "../layout/flow.h"

#define FLOW_PLACE_NONE ((__u32)-1)

/*
 * Places looked at before an unconfirmed flow has to go, and at most. When the last flow
 * found none free, there is a flood: the first is small then, so that the hand goes slowly
 * and who means it has time for his handshake.
 */
#define FLOW_HAND_LOOKS_KIND	8
#define FLOW_HAND_LOOKS_CROWDED 2
#define FLOW_HAND_LOOKS		32

enum flow_place_answer {
	FLOW_PLACE_FREE,   /* and taken by who asked */
	FLOW_PLACE_YIELDS, /* free to those who need it */
	FLOW_PLACE_RECENT, /* taken a moment ago; free only to those who find no other */
	FLOW_PLACE_HELD,
};

/* What a look may take. */
enum flow_place_need {
	FLOW_PLACE_NEEDS_FREE,
	FLOW_PLACE_NEEDS_ANY,	 /* also one that yields */
	FLOW_PLACE_NEEDS_RECENT, /* also one that was taken a moment ago */
};

/* The fields of the kernel's struct that are read here; libbpf finds their places. */
struct bpf_map {
	__u32 max_entries;
} __attribute__((preserve_access_index));

/*
 * Takes the place that a look of the hand came to, if it may. The store's; a global
 * function, which the verifier looks at once.
 *
 * in    behind: flow_hand.next after that look; need: enum flow_place_need
 * out   enum flow_place_answer
 */
int flow_place_ask(__u32 place, __u32 behind, __u32 need);

/*
 * The place at a position of the hand; places is a power of two. Each step keeps the numbers
 * below it apart, so a round reaches each place once; what was opened in a row is pulled
 * apart in the next round: the hand would run into thousands of long-lived flows otherwise.
 */
static __always_inline __u32 flow_hand_at(__u64 position, __u32 places)
{
	__u64 mix = (position / places + 1) * 0x9e3779b97f4a7c15ULL;
	__u32 place = position & (places - 1);

	place = place * ((__u32)(mix >> 32) | 1) & (places - 1);
	place ^= place >> 3;
	place = place * ((__u32)(mix >> 16) | 1) & (places - 1);
	place ^= place >> 5;
	return place * 0x2545f491 & (places - 1);
}

/*
 * Moves the hand on to a place that a new flow may have; FLOW_PLACE_NONE: it found none.
 *
 * in    first: the first place's number; places: how many there are
 */
static __always_inline __u32 flow_hand_find(struct flow_hand *hand, __u32 first, __u32 places)
{
	int kind = hand->crowded ? FLOW_HAND_LOOKS_CROWDED : FLOW_HAND_LOOKS_KIND;
	__u32 candidate = FLOW_PLACE_NONE;
	__u32 recent = FLOW_PLACE_NONE;
	__u32 candidate_behind = 0;
	__u32 recent_behind = 0;
	int answer;
	int i;

	for (i = 0; i < FLOW_HAND_LOOKS; i++) {
		__u64 position = __sync_fetch_and_add(&hand->next, 1);
		__u32 place = first + flow_hand_at(position, places);

		answer = flow_place_ask(place, position + 1, FLOW_PLACE_NEEDS_FREE);
		if (answer == FLOW_PLACE_FREE) {
			if (hand->crowded)
				hand->crowded = 0;
			return place;
		}
		if (answer == FLOW_PLACE_RECENT) {
			recent = place;
			recent_behind = position + 1;
		}
		if (answer == FLOW_PLACE_YIELDS && candidate == FLOW_PLACE_NONE) {
			candidate = place;
			candidate_behind = position + 1;
		}
		if (i + 1 >= kind && candidate != FLOW_PLACE_NONE) {
			/* Confirmed meanwhile: the next one may do. */
			if (flow_place_ask(candidate, candidate_behind, FLOW_PLACE_NEEDS_ANY) ==
			    FLOW_PLACE_FREE) {
				hand->crowded = 1;
				return candidate;
			}
			candidate = FLOW_PLACE_NONE;
		}
	}
	if (recent != FLOW_PLACE_NONE &&
	    flow_place_ask(recent, recent_behind, FLOW_PLACE_NEEDS_RECENT) == FLOW_PLACE_FREE)
		return recent;
	return FLOW_PLACE_NONE;
}

#endif
