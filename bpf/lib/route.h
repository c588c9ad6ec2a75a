/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * route.h: by which device does the translated packet leave, to which neighbour, and
 * which address of ours may it carry there?
 *
 * maps  devices_v1 (read)
 */
#ifndef WAGGLE_LIB_ROUTE_H
#define WAGGLE_LIB_ROUTE_H

#include "../maps.h"
#include "addr.h"
#include "packet.h"

#define AF_INET	 2
#define AF_INET6 10

#define JUMBO_HEADER_SIZE 8 /* RFC 2675 2 */

/*
 * What the route's MTU has to bear. What GRO or the sender's stack put together leaves in
 * segments; of IPv6 packets above 64 KiB (BIG TCP) without the hop-by-hop header that only
 * says how large they are.
 */
static __always_inline __u32 route_packet_size(const context *ctx, const struct packet *p)
{
	__u32 size = context_size(ctx) - p->l2;
	__u32 headers = p->l4 - p->l2 + p->l4_size;

	if (!context_segment_size(ctx))
		return size;
	/* SCTP's pieces are of any size: its sender knows what the way bears. */
	if (packet_is_sctp(p))
		return headers;
	if (!p->ipv4 && size - sizeof(struct ipv6hdr) > 0xffff)
		headers -= JUMBO_HEADER_SIZE;
	return headers + context_segment_size(ctx);
}

/* Asks the kernel: BPF_FIB_LKUP_RET_*, with *fib as bpf_fib_lookup leaves it. */
static __always_inline long route_ask(context *ctx, const struct packet *p,
				      struct bpf_fib_lookup *fib)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = p->ipv4 ? AF_INET : AF_INET6;
	fib->l4_protocol = p->to.proto;
	fib->sport = p->to.sport;
	fib->dport = p->to.dport;
	fib->ifindex = context_ifindex(ctx);
	fib->tot_len = route_packet_size(ctx, p);
	if (p->ipv4) {
		fib->ipv4_src = p->to.src.w[3];
		fib->ipv4_dst = p->to.dst.w[3];
	} else {
		__builtin_memcpy(fib->ipv6_src, p->to.src.w, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, p->to.dst.w, sizeof(fib->ipv6_dst));
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
}

/* What the answer means for the packet; as route_find_from. */
static __always_inline int route_take(struct packet *p, const struct bpf_fib_lookup *fib,
				      long found)
{
	if (found == BPF_FIB_LKUP_RET_FRAG_NEEDED) {
		p->mtu = fib->mtu_result;
		return -OUTCOME_TOO_BIG;
	}
	if (!context_take_route(&p->next_hop, fib, found))
		return -OUTCOME_NO_ROUTE;
	p->egress = fib->ifindex;
	return OUTCOME_CONTINUE;
}

/*
 * in    p->to; a source of all zeros = not chosen yet
 * out   0 with p->egress and p->next_hop set; -OUTCOME_TTL_EXCEEDED; -OUTCOME_TOO_BIG;
 *       with p->mtu set; -OUTCOME_NO_ROUTE
 *
 * An address of this node counts as no route. The stack could not take such a packet:
 * the source may be the node's own address, and it would be dropped there as a martian,
 * uncounted. Nor does a client or backend on this node need it: what starts at a socket
 * here never passes ingress, and local backends are not routed by us.
 */
static __always_inline int route_find_from(context *ctx, struct packet *p)
{
	struct bpf_fib_lookup fib;
	long found;

	if (p->ttl <= 1)
		return -OUTCOME_TTL_EXCEEDED;
	found = route_ask(ctx, p, &fib);
	return route_take(p, &fib, found);
}

/* A function of its own: what the look-up takes of the stack is not there beside other things. */
static __noinline int route_find(struct packet *p)
{
	return route_find_from(p->ctx, p);
}

/* The address of ours for flows that leave by p->egress: 0 with *addr set, or
 * -OUTCOME_NO_SOURCE_ADDRESS. */
static __always_inline int route_source(const struct packet *p, struct ip_addr *addr)
{
	const struct device *device = bpf_map_lookup_elem(&devices_v1, &p->egress);

	if (!device)
		return -OUTCOME_NO_SOURCE_ADDRESS;
	*addr = p->ipv4 ? device->addr4 : device->addr6;
	return addr_is_zero(addr) ? -OUTCOME_NO_SOURCE_ADDRESS : OUTCOME_CONTINUE;
}

#endif
