/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_add.h: stores a new flow in the flat flow table.
 *
 * Its record is written and offered, its two words are put, and then others with one of its keys
 * are looked for: so of two that come at once at least one sees the other. One more swap makes it
 * live under both keys.
 *
 * maps  through flat_table.h
 */
#ifndef WAGGLE_LIB_FLAT_ADD_H
#define WAGGLE_LIB_FLAT_ADD_H

#include "flat_table.h"

/* flat_offer of one family: ipv4 is a constant. */
static __always_inline __u64 flat_offer_of(struct flat_record *r, bool ipv4,
					   const struct tuple *from, const struct tuple *to,
					   const struct flow_new *new)
{
	__u64 taken, control;

	if (!r)
		return 0;
	taken = FLAT_READ(r->control);
	control = (taken + FLAT_CONTROL_AGE_STEP) & FLAT_CONTROL_AGE;
	control |= (taken & (FLAT_CONTROL_CLAIMED << FLAT_CONTROL_CLAIMED_AT));
	control |= FLAT_RECORD_OFFERED;
	r->backend = new->backend;
	r->generation = new->generation;
	r->flags = new->flags;
	flat_record_write(r, ipv4, from, to);
	FLAT_PUT(&r->control, control);
	return control;
}

/*
 * Writes a taken record and offers it; returns its control word, or 0. It is of another age
 * than whatever it was offered as before.
 */
__noinline __u64 flat_offer(const struct tuple *from, const struct tuple *to,
			    const struct flow_new *new)
{
	__u32 record;

	if (!from || !to || !new)
		return 0;
	record = flat_place_record(new->place);
	return flat_place_is_ipv4(new->place) ?
		       flat_offer_of(flat_record_ipv4(record), true, from, to, new) :
		       flat_offer_of(flat_record_ipv6(record), false, from, to, new);
}

/* The one moment in which a flow comes to be. */
static __always_inline bool flat_commit(__u32 place, __u64 control)
{
	__u64 live = flat_control_with(control, FLAT_RECORD_LIVE);
	struct flat_record *r = flat_record_at(place);

	live |= (__u64)flat_control_now() << FLAT_CONTROL_SEEN_AT;
	live |= (__u64)FLOW_SENT << FLAT_CONTROL_CLIENT_AT;
	return r && FLAT_SWAP(&r->control, control, live) == control;
}

/* Takes back what was offered; the record is taken still. */
static __always_inline void flat_withdraw(__u32 place, __u64 control)
{
	struct flat_record *r = flat_record_at(place);

	if (!r)
		return;
	FLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_ENDED));
	flat_unlink(place);
	FLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_TAKEN));
}

/* May a flow have these keys beside the records that there are? As flat_index_contest; out: 0;
 * FLOW_EXISTS; FLOW_TAKEN. */
static __always_inline int flat_contest(const struct tuple *from, __u64 client,
					const struct tuple *to, __u64 backend, __u32 own)
{
	if (flat_index_contest(from, FLAT_AS_IT_IS, client, own))
		return FLOW_EXISTS;
	return flat_index_contest(to, FLAT_EXCHANGED, backend, own) ? FLOW_TAKEN : 0;
}

/*
 * Stores the flow that turns packets with this tuple into *to, in new->place, which is taken
 * for it and is taken still when this fails. Whoever asks has found neither key a moment ago;
 * that they are nobody else's is decided here.
 *
 * out   0; FLOW_TAKEN; FLOW_EXISTS: or another CPU is opening it now; -OUTCOME_FLOWS_FULL: no
 *       place in the index
 */
static __always_inline int flat_add(const struct tuple *from, const struct tuple *to,
				    const struct flow_new *new)
{
	__u64 client = flat_hash_of_tuple(from, FLAT_AS_IT_IS);
	__u64 backend = flat_hash_of_tuple(to, FLAT_EXCHANGED);
	__u64 control;
	int ret;

	control = flat_offer(from, to, new);
	if (flat_index_put(client, flat_word(client, FLOW_FORWARD, new->place)) &&
	    flat_index_put(backend, flat_word(backend, FLOW_REPLY, new->place)))
		ret = flat_contest(from, client, to, backend, new->place);
	else
		ret = -OUTCOME_FLOWS_FULL;
	if (!ret && flat_commit(new->place, control))
		return 0;
	flat_withdraw(new->place, control);
	/* Refused: with another port it may be the only one. */
	return ret ?: FLOW_TAKEN;
}

#endif
