/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * csum.h: arithmetic on Internet checksums (RFC 1071, RFC 1624).
 *
 * A difference is the ones' complement sum of the new words and the complements of the
 * old ones, so unchanged words cancel out. Words are read as they lie in memory: the
 * result does not depend on byte order.
 */
#ifndef WAGGLE_LIB_CSUM_H
#define WAGGLE_LIB_CSUM_H

#include <linux/types.h>
#include <bpf/bpf_endian.h>

#include "../layout/flow.h"

/* Folds to 32 bits; the carry comes back in at the low end. */
static __always_inline __u32 csum_fold32(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (__u32)(sum + (sum >> 32));
}

/* The difference between the addresses of two tuples. */
static __always_inline __u32 csum_diff_addrs(const struct tuple *from, const struct tuple *to)
{
	__u64 sum = 0;
	int i;

#pragma unroll
	for (i = 0; i < 4; i++) {
		sum += (__u64)to->src.w[i] + (__u32)~from->src.w[i];
		sum += (__u64)to->dst.w[i] + (__u32)~from->dst.w[i];
	}
	return csum_fold32(sum);
}

/* The difference between two 16-bit words. */
static __always_inline __u32 csum_diff16(__u16 from, __u16 to)
{
	return (__u32)(__u16)~from + to;
}

static __always_inline __u32 csum_add(__u32 a, __u32 b)
{
	return csum_fold32((__u64)a + b);
}

/*
 * What the pseudo header adds to a transport checksum (RFC 9293 3.1, RFC 8200 8.1). The
 * prefix of a mapped IPv4 address counts nothing: 0xffff is 0 in ones' complement.
 */
static __always_inline __u32 csum_pseudo(const struct tuple *t, __u16 length)
{
	__u64 sum = (__u64)bpf_htons(length) + bpf_htons(t->proto);
	int i;

#pragma unroll
	for (i = 0; i < 4; i++)
		sum += (__u64)t->src.w[i] + t->dst.w[i];
	return csum_fold32(sum);
}

/* The checksum field for words with this sum. */
static __always_inline __sum16 csum_finish(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__sum16)~sum;
}

/* A checksum field after the words it covers changed by diff. */
static __always_inline __sum16 csum_replace(__sum16 check, __u32 diff)
{
	return csum_finish(csum_add((__u16)~check, diff));
}

#endif
