/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_table.h: the flat flow table: flows as records in an array, found by two words each.
 *
 * A record is free, taken (its keys are written), offered (its words stand), live, ended
 * (its words are taken out) and free again. A flow comes to be, with both its keys, in one
 * swap of its control word, and ends in one; all that its packets have to tell is swapped
 * into that word, too. So who decides by a control word that a flow may go, and swaps it,
 * is right: a packet that came meanwhile has changed it.
 *
 * Only programs write, and what one has begun it ends. User space reads.
 *
 * Here a flow lives and ends; flat_add.h has how it comes to be, flat_place.h where.
 *
 * maps  backends_v1 (read); records and index through flat_record.h and flat_words.h
 */
#ifndef WAGGLE_LIB_FLAT_TABLE_H
#define WAGGLE_LIB_FLAT_TABLE_H

#include "../maps.h"
#include "backend.h"
#include "flat_words.h"
#include "flow_state.h"

static __always_inline void flat_unlink_one(const struct flat_record *r, bool ipv4, __u32 place,
					    __u8 direction)
{
	__u64 hash;

	if (!r)
		return;
	hash = flat_hash_of_record(r, ipv4, direction);
	flat_index_take(hash, flat_word(hash, direction, place));
}

/* Takes out what words there are of a record that is its caller's alone. */
__noinline int flat_unlink(__u32 place)
{
	__u32 record = flat_place_record(place);
	int direction;

	for (direction = FLOW_FORWARD; direction <= FLOW_REPLY; direction++) {
		if (flat_place_is_ipv4(place))
			flat_unlink_one(flat_record_ipv4(record), true, place, direction);
		else
			flat_unlink_one(flat_record_ipv6(record), false, place, direction);
	}
	return 0;
}

/*
 * Ends a live flow that was seen with this control word.
 *
 * out   1; 0: it has changed, or somebody else has ended it
 */
__noinline int flat_end(__u32 place, __u64 control)
{
	struct flat_record *r = flat_record_at(place);

	if (!r || FLAT_SWAP(&r->control, control, flat_control_with(control, FLAT_RECORD_ENDED)) !=
			  control)
		return 0;
	flat_unlink(place);
	FLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_FREE));
	return 1;
}

static __always_inline enum flow_state flat_control_flow_state(__u64 control)
{
	return flow_state_of(flat_control_sent(control, FLAT_CONTROL_CLIENT_AT),
			     flat_control_sent(control, FLAT_CONTROL_BACKEND_AT));
}

/* generation: low bits of the backend's when the flow was opened. */
static __always_inline bool flat_backend_is_current(__u32 index, __u16 generation)
{
	const struct backend *backend = backend_get(index);

	return backend && (__u16)backend->generation == generation;
}

/* Was no packet seen for as long as the flow may be silent? */
static __always_inline bool flat_is_over(__u64 control, __u8 proto, __u32 backend, __u16 generation)
{
	bool current = proto != IPPROTO_UDP || flat_backend_is_current(backend, generation);

	return flat_control_idle_ns(control) >
	       (__s64)flow_timeout_ns(proto, flat_control_flow_state(control), current);
}

/* The same of a record that was seen with this control word. What it says counts if the record has
 * that word still. */
static __always_inline bool flat_record_is_over(const struct flat_record *first, __u64 control)
{
	const struct flat_record *r = flat_behind(first, control);

	return flat_is_over(control, r->proto, r->backend, r->generation);
}

/*
 * What a packet of a known flow has to tell: sent, and that it was seen.
 *
 * out   false: the flow has ended
 */
static __always_inline bool flat_note(const struct flow_half *half, __u8 sent)
{
	__u32 at =
		half->direction == FLOW_FORWARD ? FLAT_CONTROL_CLIENT_AT : FLAT_CONTROL_BACKEND_AT;
	struct flat_record *r = flat_record_at(half->place);
	__u64 now = (__u64)flat_control_now() << FLAT_CONTROL_SEEN_AT;
	__u64 control = half->control;
	__u64 next, seen;
	int i;

	if (!r)
		return false;
	/* Somebody else's word may come between; the fourth time the next packet says it again. */
	for (i = 0; i < 4; i++) {
		next = (__u32)control & ~(FLAT_CONTROL_SENT << at);
		next |= now | (__u64)sent << at;
		seen = FLAT_SWAP(&r->control, control, next);
		if (seen == control)
			return true;
		if (!flat_control_is_live(seen) || !flat_control_same_age(seen, control))
			return false;
		control = seen;
	}
	return true;
}

#endif
