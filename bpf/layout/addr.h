/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * addr.h: the one address type of the packet path and the control plane.
 */
#ifndef WAGGLE_LAYOUT_ADDR_H
#define WAGGLE_LAYOUT_ADDR_H

#include <linux/types.h>

/*
 * An IPv6 address, or an IPv4 one in its mapped form ::ffff:a.b.c.d (RFC 4291
 * 2.5.5.2), so that one code path serves both families. Words in network order.
 */
struct ip_addr {
	__be32 w[4];
};

_Static_assert(sizeof(struct ip_addr) == 16, "ip_addr is 16 bytes");

#endif
