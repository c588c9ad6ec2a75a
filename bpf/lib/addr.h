/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * addr.h: building and comparing addresses. All words in network order.
 */
#ifndef WAGGLE_LIB_ADDR_H
#define WAGGLE_LIB_ADDR_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../layout/addr.h"

#define ADDR_MAPPED_PREFIX bpf_htonl(0x0000ffff)

static __always_inline void addr_from_ipv4(struct ip_addr *a, __be32 ipv4)
{
	a->w[0] = 0;
	a->w[1] = 0;
	a->w[2] = ADDR_MAPPED_PREFIX;
	a->w[3] = ipv4;
}

static __always_inline bool addr_is_ipv4(const struct ip_addr *a)
{
	return a->w[0] == 0 && a->w[1] == 0 && a->w[2] == ADDR_MAPPED_PREFIX;
}

static __always_inline bool addr_equal(const struct ip_addr *a, const struct ip_addr *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3];
}

static __always_inline bool addr_is_zero(const struct ip_addr *a)
{
	return !(a->w[0] | a->w[1] | a->w[2] | a->w[3]);
}

#endif
