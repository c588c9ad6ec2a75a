/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_hash.h: where may the words of a tuple stand in the flat flow table, and what marks them?
 *
 * Sums of products of word and secret: whoever chooses two tuples without knowing the
 * secrets makes them collide with a chance of about 2^-32, and the products need not wait
 * for one another. The last multiplication spreads what is left of structure.
 *
 * maps  flat_secret_v1, records through flat_record.h (read)
 */
#ifndef WAGGLE_LIB_FLAT_HASH_H
#define WAGGLE_LIB_FLAT_HASH_H

#include "flat_record.h"

/* in    src, dst: four words each; ports: as they stand side by side in a packet */
static __always_inline __u64 flat_hash(const __be32 *src, const __be32 *dst, __u32 ports,
				       __u32 proto)
{
	const struct flat_secret *secret;
	__u32 zero = 0;
	__u64 hash;

	secret = bpf_map_lookup_elem(&flat_secret_v1, &zero);
	if (!secret)
		return 0;
	hash = (secret->words[0] + src[0]) * (secret->words[1] + src[1]);
	hash += (secret->words[2] + src[2]) * (secret->words[3] + src[3]);
	hash += (secret->words[4] + dst[0]) * (secret->words[5] + dst[1]);
	hash += (secret->words[6] + dst[2]) * (secret->words[7] + dst[3]);
	hash += (secret->words[8] + ports) * (secret->words[9] + proto);
	hash ^= hash >> 32;
	hash *= 0x9fb21c651e98df25ULL;
	return hash ^ hash >> 29;
}

/* as: enum flat_as. */
static __always_inline __u64 flat_hash_of_tuple(const struct tuple *key, __u32 as)
{
	return flat_hash(flat_as_src(key, as), flat_as_dst(key, as), flat_as_ports(key, as),
			 key->proto);
}

/* Of one key of a record; ipv4 is a constant. */
static __always_inline __u64 flat_hash_of_record(const struct flat_record *r, bool ipv4,
						 __u8 direction)
{
	if (ipv4) {
		const struct flat_record4 *r4 = (const void *)r;
		const struct flat_key4 *k = direction == FLOW_FORWARD ? &r4->client : &r4->backend;
		__be32 src[4] = {0, 0, ADDR_MAPPED_PREFIX, k->src};
		__be32 dst[4] = {0, 0, ADDR_MAPPED_PREFIX, k->dst};

		return flat_hash(src, dst, k->sport | (__u32)k->dport << 16, r->proto);
	} else {
		const struct flat_record6 *r6 = (const void *)r;
		const struct flat_key6 *k = direction == FLOW_FORWARD ? &r6->client : &r6->backend;

		return flat_hash(k->src.w, k->dst.w, k->sport | (__u32)k->dport << 16, r->proto);
	}
}

/* The bucket that is so far from home, not yet cut to how many there are. The step to the next one
 * is odd, so all are different ones. */
static __always_inline __u32 flat_hash_bucket(__u64 hash, __u32 distance)
{
	return (__u32)hash + distance * ((__u32)(hash >> 25) | 1);
}

/* 8 bits, not 0. */
static __always_inline __u32 flat_hash_mark(__u64 hash)
{
	return (__u32)(hash >> 56) ?: 1;
}

#endif
