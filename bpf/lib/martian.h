/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * martian.h: can the source of a new flow be a client's address?
 *
 * The kernel asks that of what it routes, but a packet for a backend elsewhere never
 * gets there. Destinations need no such question: no frontend has such an address.
 *
 * maps  frontends4_v1, frontends6_v1, devices_v1 (read)
 */
#ifndef WAGGLE_LIB_MARTIAN_H
#define WAGGLE_LIB_MARTIAN_H

#include <linux/in6.h>

#include "frontend_lookup.h"
#include "packet.h"

/* 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/4, 240.0.0.0/4 (RFC 6890); addr in network order. */
static __always_inline bool martian_is_ipv4(__be32 addr)
{
	__u8 first = bpf_ntohl(addr) >> 24;

	return first == 0 || first == 127 || first >= 224;
}

/* ::, ::1, ff00::/8 (RFC 4291 2.4). */
static __always_inline bool martian_is_ipv6(const struct ip_addr *addr)
{
	if (bpf_ntohl(addr->w[0]) >> 24 == 0xff)
		return true;
	return !(addr->w[0] | addr->w[1] | addr->w[2]) && bpf_ntohl(addr->w[3]) <= 1;
}

/* An address of this node, on the device by which the packet came: others do not have it. */
static __always_inline bool martian_is_own(const struct packet *p)
{
	__u32 ifindex = context_ifindex(p->ctx);
	const struct device *device = bpf_map_lookup_elem(&devices_v1, &ifindex);

	return device && addr_equal(&p->tuple.src, p->ipv4 ? &device->addr4 : &device->addr6);
}

/*
 * A frontend as source would let two Services answer each other for ever. Its address
 * alone says less: an external IP may be another machine's, and a load balancer's is the
 * balancer's own.
 */
static __noinline bool martian_source(const struct packet *p)
{
	const struct ip_addr *src = &p->tuple.src;

	if (p->ipv4 ? martian_is_ipv4(src->w[3]) : martian_is_ipv6(src))
		return true;
	return addr_equal(src, &p->tuple.dst) || martian_is_own(p) ||
	       frontend_find(src, p->tuple.sport, p->tuple.proto);
}

#endif
