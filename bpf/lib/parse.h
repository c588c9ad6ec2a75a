/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * parse.h: what is in the headers of this packet?
 *
 * in    a packet that begins with an Ethernet header (l2 = ETH_HLEN) or, on a device that
 *       has none, with the IP header (l2 = 0)
 * out   0 with the packet's tuple, offsets and header fields set; a positive outcome
 *       for everything that is not ours to judge
 *
 * Nothing is dropped here. What is wrong with a packet is noted in p->defect; defect.h
 * drops it once it is known to be a Service's. A broken IP header is left to the stack,
 * which drops it before it looks at the addresses.
 */
#ifndef WAGGLE_LIB_PARSE_H
#define WAGGLE_LIB_PARSE_H

#include "packet.h"
#include "parse_extra.h"
#include "parse_transport.h"

/* Sets *end to the offset behind the IP packet; padding may follow. */
static __always_inline int parse_ipv4(struct packet *p, __u32 *end)
{
	const struct iphdr *ip = context_bytes(p->ctx, p->l2, sizeof(*ip));
	__u32 header, total;

	if (!ip || ip->version != 4)
		return OUTCOME_MALFORMED;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	/* Larger than 64 KiB (BIG TCP): the field is 0 and the kernel knows the length. */
	if (!total && context_segment_size(p->ctx))
		total = context_size(p->ctx) - p->l2;
	if (header < sizeof(*ip) || total < header || p->l2 + total > context_size(p->ctx))
		return OUTCOME_MALFORMED;
	if (!proto_is_served(ip->protocol) && ip->protocol != IPPROTO_ICMP)
		return OUTCOME_NOT_HANDLED;
	addr_from_ipv4(&p->tuple.src, ip->saddr);
	addr_from_ipv4(&p->tuple.dst, ip->daddr);
	p->tuple.proto = ip->protocol;
	p->ipv4 = 1;
	p->ttl = ip->ttl;
	p->ttl_word = *(const __u16 *)&ip->ttl;
	p->ip_check = ip->check;
	p->l4 = p->l2 + header;
	*end = p->l2 + total;
	/* Always, not if it is one: a branch less for the verifier to follow through all that
	 * comes. */
	p->fragment = bpf_ntohs(ip->frag_off) & (FRAGMENT_MORE | FRAGMENT_OFFSET);
	p->fragment_id = ip->id;
	p->payload = total - header;
	if (header > sizeof(*ip))
		p->defect = parse_ipv4_options(p->ctx, p->l2 + sizeof(*ip), header - sizeof(*ip));
	return p->defect == OUTCOME_MALFORMED ? OUTCOME_MALFORMED : OUTCOME_CONTINUE;
}

static __always_inline int parse_ipv6(struct packet *p, __u32 *end)
{
	const struct ipv6hdr *ip = context_bytes(p->ctx, p->l2, sizeof(*ip));
	__u32 total;
	__u8 next;

	if (!ip || ip->version != 6)
		return OUTCOME_MALFORMED;
	total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	if (!ip->payload_len && context_segment_size(p->ctx))
		total = context_size(p->ctx) - p->l2;
	if (p->l2 + total > context_size(p->ctx))
		return OUTCOME_MALFORMED;
	next = ip->nexthdr;
	if (!proto_is_served(next) && next != IPPROTO_ICMPV6 && !is_ipv6_extension(next))
		return OUTCOME_NOT_HANDLED;
	__builtin_memcpy(&p->tuple.src, &ip->saddr, sizeof(p->tuple.src));
	__builtin_memcpy(&p->tuple.dst, &ip->daddr, sizeof(p->tuple.dst));
	/* On the wire it is no IPv4 packet, whatever its addresses say: it must not meet IPv4
	 * state. */
	if (addr_is_ipv4(&p->tuple.src) || addr_is_ipv4(&p->tuple.dst))
		return OUTCOME_NOT_HANDLED;
	p->tuple.proto = next;
	p->ttl = ip->hop_limit;
	p->ttl_word = *(const __u16 *)&ip->nexthdr;
	p->l4 = p->l2 + sizeof(*ip);
	*end = p->l2 + total;
	return OUTCOME_CONTINUE;
}

static __always_inline int packet_parse(struct packet *p, context *ctx, __u32 l2)
{
	__u32 end = 0;
	int ret;

	__builtin_memset(p, 0, sizeof(*p));
	p->ctx = ctx;
	p->l2 = l2;
	/* A tagged packet is the VLAN device's, where it arrives again without its tag. */
	if (context_has_vlan(ctx))
		return OUTCOME_NOT_HANDLED;
	if (context_protocol(ctx) == bpf_htons(ETH_P_IP))
		ret = parse_ipv4(p, &end);
	else if (context_protocol(ctx) == bpf_htons(ETH_P_IPV6))
		ret = parse_ipv6(p, &end);
	else
		ret = OUTCOME_NOT_HANDLED;
	if (ret)
		return ret;
	p->end = end;
	if (!p->ipv4)
		ret = parse_ipv6_chain(p, end);
	if (ret)
		return ret;
	/* icmp_receive.h reads on; an ICMP message in fragments is left to the stack. */
	if (packet_is_icmp(p))
		return p->fragment ? OUTCOME_NOT_HANDLED : OUTCOME_CONTINUE;
	if (packet_is_later_fragment(p))
		return OUTCOME_CONTINUE;
	return parse_transport(p, end);
}

#endif
