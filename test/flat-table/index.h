/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * index.h: at which record of the flat flow table is this tuple's flow?
 *
 * A tuple has four buckets: a home and three more. Its word stands in the home while
 * there is room, else in one of the others, and the home counts those: so the common
 * look-up reads half a cache line. Both families share the index; a word's tag tells
 * them apart.
 *
 * A word is put by compare-and-swap where none is, and taken out by whoever owns its
 * record (table.h). The functions are global ones, which the verifier looks at
 * once and not once a path.
 *
 * maps  flat_index (read, write), flat_secret (read), records through record.h
 */
#ifndef FLAT_INDEX_H
#define FLAT_INDEX_H

#include "record.h"
#include "lib/context_skb.h"
#include "lib/packet.h"

#define FLAT_WORD_RECORD_BITS 22
#define FLAT_WORD_RECORD      ((1U << FLAT_WORD_RECORD_BITS) - 1)
#define FLAT_WORD_TAG_AT      (FLAT_WORD_RECORD_BITS + 1)
/* Buckets that a tuple's word may stand in. At the most there is, 57 % of all places taken, one
 * flow in 40,000 finds none. */
#define FLAT_INDEX_DEPTH 4

/* Fields of the kernel's struct; libbpf finds their places. */
struct bpf_map___flat {
	__u32 max_entries;
} __attribute__((preserve_access_index));

/* A flow as a packet found it: a copy. */
struct flat_hit {
	__u64 control;
	__u32 record;
	__u32 backend;
	__u16 generation;
	__u8 direction; /* enum flow_direction */
	__u8 flags;
	__u8 sent;  /* enum flow_sent: by packets of this direction */
	__u8 heard; /* of the other */
};

/* Why a flow is not added. */
enum flat_result {
	FLAT_EXISTS = 1, /* a live flow has its client's tuple */
	FLAT_TAKEN,	 /* one has its backend's, or is about to */
	FLAT_BUSY,	 /* another CPU is opening it now */
	FLAT_FULL,	 /* no place in the index */
};

/* Where the words of a tuple may stand, and what marks them. */
struct flat_place {
	__u32 home;
	__u32 step; /* to the next bucket: odd, so all four differ */
	__u32 tag;
};

/*
 * Sums of products of word and secret: whoever chooses two tuples without knowing the
 * secrets makes them collide with a chance of about 2^-32, and the products need not wait
 * for one another. The last multiplication spreads what is left of structure.
 */
static __always_inline void flat_place_of(const struct tuple *key, bool ipv4,
					  struct flat_place *place)
{
	const __u32 *w = (const __u32 *)key;
	const struct flat_secret *secret;
	__u32 zero = 0;
	__u64 hash = 0;
	__u32 tag;
	int i;

	secret = bpf_map_lookup_elem(&flat_secret, &zero);
	if (!secret)
		return;
#pragma unroll
	for (i = 0; i < 10; i += 2)
		hash += (secret->words[i] + w[i]) * (secret->words[i + 1] + w[i + 1]);
	hash ^= hash >> 32;
	hash *= 0x9fb21c651e98df25ULL;
	hash ^= hash >> 29;
	place->home = hash;
	place->step = (__u32)(hash >> 25) | 1;
	tag = hash >> 56;
	place->tag = (tag ?: 1) << 1 | ipv4;
}

static __always_inline struct flat_bucket *flat_bucket_at(__u32 home, __u32 step, __u32 distance)
{
	__u32 buckets = ((const struct bpf_map___flat *)&flat_index)->max_entries;
	__u32 bucket = (home + distance * step) & (buckets - 1);

	return bpf_map_lookup_elem(&flat_index, &bucket);
}

static __always_inline __u32 flat_word(const struct flat_place *place, __u8 direction, __u32 record)
{
	return place->tag << FLAT_WORD_TAG_AT |
	       (__u32)(direction == FLOW_REPLY) << FLAT_WORD_RECORD_BITS | record;
}

static __always_inline __u8 flat_word_direction(__u32 word)
{
	return word >> FLAT_WORD_RECORD_BITS & 1 ? FLOW_REPLY : FLOW_FORWARD;
}

/* Copies out what the record of a word says, if it is the key's and live. ipv4 is a constant. */
static __always_inline bool flat_index_read(const struct flat_record *first, bool ipv4, __u32 word,
					    const struct tuple *key, struct tuple *to,
					    struct flat_hit *hit)
{
	__u8 direction = flat_word_direction(word);
	const struct flat_record *r;
	__u64 before, behind;
	__u32 read;

	if (!first)
		return false;
	before = FLAT_READ(first->control);
	if (!flat_control_is_live(before))
		return false;
	r = flat_behind(first, before);
	read = flat_record_differs(r, ipv4, direction, key);
	if (read)
		return false;
	FLAT_PAUSE();
	read = flat_record_to(r, ipv4, direction, to);
	hit->backend = r->backend;
	hit->generation = r->generation;
	hit->flags = r->flags;
	read |= hit->backend | hit->generation | hit->flags;
	r = flat_behind(first, read);
	behind = FLAT_READ(r->control);
#ifdef BROKEN_NO_SECOND_LOOK /* does the stress notice? */
	behind = before;
#endif
	if (!flat_control_is_live(behind) || !flat_control_same_age(before, behind))
		return false;
	hit->control = behind;
	hit->record = word & FLAT_WORD_RECORD;
	hit->direction = direction;
	hit->sent = flat_control_sent(behind, direction == FLOW_FORWARD ? FLAT_CONTROL_CLIENT_AT :
									  FLAT_CONTROL_BACKEND_AT);
	hit->heard = flat_control_sent(behind, direction == FLOW_FORWARD ? FLAT_CONTROL_BACKEND_AT :
									   FLAT_CONTROL_CLIENT_AT);
	return true;
}

/* The control word of a record that is offered or live and the key's; else 0. ipv4 is a constant.
 */
static __always_inline __u64 flat_index_control(const struct flat_record *first, bool ipv4,
						__u32 word, const struct tuple *key)
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
	differs = flat_record_differs(r, ipv4, flat_word_direction(word), key);
	if (differs)
		return 0;
	r = flat_behind(first, differs);
	behind = FLAT_READ(r->control);
	return flat_control_same_age(before, behind) ? behind : 0;
}

/*
 * out   1 with *to what a packet with this tuple becomes, and *hit; 0: there is no such flow
 */
__noinline int flat_index_find(const struct tuple *key, struct tuple *to, struct flat_hit *hit)
{
	struct flat_place place = {};
	struct flat_bucket *b;
	__u32 word, record;
	bool ipv4;
	int i, d;

	if (!key || !to || !hit)
		return 0;
	ipv4 = addr_is_ipv4(&key->dst);
	flat_place_of(key, ipv4, &place);
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(place.home, place.step, d);
		if (!b)
			return 0;
		for (i = 0; i < FLAT_BUCKET_WORDS; i++) {
			word = FLAT_READ(b->words[i]);
			if (word >> FLAT_WORD_TAG_AT != place.tag)
				continue;
			record = word & FLAT_WORD_RECORD;
			if (ipv4 ? flat_index_read(flat_record_ipv4(record), true, word, key, to,
						   hit) :
				   flat_index_read(flat_record_ipv6(record), false, word, key, to,
						   hit))
				return 1;
		}
		if (d == 0 && !FLAT_READ(b->elsewhere))
			return 0;
	}
	return 0;
}

/* out   1; 0: all places are taken */
__noinline int flat_index_put(__u32 home, __u32 step, __u32 word)
{
	struct flat_bucket *first = flat_bucket_at(home, step, 0);
	struct flat_bucket *b;
	int i, d;

	if (!first)
		return 0;
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(home, step, d);
		if (!b)
			return 0;
		/* Counted before the word stands, so that nobody stops short of it. */
		if (d == 1)
			__sync_fetch_and_add(&first->elsewhere, 1);
		for (i = 0; i < FLAT_BUCKET_WORDS; i++)
			if (!FLAT_READ(b->words[i]) && !FLAT_SWAP(&b->words[i], 0, word))
				return 1;
	}
	__sync_fetch_and_add(&first->elsewhere, -1);
	return 0;
}

/* Takes out a word that its owner has put. */
__noinline int flat_index_take(__u32 home, __u32 step, __u32 word)
{
	struct flat_bucket *first = flat_bucket_at(home, step, 0);
	struct flat_bucket *b;
	int i, d;

	if (!first)
		return 0;
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(home, step, d);
		if (!b)
			return 0;
		for (i = 0; i < FLAT_BUCKET_WORDS; i++) {
			if (FLAT_READ(b->words[i]) != word)
				continue;
			*(volatile __u32 *)&b->words[i] = 0;
			if (d)
				__sync_fetch_and_add(&first->elsewhere, -1);
			return 1;
		}
	}
	return 0;
}

/*
 * May this record be the only one with this key? Asked when its words stand, so of two
 * that are opened at once at least one sees the other: the lower record goes first. With
 * own = ~0: may there be one?
 *
 * out   0; FLAT_EXISTS: a live one has the key; FLAT_BUSY: a new one that goes first
 */
__noinline int flat_index_contest(const struct tuple *key, __u32 home, __u32 step, __u32 tag,
				  __u32 own)
{
	struct flat_record *r;
	struct flat_bucket *b;
	__u64 behind, seen;
	__u32 word, record;
	bool ipv4;
	int i, d;

	if (!key)
		return FLAT_BUSY;
	ipv4 = tag & 1;
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(home, step, d);
		if (!b)
			return FLAT_BUSY;
		for (i = 0; i < FLAT_BUCKET_WORDS; i++) {
			word = FLAT_READ(b->words[i]);
			record = word & FLAT_WORD_RECORD;
			if (word >> FLAT_WORD_TAG_AT != tag || record == own)
				continue;
			behind = ipv4 ? flat_index_control(flat_record_ipv4(record), true, word,
							   key) :
					flat_index_control(flat_record_ipv6(record), false, word,
							   key);
			if (flat_control_is_live(behind))
				return FLAT_EXISTS;
			if (flat_control_state(behind) != FLAT_RECORD_OFFERED)
				continue;
			r = flat_record_at(record, ipv4);
			if (record < own || !r)
				return FLAT_BUSY;
			seen = FLAT_SWAP(&r->control, behind,
					 flat_control_with(behind, FLAT_RECORD_REFUSED));
			/* It was faster. */
			if (seen != behind && flat_control_is_live(seen))
				return FLAT_EXISTS;
		}
		if (d == 0 && !FLAT_READ(b->elsewhere))
			return 0;
	}
	return 0;
}

#endif
