/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * parse.h: what is in the headers of this packet?
 *
 * in    an skb whose data begins with an Ethernet header (a VLAN tag that the device
 *       took out is in its metadata)
 * out   0 with the packet's tuple, offsets and header fields set; a positive outcome
 *       for everything that is not ours to judge
 *
 * Nothing is dropped here: whether a broken packet was meant for a frontend cannot be
 * known, and the stack drops it anyway.
 */
#ifndef WAGGLE_LIB_PARSE_H
#define WAGGLE_LIB_PARSE_H

#include <linux/if_packet.h>

#include "addr.h"
#include "packet.h"

#define IPV4_FRAGMENT_OFFSET 0x1fff /* in units of 8 bytes (RFC 791) */
#define VLAN_ID_MASK 0x0fff

/*
 * size bytes at offset, or NULL when the packet is shorter. Bytes that lie outside the
 * linear part are pulled into it, which ends the life of every earlier pointer.
 */
static __always_inline const void *parse_bytes(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	const void *data;

	/*
	 * Makes clang (14) load data and data_end anew. It keeps the ones of an earlier call as
	 * 32 bits otherwise, and the verifier no longer knows them for packet pointers.
	 */
	asm volatile("" : "+r"(skb));
	data = (void *)(long)skb->data;
	if (data + offset + size <= (void *)(long)skb->data_end)
		return data + offset;
	if (offset + size > skb->len || bpf_skb_pull_data(skb, offset + size))
		return NULL;
	data = (void *)(long)skb->data;
	if (data + offset + size <= (void *)(long)skb->data_end)
		return data + offset;
	return NULL;
}

/* Sets *end to the offset behind the IP packet; padding may follow. */
static __always_inline int parse_ipv4(struct packet *p, __u32 *end)
{
	const struct iphdr *ip = parse_bytes(p->skb, ETH_HLEN, sizeof(*ip));
	__u32 header, total;

	if (!ip || ip->version != 4)
		return OUTCOME_MALFORMED;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	/* Larger than 64 KiB (BIG TCP): the field is 0 and the skb knows the length. */
	if (!total && p->skb->gso_size)
		total = p->skb->len - ETH_HLEN;
	if (header < sizeof(*ip) || total < header || ETH_HLEN + total > p->skb->len)
		return OUTCOME_MALFORMED;
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
		return OUTCOME_NOT_HANDLED;
	if (ip->frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET))
		return OUTCOME_FRAGMENT;
	addr_from_ipv4(&p->tuple.src, ip->saddr);
	addr_from_ipv4(&p->tuple.dst, ip->daddr);
	p->tuple.proto = ip->protocol;
	p->ipv4 = 1;
	p->ttl = ip->ttl;
	p->ttl_word = *(const __u16 *)&ip->ttl;
	p->ip_check = ip->check;
	p->l4 = ETH_HLEN + header;
	*end = ETH_HLEN + total;
	return OUTCOME_CONTINUE;
}

/* Headers between IPv6 and TCP or UDP (RFC 8200 4, RFC 4302). */
static __always_inline bool is_ipv6_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_DSTOPTS || next == IPPROTO_AH;
}

static __always_inline int parse_ipv6(struct packet *p, __u32 *end)
{
	const struct ipv6hdr *ip = parse_bytes(p->skb, ETH_HLEN, sizeof(*ip));
	__u32 total;

	if (!ip || ip->version != 6)
		return OUTCOME_MALFORMED;
	total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	if (!ip->payload_len && p->skb->gso_size)
		total = p->skb->len - ETH_HLEN;
	if (ETH_HLEN + total > p->skb->len)
		return OUTCOME_MALFORMED;
	if (ip->nexthdr != IPPROTO_TCP && ip->nexthdr != IPPROTO_UDP)
		return is_ipv6_extension(ip->nexthdr) ? OUTCOME_FRAGMENT : OUTCOME_NOT_HANDLED;
	__builtin_memcpy(&p->tuple.src, &ip->saddr, sizeof(p->tuple.src));
	__builtin_memcpy(&p->tuple.dst, &ip->daddr, sizeof(p->tuple.dst));
	/* On the wire it is no IPv4 packet, whatever its addresses say: it must not meet IPv4 state. */
	if (addr_is_ipv4(&p->tuple.src) || addr_is_ipv4(&p->tuple.dst))
		return OUTCOME_NOT_HANDLED;
	p->tuple.proto = ip->nexthdr;
	p->ttl = ip->hop_limit;
	p->ttl_word = *(const __u16 *)&ip->nexthdr;
	p->l4 = ETH_HLEN + sizeof(*ip);
	*end = ETH_HLEN + total;
	return OUTCOME_CONTINUE;
}

static __always_inline int parse_tcp(struct packet *p, __u32 end)
{
	const struct tcphdr *tcp = parse_bytes(p->skb, p->l4, sizeof(*tcp));

	if (!tcp || p->l4 + sizeof(*tcp) > end || tcp->doff * 4 < sizeof(*tcp))
		return OUTCOME_MALFORMED;
	p->tuple.sport = tcp->source;
	p->tuple.dport = tcp->dest;
	p->tcp_flags = ((const __u8 *)tcp)[13];
	return OUTCOME_CONTINUE;
}

static __always_inline int parse_udp(struct packet *p, __u32 end)
{
	const struct udphdr *udp = parse_bytes(p->skb, p->l4, sizeof(*udp));

	if (!udp || p->l4 + sizeof(*udp) > end)
		return OUTCOME_MALFORMED;
	p->tuple.sport = udp->source;
	p->tuple.dport = udp->dest;
	return OUTCOME_CONTINUE;
}

/*
 * A frame for another machine reaches us when a switch floods it and the device listens
 * to all (a capture does that): whom it is for answers it too.
 */
static __always_inline int packet_check_receiver(const struct packet *p)
{
	return p->skb->pkt_type == PACKET_HOST ? OUTCOME_CONTINUE : OUTCOME_NOT_HANDLED;
}

static __always_inline int packet_parse(struct packet *p, struct __sk_buff *skb)
{
	__u32 end = 0;
	int ret;

	__builtin_memset(p, 0, sizeof(*p));
	p->skb = skb;
	/* A tagged packet is the VLAN device's, where it arrives again without its tag. */
	if (skb->vlan_present && skb->vlan_tci & VLAN_ID_MASK)
		return OUTCOME_NOT_HANDLED;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		ret = parse_ipv4(p, &end);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		ret = parse_ipv6(p, &end);
	else
		ret = OUTCOME_NOT_HANDLED;
	if (ret)
		return ret;
	return packet_is_tcp(p) ? parse_tcp(p, end) : parse_udp(p, end);
}

#endif
