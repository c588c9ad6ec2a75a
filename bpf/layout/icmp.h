/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * icmp.h: what the programs keep of an ICMP error while they work on it.
 */
#ifndef WAGGLE_LAYOUT_ICMP_H
#define WAGGLE_LAYOUT_ICMP_H

#include "flow.h"

/* The packet that an error quotes; it may be cut off eight bytes behind its IP header. */
struct icmp_quote {
	struct tuple tuple; /* as it is quoted */
	struct tuple to;    /* as it is to be quoted */
	__u32 ip;	    /* offset of its IP header */
	__u32 l4;	    /* offset of its TCP, UDP or SCTP header */
	__u32 diff;	    /* what its change adds to the sum over it */
	__sum16 ip_check;   /* IPv4 */
	__sum16 check;	    /* of the error */
};

#endif
