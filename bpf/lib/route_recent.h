/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * route_recent.h: the route of a known flow's packet, which was looked up a moment ago.
 *
 * A look-up costs more than all else that is done to such a packet, and says the same for
 * all of a flow. So each CPU remembers a few answers, by all that the look-up asks for, for
 * so short a time that nobody has to tell it of a change: with no agent running a route, a
 * neighbour's MAC (XDP alone goes by it) or an MTU counts that much later. Who sends seldom
 * pays for the look-up as before.
 *
 * maps  routes_v1 (read, write)
 */
#ifndef WAGGLE_LIB_ROUTE_RECENT_H
#define WAGGLE_LIB_ROUTE_RECENT_H

#include "clock.h"
#include "route.h"

#define ROUTE_RECENT_NS (50 * (NSEC_PER_SEC / 1000))

static __always_inline struct route *route_recent_place(const struct tuple *to)
{
	__u32 key = to->src.w[0] * 0x9e3779b1 + to->src.w[1] * 0x85ebca77 +
		    to->src.w[2] * 0xc2b2ae3d + to->src.w[3] * 0x27d4eb2f +
		    to->dst.w[0] * 0x165667b1 + to->dst.w[1] * 0x2c1b3c6d +
		    to->dst.w[2] * 0x297a2d39 + to->dst.w[3] * 0x1b56c4e9 +
		    (to->sport | (__u32)to->dport << 16) * 0x7feb352d;

	key = (key ^ key >> 15) * 0x846ca68b >> 16 & (ROUTES_RECENT - 1);
	return bpf_map_lookup_elem(&routes_v1, &key);
}

static __always_inline bool route_recent_is_of(const struct route *route, const struct packet *p)
{
	const struct tuple *a = &route->to;
	const struct tuple *b = &p->to;

	return addr_equal(&a->src, &b->src) && addr_equal(&a->dst, &b->dst) &&
	       a->sport == b->sport && a->dport == b->dport && a->proto == b->proto &&
	       route->came_by == context_ifindex(p->ctx);
}

static __always_inline void route_recent_put(struct route *route, const struct packet *p,
					     const struct bpf_fib_lookup *fib)
{
	/* Whoever interrupts this finds nothing, not a half. */
	*(volatile __u64 *)&route->until_ns = 0;
	route->to = p->to;
	route->came_by = context_ifindex(p->ctx);
	route->ifindex = fib->ifindex;
	__builtin_memcpy(route->next, fib->ipv6_dst, sizeof(route->next));
	__builtin_memcpy(route->to_mac, fib->dmac, sizeof(route->to_mac));
	__builtin_memcpy(route->from_mac, fib->smac, sizeof(route->from_mac));
	route->mtu = fib->mtu_result;
	route->family = fib->family;
	*(volatile __u64 *)&route->until_ns = clock_coarse_ns() + ROUTE_RECENT_NS;
}

static __always_inline void route_recent_get(const struct route *route, struct bpf_fib_lookup *fib)
{
	fib->ifindex = route->ifindex;
	__builtin_memcpy(fib->ipv6_dst, route->next, sizeof(route->next));
	__builtin_memcpy(fib->dmac, route->to_mac, sizeof(route->to_mac));
	__builtin_memcpy(fib->smac, route->from_mac, sizeof(route->from_mac));
	fib->family = route->family;
}

/* As route_find, for a packet of a known flow: p->to is whole. A function of its own, as that is.
 */
static __noinline int route_find_again(struct packet *p)
{
	struct route *route = route_recent_place(&p->to);
	struct bpf_fib_lookup fib;
	long found;

	if (p->ttl <= 1)
		return -OUTCOME_TTL_EXCEEDED;
	if (route && clock_coarse_ns() < route->until_ns && route_recent_is_of(route, p) &&
	    route_packet_size(p->ctx, p) <= route->mtu) {
		route_recent_get(route, &fib);
		context_take_route(&p->next_hop, &fib, BPF_FIB_LKUP_RET_SUCCESS);
		p->egress = fib.ifindex;
		return OUTCOME_CONTINUE;
	}
	found = route_ask(p->ctx, p, &fib);
	if (route && found == BPF_FIB_LKUP_RET_SUCCESS)
		route_recent_put(route, p, &fib);
	return route_take(p, &fib, found);
}

#endif
