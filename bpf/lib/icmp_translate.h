/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * icmp_translate.h: an ICMP error about a packet of a flow goes to whom that packet came
 * from, and quotes it as it was sent.
 *
 * The quoted packet is one of ours after its translation, so exchanged it is the tuple of
 * the flow's other half, and the error goes the way of that half's packets. Its own
 * addresses become theirs. A router on the way is hidden that way wherever the flow's
 * source address is translated, as conntrack's NAT hides it: its address may mean nothing,
 * or not be let through, on the other side.
 */
#ifndef WAGGLE_LIB_ICMP_TRANSLATE_H
#define WAGGLE_LIB_ICMP_TRANSLATE_H

#include "flow.h"
#include "icmp.h"
#include "nat.h"
#include "parse.h"
#include "route.h"

static __always_inline int icmp_quote_ipv4(const struct packet *p, struct icmp_quote *quote)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(p->ctx, quote->ip, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return OUTCOME_MALFORMED;
	if (ip.frag_off & bpf_htons(FRAGMENT_OFFSET))
		return OUTCOME_FRAGMENT;
	addr_from_ipv4(&quote->tuple.src, ip.saddr);
	addr_from_ipv4(&quote->tuple.dst, ip.daddr);
	quote->tuple.proto = ip.protocol;
	quote->ip_check = ip.check;
	quote->l4 = quote->ip + ip.ihl * 4;
	return OUTCOME_CONTINUE;
}

static __always_inline int icmp_quote_ipv6(const struct packet *p, struct icmp_quote *quote)
{
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(p->ctx, quote->ip, &ip, sizeof(ip)) || ip.version != 6)
		return OUTCOME_MALFORMED;
	__builtin_memcpy(&quote->tuple.src, &ip.saddr, sizeof(quote->tuple.src));
	__builtin_memcpy(&quote->tuple.dst, &ip.daddr, sizeof(quote->tuple.dst));
	quote->tuple.proto = ip.nexthdr;
	quote->l4 = quote->ip + sizeof(ip);
	return OUTCOME_CONTINUE;
}

static __always_inline int icmp_quote_parse(const struct packet *p, struct icmp_quote *quote)
{
	int ret;

	quote->ip = p->l4 + sizeof(struct icmp_header);
	ret = p->ipv4 ? icmp_quote_ipv4(p, quote) : icmp_quote_ipv6(p, quote);
	if (ret)
		return ret;
	if (!proto_is_served(quote->tuple.proto))
		return OUTCOME_NOT_HANDLED;
	if (quote->l4 + 8 > p->end || bpf_skb_load_bytes(p->ctx, quote->l4, &quote->tuple.sport, 4))
		return OUTCOME_MALFORMED;
	return OUTCOME_CONTINUE;
}

/* Changes a checksum in the quote; it is not there when the quote ends before it, and a UDP one may
 * be none. */
static __always_inline long icmp_quote_checksum(struct packet *p, struct icmp_quote *quote,
						__u32 change)
{
	bool tcp = quote->tuple.proto == IPPROTO_TCP;
	__u32 offset =
		quote->l4 + (tcp ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check));
	__sum16 before, after;

	/* Of SCTP it is a sum of the whole packet, which nobody can compare with a part. */
	if (quote->tuple.proto == IPPROTO_SCTP)
		return 0;
	if (offset + sizeof(before) > p->end)
		return 0;
	if (bpf_skb_load_bytes(p->ctx, offset, &before, sizeof(before)))
		return -1;
	if (!before && !tcp)
		return 0;
	after = csum_replace(before, change);
	if (!after && !tcp)
		after = (__sum16)0xffff;
	quote->diff = csum_add(quote->diff, csum_diff16(before, after));
	return bpf_skb_store_bytes(p->ctx, offset, &after, sizeof(after), 0);
}

/* Writes addresses and, in IPv4, the checksum that levels them out. */
static __always_inline long icmp_quote_addresses(struct packet *p, struct icmp_quote *quote,
						 __u32 addr_diff)
{
	if (p->ipv4) {
		struct ipv4_tail tail = {
			.check = csum_replace(quote->ip_check, addr_diff),
			.saddr = quote->to.src.w[3],
			.daddr = quote->to.dst.w[3],
		};

		return bpf_skb_store_bytes(p->ctx, quote->ip + offsetof(struct iphdr, check),
					   &tail.check,
					   sizeof(tail) - offsetof(struct ipv4_tail, check), 0);
	}
	quote->diff = csum_add(quote->diff, addr_diff);
	return bpf_skb_store_bytes(p->ctx, quote->ip + offsetof(struct ipv6hdr, saddr),
				   &quote->to.src, sizeof(quote->to.src) + sizeof(quote->to.dst),
				   0);
}

/* Makes the quoted packet what quote->to says. */
static __noinline int icmp_quote_rewrite(struct packet *p, struct icmp_quote *quote)
{
	__u32 addr_diff = csum_diff_addrs(&quote->tuple, &quote->to);
	__u32 port_diff = csum_add(csum_diff16(quote->tuple.sport, quote->to.sport),
				   csum_diff16(quote->tuple.dport, quote->to.dport));

	quote->diff = port_diff;
	if (icmp_quote_addresses(p, quote, addr_diff) ||
	    icmp_quote_checksum(p, quote, csum_add(addr_diff, port_diff)) ||
	    bpf_skb_store_bytes(p->ctx, quote->l4, &quote->to.sport, 2 * sizeof(quote->to.sport),
				0))
		return -OUTCOME_REWRITE_FAILED;
	return OUTCOME_CONTINUE;
}

/*
 * The error's own header, addresses and checksum. Whatever sum there is over the whole
 * packet stays as it is: in IPv4 each header levels itself out, in IPv6 the addresses are
 * part of ICMPv6's pseudo header.
 */
static __noinline int icmp_rewrite(struct packet *p, const struct icmp_quote *quote)
{
	__u32 addr_diff = csum_diff_addrs(&p->tuple, &p->to);
	__sum16 check = csum_replace(quote->check,
				     p->ipv4 ? quote->diff : csum_add(quote->diff, addr_diff));

	if (bpf_skb_store_bytes(p->ctx, p->l4 + offsetof(struct icmp_header, check), &check,
				sizeof(check), 0) ||
	    nat_network(p, addr_diff))
		return -OUTCOME_REWRITE_FAILED;
	return OUTCOME_ICMP_TRANSLATED;
}

/* Finds the flow and with it what becomes of the error (p->to) and of its quote (quote->to). */
static __noinline int icmp_find_flow(struct packet *p, enum flow_side side,
				     struct icmp_quote *quote)
{
	int ret;

	/* An error comes to whom sent what it quotes. */
	if (!addr_equal(&quote->tuple.src, &p->tuple.dst))
		return OUTCOME_NOT_SERVICE;
	/* Until it is known: the stack is short. */
	tuple_exchange(&quote->to, &quote->tuple);
	ret = flow_find_of_error(p, &quote->to, side);
	if (ret)
		return ret == FLOW_NONE ? OUTCOME_NOT_SERVICE : ret;
	tuple_exchange(&quote->to, &p->to);
	/* A router's own address is kept where the flow's source is. */
	if (addr_equal(&p->to.src, &quote->tuple.dst))
		p->to.src = p->tuple.src;
	p->to.proto = p->tuple.proto;
	return OUTCOME_CONTINUE;
}

/*
 * in    an ICMP error, p->tuple with its addresses
 * out   OUTCOME_ICMP_TRANSLATED with p->egress set if it is to be redirected; a positive
 *       outcome: not about a flow; a negative one
 */
static __always_inline int icmp_translate(struct packet *p, enum flow_side side, __sum16 check)
{
	struct icmp_quote *quote;
	__u32 zero = 0;
	int ret;

	quote = bpf_map_lookup_elem(&icmp_quote_v1, &zero);
	if (!quote)
		return -OUTCOME_BROKEN_STATE;
	__builtin_memset(quote, 0, sizeof(*quote));
	quote->check = check;
	ret = icmp_quote_parse(p, quote);
	if (!ret)
		ret = icmp_find_flow(p, side, quote);
	if (!ret && !flow_is_of_stack(p->flow_flags))
		ret = route_find(p);
	if (!ret)
		ret = icmp_quote_rewrite(p, quote);
	return ret ?: icmp_rewrite(p, quote);
}

#endif
