/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_index.h: at which record of the flat flow table is this tuple's flow?
 *
 * A tuple has four buckets: a home and three more. Its word stands in the home while
 * there is room, else in one of the others, and the home counts those: so the common
 * look-up reads half a cache line. Both families share the index; a word's tag tells
 * them apart. What marks a tuple's words and where they may stand follows from its hash
 * (flat_hash.h).
 *
 * The functions are global ones, which the verifier looks at once and not once a path. A
 * key may be asked for as it is or exchanged, so that nobody needs a copy of the other one
 * on the stack.
 *
 * maps  flat_index_v1 (read), records through flat_record.h
 */
#ifndef WAGGLE_LIB_FLAT_INDEX_H
#define WAGGLE_LIB_FLAT_INDEX_H

#include "flat_hash.h"
#include "flat_record.h"
#include "flow_hand.h"
#include "flow_store.h"

#define FLAT_WORD_RECORD_BITS 22
#define FLAT_WORD_RECORD      ((1U << FLAT_WORD_RECORD_BITS) - 1)
#define FLAT_WORD_TAG_AT      (FLAT_WORD_RECORD_BITS + 1)
/* Buckets that a tuple's word may stand in. At the most there is, 57 % of all places taken, one
 * flow in 40,000 finds none. */
#define FLAT_INDEX_DEPTH 4

/* Half of a flow as a packet found it: a copy. */
struct flow_half {
	__u64 control;
	__u32 place;
	__u32 backend;
	__u16 generation; /* low bits */
	__u8 direction;	  /* enum flow_direction */
	__u8 flags;
	__u8 sent;  /* enum flow_sent: by packets of this direction */
	__u8 heard; /* of the other */
	__u16 zero;
};

static __always_inline struct flat_bucket *flat_bucket_at(__u64 hash, __u32 distance)
{
	__u32 buckets = ((const struct bpf_map *)&flat_index_v1)->max_entries;
	__u32 bucket = flat_hash_bucket(hash, distance) & (buckets - 1);

	return bpf_map_lookup_elem(&flat_index_v1, &bucket);
}

static __always_inline __u32 flat_tag(__u64 hash, bool ipv4)
{
	return flat_hash_mark(hash) << 1 | ipv4;
}

static __always_inline __u32 flat_word(__u64 hash, __u8 direction, __u32 place)
{
	return flat_tag(hash, flat_place_is_ipv4(place)) << FLAT_WORD_TAG_AT |
	       (__u32)(direction == FLOW_REPLY) << FLAT_WORD_RECORD_BITS | flat_place_record(place);
}

static __always_inline __u8 flat_word_direction(__u32 word)
{
	return word >> FLAT_WORD_RECORD_BITS & 1 ? FLOW_REPLY : FLOW_FORWARD;
}

static __always_inline __u32 flat_word_place(__u32 word)
{
	__u32 record = word & FLAT_WORD_RECORD;

	return word >> FLAT_WORD_TAG_AT & 1 ? record | FLAT_PLACE_IPV4 : record;
}

/* flat_index_read of one family: ipv4 is a constant. */
static __always_inline int flat_index_read_of(const struct flat_record *first, bool ipv4,
					      __u32 word, const struct tuple *key, __u32 as,
					      struct tuple *to, struct flow_half *half)
{
	__u8 direction = flat_word_direction(word);
	const struct flat_record *r;
	__u64 before, behind;
	__u8 client, backend;
	__u32 read;

	if (!first)
		return 0;
	before = FLAT_READ(first->control);
	if (!flat_control_is_live(before))
		return 0;
	r = flat_behind(first, before);
	read = flat_record_differs(r, ipv4, direction, key, as);
	if (read)
		return 0;
	if (to)
		read = flat_record_to(r, ipv4, direction, to);
	half->backend = r->backend;
	half->generation = r->generation;
	half->flags = r->flags;
	read |= half->backend | half->generation | half->flags;
	r = flat_behind(first, read);
	behind = FLAT_READ(r->control);
	if (!flat_control_is_live(behind) || !flat_control_same_age(before, behind))
		return 0;
	half->control = behind;
	half->direction = direction;
	client = flat_control_sent(behind, FLAT_CONTROL_CLIENT_AT);
	backend = flat_control_sent(behind, FLAT_CONTROL_BACKEND_AT);
	half->sent = direction == FLOW_FORWARD ? client : backend;
	half->heard = direction == FLOW_FORWARD ? backend : client;
	return 1;
}

/*
 * Copies out what the record of a word says, if it is the key's and live.
 *
 * in    as: enum flat_as; to: NULL: nobody asks what the packet becomes
 * out   1 with *to, *half; 0
 */
__noinline int flat_index_read(__u32 word, const struct tuple *key, __u32 as, struct tuple *to,
			       struct flow_half *half)
{
	__u32 place = flat_word_place(word);

	if (!key || !half)
		return 0;
	half->place = place;
	return flat_place_is_ipv4(place) ?
		       flat_index_read_of(flat_record_ipv4(flat_place_record(place)), true, word,
					  key, as, to, half) :
		       flat_index_read_of(flat_record_ipv6(place), false, word, key, as, to, half);
}

/* flat_index_control of one family: ipv4 is a constant. */
static __always_inline __u64 flat_index_control_of(const struct flat_record *first, bool ipv4,
						   __u32 word, const struct tuple *key, __u32 as)
{
	const struct flat_record *r;
	__u64 before, behind;
	__u32 differs;

	if (!first)
		return 0;
	before = FLAT_READ(first->control);
	if (flat_control_state(before) != FLAT_RECORD_OFFERED && !flat_control_is_live(before))
		return 0;
	r = flat_behind(first, before);
	differs = flat_record_differs(r, ipv4, flat_word_direction(word), key, as);
	if (differs)
		return 0;
	r = flat_behind(first, differs);
	behind = FLAT_READ(r->control);
	return flat_control_same_age(before, behind) ? behind : 0;
}

/* The control word of a word's record that is offered or live and the key's; else 0. */
__noinline __u64 flat_index_control(__u32 word, const struct tuple *key, __u32 as)
{
	__u32 place = flat_word_place(word);

	if (!key)
		return 0;
	return flat_place_is_ipv4(place) ?
		       flat_index_control_of(flat_record_ipv4(flat_place_record(place)), true, word,
					     key, as) :
		       flat_index_control_of(flat_record_ipv6(place), false, word, key, as);
}

/*
 * in    as: enum flat_as; to: NULL: nobody asks what the packet becomes
 * out   1 with *to what a packet with this tuple becomes, and *half; 0: there is no such flow
 */
__noinline int flat_index_find(const struct tuple *key, __u32 as, struct tuple *to,
			       struct flow_half *half)
{
	struct flat_bucket *b;
	__u32 word, tag;
	__u64 hash;
	int i, d;

	if (!key)
		return 0;
	hash = flat_hash_of_tuple(key, as);
	tag = flat_tag(hash, addr_is_ipv4(&key->dst));
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(hash, d);
		if (!b)
			return 0;
		for (i = 0; i < FLAT_BUCKET_WORDS; i++) {
			word = FLAT_READ(b->words[i]);
			if (word >> FLAT_WORD_TAG_AT == tag &&
			    flat_index_read(word, key, as, to, half))
				return 1;
		}
		if (d == 0 && !FLAT_READ(b->elsewhere))
			return 0;
	}
	return 0;
}

#endif
