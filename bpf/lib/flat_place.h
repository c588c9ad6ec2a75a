/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_place.h: the places of flow_hand.h in the flat flow table: its records.
 *
 * A place is free that is nobody's, and taken by a swap. The flow that holds it ends by another,
 * which fails if a packet of it came meanwhile: so a flow that is confirmed just now stays.
 *
 * maps  flat_hand_v1 (read, write), flow_stats_v1 (write); records through flat_table.h
 */
#ifndef WAGGLE_LIB_FLAT_PLACE_H
#define WAGGLE_LIB_FLAT_PLACE_H

#include "flat_table.h"
#include "flow_hand.h"

/* How many records there are of each family: a power of two. */
static __always_inline __u32 flat_records(void)
{
	return ((const struct bpf_map *)&flat_recs4_v1)->max_entries - 1;
}

/* A position of the hand in sixteenths of a round, as a control word has it. */
static __always_inline __u64 flat_claimed(__u32 position)
{
	__u64 sixteenths = (__u64)position * 16 / flat_records();

	return (sixteenths & FLAT_CONTROL_CLAIMED) << FLAT_CONTROL_CLAIMED_AT;
}

/* Was the record taken less than half a round ago, or a sixteenth more? Sure for four rounds; after
 * that a flow may be passed over once. */
static __always_inline bool flat_is_recent(__u64 control, __u64 claimed)
{
	return ((claimed - control) >> FLAT_CONTROL_CLAIMED_AT & FLAT_CONTROL_CLAIMED) <= 8;
}

static __always_inline void flat_count_evicted(void)
{
	__u32 zero = 0;
	struct flow_stats *stats = bpf_map_lookup_elem(&flow_stats_v1, &zero);

	if (stats)
		stats->evicted++;
}

__noinline int flow_place_ask(__u32 place, __u32 behind, __u32 need)
{
	struct flat_record *r = flat_record_at(place);
	__u64 claimed = flat_claimed(behind);
	__u64 control, taken;
	bool over;

	if (!r)
		return FLOW_PLACE_HELD;
	control = FLAT_READ(r->control);
	if (flat_control_is_live(control)) {
		if (need != FLOW_PLACE_NEEDS_RECENT && flat_is_recent(control, claimed))
			return FLOW_PLACE_RECENT;
		over = flat_record_is_over(r, control);
		if (!over && !flow_state_yields(flat_control_flow_state(control)))
			return FLOW_PLACE_HELD;
		if (!over && need == FLOW_PLACE_NEEDS_FREE)
			return FLOW_PLACE_YIELDS;
		if (!flat_end(place, control))
			return FLOW_PLACE_HELD;
		if (!over)
			flat_count_evicted();
		control = flat_control_with(control, FLAT_RECORD_FREE);
	}
	if (flat_control_state(control) != FLAT_RECORD_FREE)
		return FLOW_PLACE_HELD;
	taken = (control & FLAT_CONTROL_AGE) | claimed | FLAT_RECORD_TAKEN;
	return FLAT_SWAP(&r->control, control, taken) == control ? FLOW_PLACE_FREE :
								   FLOW_PLACE_HELD;
}

/* A record for a new flow, taken, or FLOW_PLACE_NONE. */
__noinline __u32 flat_claim(bool ipv4)
{
	__u32 which = ipv4;
	struct flow_hand *hand = bpf_map_lookup_elem(&flat_hand_v1, &which);
	__u32 records = flat_records();

	if (!hand || !records)
		return FLOW_PLACE_NONE;
	return flow_hand_find(hand, 1 | (ipv4 ? FLAT_PLACE_IPV4 : 0), records);
}

/* Ends the flow in this place if its time is over. */
__noinline int flat_sweep(__u32 place)
{
	struct flat_record *r = flat_record_at(place);
	__u64 control;

	if (!r)
		return 0;
	control = FLAT_READ(r->control);
	if (flat_control_is_live(control) && flat_record_is_over(r, control))
		flat_end(place, control);
	return 0;
}

/* A taken record that no flow has come to need. */
static __always_inline void flat_give_back(__u32 place)
{
	struct flat_record *r = flat_record_at(place);

	if (r)
		FLAT_PUT(&r->control, flat_control_with(FLAT_READ(r->control), FLAT_RECORD_FREE));
}

#endif
