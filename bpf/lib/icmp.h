/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * icmp.h: words of ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443).
 */
#ifndef WAGGLE_LIB_ICMP_H
#define WAGGLE_LIB_ICMP_H

#include "packet.h"

/* linux/icmp.h takes in headers of the C library, which there are none of here. */
enum icmp_type {
	ICMP_ECHOREPLY = 0,
	ICMP_DEST_UNREACH = 3,
	ICMP_SOURCE_QUENCH = 4,
	ICMP_ECHO = 8,
	ICMP_TIME_EXCEEDED = 11,
	ICMP_PARAMETERPROB = 12,
	ICMPV6_DEST_UNREACH = 1,
	ICMPV6_PKT_TOOBIG = 2,
	ICMPV6_TIME_EXCEED = 3,
	ICMPV6_PARAMPROB = 4,
	ICMPV6_ECHO_REQUEST = 128,
	ICMPV6_ECHO_REPLY = 129,
};

/* Codes of destination unreachable; 0 is the one that time exceeded and packet too big need. */
enum icmp_code {
	ICMP_PORT_UNREACH = 3,
	ICMP_FRAG_NEEDED = 4,
	ICMPV6_PORT_UNREACH = 4,
};

/* The first eight bytes, in both families. */
struct icmp_header {
	__u8 type;
	__u8 code;
	__sum16 check;
	__be32 rest; /* echo: identifier and sequence number; errors: the MTU, a pointer or 0 */
};

/* What we have to say, in the terms of each family: type in the high byte, code in the low one. */
#define ICMP_KIND(type, code) ((type) << 8 | (code))

static __always_inline __u16 icmp_port_unreachable(const struct packet *p)
{
	return p->ipv4 ? ICMP_KIND(ICMP_DEST_UNREACH, ICMP_PORT_UNREACH) :
			 ICMP_KIND(ICMPV6_DEST_UNREACH, ICMPV6_PORT_UNREACH);
}

static __always_inline __u16 icmp_time_exceeded(const struct packet *p)
{
	return p->ipv4 ? ICMP_KIND(ICMP_TIME_EXCEEDED, 0) : ICMP_KIND(ICMPV6_TIME_EXCEED, 0);
}

static __always_inline __u16 icmp_too_big(const struct packet *p)
{
	return p->ipv4 ? ICMP_KIND(ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED) :
			 ICMP_KIND(ICMPV6_PKT_TOOBIG, 0);
}

static __always_inline bool icmp_is_echo_request(const struct packet *p,
						 const struct icmp_header *icmp)
{
	return icmp->type == (p->ipv4 ? ICMP_ECHO : ICMPV6_ECHO_REQUEST) && !icmp->code;
}

/* Does it quote a packet? In ICMPv6 all types below 128 do. A redirect is for one hop only. */
static __always_inline bool icmp_is_error(const struct packet *p, const struct icmp_header *icmp)
{
	if (p->ipv4)
		return icmp->type == ICMP_DEST_UNREACH || icmp->type == ICMP_TIME_EXCEEDED ||
		       icmp->type == ICMP_PARAMETERPROB || icmp->type == ICMP_SOURCE_QUENCH;
	return icmp->type >= ICMPV6_DEST_UNREACH && icmp->type <= ICMPV6_PARAMPROB;
}

#endif
