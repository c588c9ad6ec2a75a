/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * parse_extra.h: what may stand between the IP header and TCP, UDP or SCTP: IPv4 options, IPv6
 * extension headers.
 *
 * The two walks are global functions: the verifier looks at them once, with any
 * arguments, and not again for each way that leads to them. They may not take a struct
 * packet on Linux 5.10, so they answer in a number.
 */
#ifndef WAGGLE_LIB_PARSE_EXTRA_H
#define WAGGLE_LIB_PARSE_EXTRA_H

#include "packet.h"
#include "parse_transport.h"

/* Option types of RFC 791 3.1 that are looked at. */
#define IPV4_OPTION_END	 0
#define IPV4_OPTION_NOP	 1
#define IPV4_OPTION_LSRR 131
#define IPV4_OPTION_SSRR 137
#define IPV4_OPTIONS_MAX 40

/*
 * Looks for what the sender wants to steer its packet by: with source routing it would
 * reach a backend by a way that no rule of the node has seen.
 *
 * in    offset and size of the options
 * out   OUTCOME_CONTINUE, OUTCOME_SOURCE_ROUTE, or OUTCOME_MALFORMED: such options are
 *       dropped by the stack, wherever the packet goes
 */
__noinline int parse_ipv4_options(context *ctx, __u32 offset, __u32 size)
{
	struct {
		__u8 type;
		__u8 length;
	} option;
	__u32 at = 0;
	int i;

	for (i = 0; i < IPV4_OPTIONS_MAX && at < size; i++) {
		if (context_load(ctx, offset + at, &option, sizeof(option)))
			return OUTCOME_MALFORMED;
		if (option.type == IPV4_OPTION_END)
			break;
		if (option.type == IPV4_OPTION_NOP) {
			at++;
			continue;
		}
		if (option.length < sizeof(option) || at + option.length > size)
			return OUTCOME_MALFORMED;
		if (option.type == IPV4_OPTION_LSRR || option.type == IPV4_OPTION_SSRR)
			return OUTCOME_SOURCE_ROUTE;
		at += option.length;
	}
	return OUTCOME_CONTINUE;
}

/* More are nobody's honest traffic; RFC 8200 names seven kinds. */
#define IPV6_EXTENSIONS_MAX 8

/* The word of the IPv6 fragment header with offset and flag (RFC 8200 4.5). */
#define IPV6_FRAGMENT_SHIFT 3
#define IPV6_MORE_FRAGMENTS 0x0001

/* Headers between IPv6 and TCP or UDP (RFC 8200 4, RFC 4302). */
static __always_inline bool is_ipv6_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_DSTOPTS || next == IPPROTO_AH;
}

/* The first eight bytes of any of them; each has at least these. */
struct ipv6_extension {
	__u8 next;
	__u8 size; /* not counting the first eight bytes, in eights; AH: all but eight, in fours */
	union {
		__be16 fragment; /* fragment header */
		struct {
			__u8 type;
			__u8 stops; /* routing header: segments left */
		};
	};
	__be32 id; /* fragment header */
};

/* Where a chain of extension headers leads, as one number. */
union ipv6_chain {
	__u64 number;
	struct {
		__u32 l4; /* offset of the header that is no extension; of a later fragment: of its
			     data */
		__u16 fragment; /* offset of the fragment header, 0 = none */
		__u8 next;   /* type of what is at l4; 0 in a later fragment, where nothing tells */
		__u8 defect; /* enum outcome */
	};
};

/* in    offset of the first extension header and its type; end, the offset behind the packet */
__noinline __u64 parse_ipv6_walk(context *ctx, __u32 offset, __u32 next, __u32 end)
{
	union ipv6_chain chain = {};
	struct ipv6_extension header;
	int i;

	for (i = 0; i < IPV6_EXTENSIONS_MAX && is_ipv6_extension(next); i++) {
		if (offset + sizeof(header) > end ||
		    context_load(ctx, offset, &header, sizeof(header))) {
			chain.defect = OUTCOME_MALFORMED;
			return chain.number;
		}
		if (next == IPPROTO_FRAGMENT) {
			if (chain.fragment) { /* a fragment of a fragment */
				chain.defect = OUTCOME_BAD_FRAGMENT;
				return chain.number;
			}
			chain.fragment = offset;
			offset += sizeof(header);
			if (bpf_ntohs(header.fragment) >> IPV6_FRAGMENT_SHIFT) {
				chain.l4 = offset;
				return chain.number;
			}
		} else if (next == IPPROTO_AH) {
			offset += (header.size + 2) * 4;
		} else {
			/* This node is a stop on the packet's way, not its end. */
			if (next == IPPROTO_ROUTING && header.stops)
				chain.defect = OUTCOME_SOURCE_ROUTE;
			offset += (header.size + 1) * 8;
		}
		next = header.next;
	}
	if (is_ipv6_extension(next))
		chain.defect = OUTCOME_EXTENSION_HEADERS;
	chain.l4 = offset;
	chain.next = next;
	return chain.number;
}

/* A whole datagram in one "fragment" (RFC 6946) comes out as no fragment. */
static __always_inline int parse_ipv6_fragment(struct packet *p, __u32 offset)
{
	struct ipv6_extension header;
	__u32 word;

	if (context_load(p->ctx, offset, &header, sizeof(header)))
		return OUTCOME_MALFORMED;
	word = bpf_ntohs(header.fragment);
	p->fragment =
		word >> IPV6_FRAGMENT_SHIFT | (word & IPV6_MORE_FRAGMENTS ? FRAGMENT_MORE : 0);
	p->fragment_id = header.id;
	return OUTCOME_CONTINUE;
}

/*
 * Finds the transport header of an IPv6 packet. All of them come here: one state for the
 * verifier to follow, and a call for those that have no extension header.
 *
 * out   0 with p->l4 and p->tuple.proto set
 */
static __always_inline int parse_ipv6_chain(struct packet *p, __u32 end)
{
	union ipv6_chain chain = {
		.number = parse_ipv6_walk(p->ctx, p->l2 + sizeof(struct ipv6hdr), p->tuple.proto,
					  end),
	};

	p->defect = chain.defect;
	p->l4 = chain.l4;
	p->tuple.proto = chain.next;
	if (chain.defect && chain.defect != OUTCOME_SOURCE_ROUTE)
		return chain.defect;
	if (chain.fragment) {
		if (parse_ipv6_fragment(p, chain.fragment))
			return OUTCOME_MALFORMED;
		p->payload = end - chain.fragment - sizeof(struct ipv6_extension);
		if (packet_is_later_fragment(p))
			return OUTCOME_CONTINUE;
	}
	if (!proto_is_served(chain.next) && chain.next != IPPROTO_ICMPV6)
		return OUTCOME_NOT_HANDLED;
	return OUTCOME_CONTINUE;
}

#endif
