/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * fragment.h: what the programs remember of fragmented datagrams.
 */
#ifndef WAGGLE_LAYOUT_FRAGMENT_H
#define WAGGLE_LAYOUT_FRAGMENT_H

#include "addr.h"

/* Which datagram: addresses as they arrive. */
struct fragment_key {
	struct ip_addr src;
	struct ip_addr dst;
	__be32 id;  /* IPv4: 16 bits of it */
	__u8 proto; /* IPPROTO_* for IPv4; 0 for IPv6, where only the first fragment tells */
	__u8 slot;  /* held_frags: which of those that wait, from 0; fragments: 0 */
	__u8 zero[2];
};

/* What its first fragment said. */
struct fragment {
	__u64 seen_ns; /* CLOCK_MONOTONIC when that came */
	__be16 sport;
	__be16 dport;
	__u16 size;    /* bytes of payload in it: later ones begin behind them */
	__u8 proto;    /* IPPROTO_* */
	__u8 ignore;   /* 1 = no Service's: its later fragments are left alone */
	__u32 backend; /* index into backends: where it went, or came from */
	__u32 zero;
};

/* Ethernet with an MTU of 1,500, and some room. */
#define HELD_FRAME_MAX 1600

/* A later fragment as it arrived. */
struct held_fragment {
	__u64 seen_ns;
	__u32 size; /* bytes of frame in use */
	__u32 zero;
	__u8 frame[HELD_FRAME_MAX];
};

_Static_assert(sizeof(struct fragment_key) == 40, "fragment_key is 40 bytes");
_Static_assert(sizeof(struct fragment) == 24, "fragment is 24 bytes");
_Static_assert(sizeof(struct held_fragment) == 1616, "held_fragment is 1616 bytes");

#endif
