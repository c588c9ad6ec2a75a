/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_words.h: puts words into the index of the flat flow table, takes them out, and decides
 * between two records with one key.
 *
 * A word is put by compare-and-swap where none is, and taken out by whoever owns its
 * record (flat_table.h).
 *
 * maps  flat_index_v1 (read, write), records through flat_record.h
 */
#ifndef WAGGLE_LIB_FLAT_WORDS_H
#define WAGGLE_LIB_FLAT_WORDS_H

#include "flat_index.h"

/* out   1; 0: all places are taken */
__noinline int flat_index_put(__u64 hash, __u32 word)
{
	struct flat_bucket *first = flat_bucket_at(hash, 0);
	struct flat_bucket *b;
	int i, d;

	if (!first)
		return 0;
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(hash, d);
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
__noinline int flat_index_take(__u64 hash, __u32 word)
{
	struct flat_bucket *first = flat_bucket_at(hash, 0);
	struct flat_bucket *b;
	int i, d;

	if (!first)
		return 0;
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(hash, d);
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

/* What flat_index_contest says. */
enum flat_contest {
	FLAT_CONTEST_WON,
	FLAT_CONTEST_EXISTS, /* a live record has the key */
	FLAT_CONTEST_BUSY,   /* a new one has it, and goes first */
};

/* Refuses a new flow's record that was offered with this control word. out: as flat_index_contest.
 */
__noinline int flat_index_refuse(__u32 place, __u64 offered)
{
	struct flat_record *r = flat_record_at(place);
	__u64 seen;

	if (!r)
		return FLAT_CONTEST_BUSY;
	seen = FLAT_SWAP(&r->control, offered, flat_control_with(offered, FLAT_RECORD_REFUSED));
	/* It was faster. */
	return seen != offered && flat_control_is_live(seen) ? FLAT_CONTEST_EXISTS :
							       FLAT_CONTEST_WON;
}

/*
 * May this place's record be the only one with this key? Asked when its words stand, so of two
 * that are opened at once at least one sees the other: the lower record goes first.
 *
 * out   enum flat_contest
 */
__noinline int flat_index_contest(const struct tuple *key, __u32 as, __u64 hash, __u32 own)
{
	struct flat_bucket *b;
	__u32 word, tag;
	__u64 control;
	int i, d, ret;

	if (!key)
		return FLAT_CONTEST_BUSY;
	tag = flat_tag(hash, addr_is_ipv4(&key->dst));
	for (d = 0; d < FLAT_INDEX_DEPTH; d++) {
		b = flat_bucket_at(hash, d);
		if (!b)
			return FLAT_CONTEST_BUSY;
		for (i = 0; i < FLAT_BUCKET_WORDS; i++) {
			word = FLAT_READ(b->words[i]);
			if (word >> FLAT_WORD_TAG_AT != tag || flat_word_place(word) == own)
				continue;
			control = flat_index_control(word, key, as);
			if (flat_control_is_live(control))
				return FLAT_CONTEST_EXISTS;
			if (flat_control_state(control) != FLAT_RECORD_OFFERED)
				continue;
			if (flat_word_place(word) < own)
				return FLAT_CONTEST_BUSY;
			ret = flat_index_refuse(flat_word_place(word), control);
			if (ret != FLAT_CONTEST_WON)
				return ret;
		}
		if (d == 0 && !FLAT_READ(b->elsewhere))
			return FLAT_CONTEST_WON;
	}
	return FLAT_CONTEST_WON;
}

#endif
