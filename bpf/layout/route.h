/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * route.h: what a route look-up said a moment ago.
 */
#ifndef WAGGLE_LAYOUT_ROUTE_H
#define WAGGLE_LAYOUT_ROUTE_H

#include "flow.h"

/* Places for them on each CPU, a power of two. */
#define ROUTES_RECENT 512

/* A packet with these addresses and ports that came by this device leaves like that. */
struct route {
	struct tuple to;
	__u64 until_ns; /* CLOCK_MONOTONIC; 0 = nothing is known */
	__u32 came_by;	/* ifindex */
	__u32 ifindex;	/* by which it leaves */
	__u8 next[16]; /* address of the next hop, in network order; IPv4 in the first four bytes */
	__u8 to_mac[6]; /* of the next hop */
	__u8 from_mac[6];
	__u16 mtu;
	__u8 family; /* AF_INET or AF_INET6: of the next hop */
	__u8 zero;
};

_Static_assert(sizeof(struct route) == 88, "route is 88 bytes");

#endif
