/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * hash.h: a 32-bit hash of a few words, the same on every node and in every run.
 *
 * Two nodes that get packets of one client must choose alike, so there is no seed. The
 * steps are those of MurmurHash3 (public domain): one multiplication and rotation a
 * word, and an end that lets each bit of the input reach each bit of the result.
 */
#ifndef WAGGLE_LIB_HASH_H
#define WAGGLE_LIB_HASH_H

#include <linux/types.h>

static __always_inline __u32 hash_add(__u32 hash, __u32 word)
{
	word *= 0xcc9e2d51;
	word = word << 15 | word >> 17;
	hash ^= word * 0x1b873593;
	hash = hash << 13 | hash >> 19;
	return hash * 5 + 0xe6546b64;
}

static __always_inline __u32 hash_end(__u32 hash)
{
	hash ^= hash >> 16;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ hash >> 16;
}

/* A number below count, as evenly as hash is spread. */
static __always_inline __u32 hash_position(__u32 hash, __u32 count)
{
	return (__u64)hash * count >> 32;
}

#endif
