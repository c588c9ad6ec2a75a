/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * filter.h: could this packet be ours at all?
 *
 * Most of what a node moves is no Service's. To look for its flow and its frontend are two
 * misses in large hash maps; this is a few bits in memory that stays cached. A yes may be
 * wrong and costs what it did before, a no never is:
 *
 * - at ingress a packet can be ours by where it goes: to an address of frontends, to a
 *   frontend, or to the near end of a flow;
 * - at egress by where it comes from: the near end of a flow.
 *
 * The near end of a direction is its side towards this node: the frontend for what clients
 * send; for replies our source address and port, or the backend here. Who stores a flow
 * sets the bits of both its directions before, and so does the control plane for a frontend.
 *
 * maps  filter_v1 (read, write)
 */
#ifndef WAGGLE_LIB_FILTER_H
#define WAGGLE_LIB_FILTER_H

#include "../maps.h"
#include "packet.h"

/* An address alone, whatever the port. */
#define FILTER_ANY_PORT 0

static __always_inline __u32 filter_tail(__be16 port, __u8 proto)
{
	return port | (__u32)proto << 16;
}

/*
 * Sums of products are independent of each other, so this takes hardly longer for IPv6 than
 * for IPv4. The control plane has the same function. tail: filter_tail() or FILTER_ANY_PORT
 *
 * out   the number of a bit
 */
static __always_inline __u32 filter_bit(const struct ip_addr *addr, __u32 tail)
{
	__u32 sum = addr->w[0] * 0x9e3779b1 + addr->w[1] * 0x85ebca77 + addr->w[2] * 0xc2b2ae3d +
		    addr->w[3] * 0x27d4eb2f + tail * 0x165667b1;

	sum ^= sum >> 15;
	return sum * 0x2c1b3c6d >> 12;
}

static __always_inline struct filter *filter_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&filter_v1, &zero);
}

static __always_inline bool filter_agent_has(const struct filter *filter, __u32 bit)
{
	return filter->agent[bit / 64 & (FILTER_WORDS - 1)] >> bit % 64 & 1;
}

/*
 * A number, not a pointer, chooses the half: one state for the verifier to follow. The asm line
 * hides from clang (14) that nothing is left for the mask to do; Linux 6.1 does not see that.
 */
static __always_inline bool filter_has(const struct filter *filter, __u64 current, __u32 bit)
{
	__u32 word = bit / 64 & (FILTER_WORDS - 1);
	__u64 of_flows = (current - 1) * FILTER_WORDS + word;

	asm volatile("" : "+r"(of_flows));
	of_flows &= 2 * FILTER_WORDS - 1;
	return (filter->agent[word] | filter->flows[of_flows]) >> bit % 64 & 1;
}

/*
 * Both are global functions, which the verifier looks at once and not for each way that leads
 * to them.
 */
__noinline int filter_passes_ingress(const struct tuple *t)
{
	const struct filter *filter = filter_get();
	__u64 current;

	if (!t || !filter)
		return true;
	current = filter->current;
	return !current ||
	       filter_has(filter, current, filter_bit(&t->dst, filter_tail(t->dport, t->proto))) ||
	       filter_agent_has(filter, filter_bit(&t->dst, FILTER_ANY_PORT));
}

__noinline int filter_passes_egress(const struct tuple *t)
{
	const struct filter *filter = filter_get();
	__u64 current;

	if (!t || !filter)
		return true;
	current = filter->current;
	return !current ||
	       filter_has(filter, current, filter_bit(&t->src, filter_tail(t->sport, t->proto)));
}

/* Sets a bit in both; it is read first, since most are there and their cache lines shared. */
static __always_inline void filter_set(struct filter *filter, const struct ip_addr *addr,
				       __be16 port, __u8 proto)
{
	__u32 bit = filter_bit(addr, filter_tail(port, proto));
	__u32 word = bit / 64 & (FILTER_WORDS - 1);
	__u64 mask = 1ULL << bit % 64;

	if (!(*(volatile __u64 *)&filter->flows[word] & mask))
		__sync_fetch_and_or(&filter->flows[word], mask);
	word += FILTER_WORDS;
	if (!(*(volatile __u64 *)&filter->flows[word] & mask))
		__sync_fetch_and_or(&filter->flows[word], mask);
}

/*
 * Lets both directions of a flow pass, before it is stored. A function of its own: the stack
 * of who calls it is short.
 *
 * in    the flow turns p->tuple into p->to; flags: enum flow_flag
 */
static __noinline int filter_let_flow_pass(const struct packet *p, __u32 flags)
{
	struct filter *filter = filter_get();

	if (!filter)
		return 0;
	if (flags & FLOW_OF_NODE)
		filter_set(filter, &p->tuple.src, p->tuple.sport, p->tuple.proto);
	else
		filter_set(filter, &p->tuple.dst, p->tuple.dport, p->tuple.proto);
	if (flags & FLOW_LOCAL_BACKEND)
		filter_set(filter, &p->to.dst, p->to.dport, p->to.proto);
	else
		filter_set(filter, &p->to.src, p->to.sport, p->to.proto);
	return 0;
}

#endif
