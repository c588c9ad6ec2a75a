/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * table.h: the flat flow table: flows as records in an array, found by two words each.
 *
 * A record is free, taken (its keys are written), offered (its words stand), live, ended
 * (its words are taken out) and free again. A flow comes to be, with both its keys, in one
 * swap of its control word, and ends in one; all that its packets have to tell is swapped
 * into that word, too. So who decides by a control word that a flow may go, and swaps it,
 * is right: a packet that came meanwhile has changed it.
 *
 * Only programs write, and what one has begun it ends. User space reads.
 *
 * An includer says what is to be done when a flow ends: flat_ended().
 *
 * maps  flat_hand (write); records and index through record.h and index.h
 */
#ifndef FLAT_TABLE_H
#define FLAT_TABLE_H

#include "index.h"

static void flat_ended(const struct flat_record *r);

/* Records looked at before an unconfirmed flow has to go, and at most. */
#define FLAT_LOOKS_KIND 2
#define FLAT_LOOKS	32

/* Positions of the hand so far: [0] IPv6, [1] IPv4. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} flat_hand SEC(".maps");

static __always_inline void flat_unlink(__u32 record, bool ipv4, __u8 direction)
{
	struct flat_place place = {};
	const struct flat_record *r;
	struct tuple key;

	if (ipv4) {
		r = flat_record_ipv4(record);
		if (!r)
			return;
		flat_record_key(r, true, direction, &key);
	} else {
		r = flat_record_ipv6(record);
		if (!r)
			return;
		flat_record_key(r, false, direction, &key);
	}
	flat_place_of(&key, ipv4, &place);
	flat_index_take(place.home, place.step, flat_word(&place, direction, record));
}

/*
 * Ends a live flow that was seen with this control word.
 *
 * out   1; 0: it has changed, or somebody else has ended it
 */
__noinline int flat_end(__u32 record, bool ipv4, __u64 control)
{
	struct flat_record *r = flat_record_at(record, ipv4);
	int direction;

	if (!r || FLAT_SWAP(&r->control, control, flat_control_with(control, FLAT_RECORD_ENDED)) !=
			  control)
		return 0;
	flat_ended(r);
	for (direction = FLOW_FORWARD; direction <= FLOW_REPLY; direction++)
		flat_unlink(record, ipv4, direction);
	FLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_FREE));
	return 1;
}

/* A position of the hand in sixteenths of a round, as a control word has it. */
static __always_inline __u64 flat_claimed(__u64 position, __u32 records)
{
	return (position * 16 / records & FLAT_CONTROL_CLAIMED) << FLAT_CONTROL_CLAIMED_AT;
}

/* Was the record taken less than half a round ago? Sure for four rounds; after that a flow may be
 * passed over once. */
static __always_inline bool flat_is_new(__u64 control, __u64 claimed)
{
	return ((claimed - control) >> FLAT_CONTROL_CLAIMED_AT & FLAT_CONTROL_CLAIMED) < 8;
}

/*
 * Takes this record if it is free, or if its flow may go: one that is unconfirmed and not
 * new.
 *
 * out   1; 0: it is held; 2: its flow would go if it were needed
 */
__noinline int flat_ask(__u32 record, bool ipv4, __u64 claimed, bool needed)
{
	struct flat_record *r = flat_record_at(record, ipv4);
	__u64 control, taken;

	if (!r)
		return 0;
	control = FLAT_READ(r->control);
	if (flat_control_is_live(control)) {
		if (flat_is_new(control, claimed) ||
		    flat_control_sent(control, FLAT_CONTROL_CLIENT_AT) & FLOW_SENT_ON)
			return 0;
		if (!needed)
			return 2;
		if (!flat_end(record, ipv4, control))
			return 0;
		control = flat_control_with(control, FLAT_RECORD_FREE);
	}
	if (flat_control_state(control) != FLAT_RECORD_FREE)
		return 0;
	taken = (control & FLAT_CONTROL_AGE) | claimed | FLAT_RECORD_TAKEN;
	return FLAT_SWAP(&r->control, control, taken) == control;
}

/* Another order each round, as flow_slot.h has it. records is a power of two. */
static __always_inline __u32 flat_record_of(__u64 position, __u32 records)
{
	__u64 round = position / records;

	return 1 + ((__u32)position * ((__u32)(round * 0x9e3779b97f4a7c15ULL >> 32) | 1) &
		    (records - 1));
}

/* A record for a new flow, taken; 0: there is none. */
__noinline int flat_claim(bool ipv4)
{
	__u32 records = ((const struct bpf_map___flat *)&flat_recs4)->max_entries - 1;
	__u32 which = ipv4, yields = 0;
	__u64 *hand = bpf_map_lookup_elem(&flat_hand, &which);
	__u64 yields_claimed = 0;
	int i;

	if (!hand || !records)
		return 0;
	for (i = 0; i < FLAT_LOOKS; i++) {
		__u64 position = __sync_fetch_and_add(hand, 1);
		__u32 record = flat_record_of(position, records);
		__u64 claimed = flat_claimed(position, records);
		int answer = flat_ask(record, ipv4, claimed, false);

		if (answer == 1)
			return record;
		if (answer == 2 && !yields) {
			yields = record;
			yields_claimed = claimed;
		}
		if (i + 1 >= FLAT_LOOKS_KIND && yields) {
			if (flat_ask(yields, ipv4, yields_claimed, true) == 1)
				return yields;
			yields = 0;
		}
	}
	return 0;
}

/* A taken record that no flow has come to need. */
static __always_inline void flat_give_back(__u32 record, bool ipv4)
{
	struct flat_record *r = flat_record_at(record, ipv4);

	if (r)
		FLAT_PUT(&r->control, flat_control_with(FLAT_READ(r->control), FLAT_RECORD_FREE));
}

/*
 * What a packet of a known flow has to tell: sent, and that it was seen.
 *
 * out   false: the flow has ended
 */
static __always_inline bool flat_note(const struct flat_hit *hit, bool ipv4, __u8 sent)
{
	__u32 at =
		hit->direction == FLOW_FORWARD ? FLAT_CONTROL_CLIENT_AT : FLAT_CONTROL_BACKEND_AT;
	struct flat_record *r = flat_record_at(hit->record, ipv4);
	__u64 now = (__u64)flat_control_now() << FLAT_CONTROL_SEEN_AT;
	__u64 control = hit->control;
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

/*
 * Writes a taken record and offers it; returns its control word. It is of another age than
 * whatever it was offered as before. ipv4 is a constant.
 */
static __always_inline __u64 flat_offer(struct flat_record *r, bool ipv4, const struct tuple *key,
					const struct tuple *to, __u32 backend)
{
	__u64 taken, control;

	if (!r)
		return 0;
	taken = FLAT_READ(r->control);
	control = (taken + FLAT_CONTROL_AGE_STEP) & FLAT_CONTROL_AGE;
	control |= (taken & (FLAT_CONTROL_CLAIMED << FLAT_CONTROL_CLAIMED_AT));
	control |= FLAT_RECORD_OFFERED;
	r->backend = backend;
	r->generation = 0;
	r->flags = 0;
	flat_record_write(r, ipv4, key, to);
	FLAT_PUT(&r->control, control);
	return control;
}

/* The one moment in which a flow comes to be. */
static __always_inline bool flat_commit(struct flat_record *r, __u64 control)
{
	__u64 live = flat_control_with(control, FLAT_RECORD_LIVE);

	live |= (__u64)flat_control_now() << FLAT_CONTROL_SEEN_AT;
	live |= (__u64)FLOW_SENT << FLAT_CONTROL_CLIENT_AT;
	return FLAT_SWAP(&r->control, control, live) == control;
}

/*
 * Stores the flow that turns key into to, in a record that was taken for it and that is
 * taken still when this fails.
 *
 * out   0; enum flat_result
 */
__noinline int flat_add(const struct tuple *key, const struct tuple *to, __u32 record,
			__u32 payload)
{
	struct flat_place client = {}, backend = {};
	__u32 client_word, backend_word;
	struct flat_record *r;
	struct tuple reply;
	__u64 control;
	bool ipv4;
	int ret;

	if (!key || !to)
		return FLAT_FULL;
	ipv4 = addr_is_ipv4(&key->dst);
	r = flat_record_at(record, ipv4);
	if (!r)
		return FLAT_FULL;
	tuple_exchange(&reply, to);
	flat_place_of(key, ipv4, &client);
	flat_place_of(&reply, ipv4, &backend);
	client_word = flat_word(&client, FLOW_FORWARD, record);
	backend_word = flat_word(&backend, FLOW_REPLY, record);
	/* Both before the first swap: their cache misses overlap. */
	ret = flat_index_contest(key, client.home, client.step, client.tag, ~0U);
	if (!ret && flat_index_contest(&reply, backend.home, backend.step, backend.tag, ~0U))
		ret = FLAT_TAKEN;
	if (ret)
		return ret;
	control = ipv4 ? flat_offer(flat_record_ipv4(record), true, key, to, payload) :
			 flat_offer(flat_record_ipv6(record), false, key, to, payload);
	if (!flat_index_put(client.home, client.step, client_word))
		client_word = 0;
	if (!client_word || !flat_index_put(backend.home, backend.step, backend_word))
		backend_word = 0;
	FLAT_PAUSE();
	ret = FLAT_FULL;
	if (backend_word)
		ret = 0;
#ifndef BROKEN_NO_CONTEST /* does the stress notice? */
	if (!ret)
		ret = flat_index_contest(key, client.home, client.step, client.tag, record);
	if (!ret && flat_index_contest(&reply, backend.home, backend.step, backend.tag, record))
		ret = FLAT_TAKEN;
#endif
	FLAT_PAUSE();
	if (!ret && flat_commit(r, control))
		return 0;
	FLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_ENDED));
	if (client_word)
		flat_index_take(client.home, client.step, client_word);
	if (backend_word)
		flat_index_take(backend.home, backend.step, backend_word);
	FLAT_PUT(&r->control, flat_control_with(control, FLAT_RECORD_TAKEN));
	return ret ?: FLAT_BUSY;
}

#endif
