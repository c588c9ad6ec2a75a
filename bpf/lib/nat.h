/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * nat.h: makes the packet what its flow says.
 *
 * in    p->tuple, p->to, p->egress (redirected packets lose one from their TTL, the
 *       stack does it for the others)
 * out   0; -OUTCOME_REWRITE_FAILED: the packet may be half changed and must be dropped;
 *       -OUTCOME_BAD_FRAGMENT: see nat_sctp.h
 *
 * Checksums are updated, never computed: a wrong one stays wrong.
 */
#ifndef WAGGLE_LIB_NAT_H
#define WAGGLE_LIB_NAT_H

#include <stddef.h>

#include "csum.h"
#include "nat_sctp.h"
#include "packet.h"

/* The second half of struct iphdr, written at once. */
struct ipv4_tail {
	__u16 ttl_word;
	__sum16 check;
	__be32 saddr;
	__be32 daddr;
};

/* Offset in the IP header of the 16 bits that hold TTL or hop limit. */
#define IPV4_TTL_WORD offsetof(struct iphdr, ttl)
#define IPV6_TTL_WORD offsetof(struct ipv6hdr, nexthdr)

/* p->ttl_word with one less; the TTL is the first byte of the word in IPv4, the hop limit the
 * second in IPv6. */
static __always_inline __u16 nat_lower_ttl(const struct packet *p)
{
	union {
		__u16 word;
		__u8 bytes[2];
	} w = {.word = p->ttl_word};

	if (p->ipv4)
		w.bytes[0]--;
	else
		w.bytes[1]--;
	return w.word;
}

/* Ports, and the checksum of TCP or UDP, which covers them and the addresses. */
static __always_inline long nat_transport(struct packet *p, __u32 addr_diff)
{
	__u32 offset = p->l4 + (packet_is_tcp(p) ? offsetof(struct tcphdr, check) :
						   offsetof(struct udphdr, check));
	__u32 old_ports, new_ports;
	long err;

	__builtin_memcpy(&old_ports, &p->tuple.sport, sizeof(old_ports));
	__builtin_memcpy(&new_ports, &p->to.sport, sizeof(new_ports));
	err = context_update_sum(p->ctx, offset, !packet_is_tcp(p), addr_diff, old_ports,
				 new_ports);
	if (err || old_ports == new_ports)
		return err;
	return context_store(p->ctx, p->l4, &new_ports, sizeof(new_ports));
}

static __always_inline long nat_network_ipv4(struct packet *p, __u32 addr_diff)
{
	struct ipv4_tail tail = {
		.ttl_word = p->egress ? nat_lower_ttl(p) : p->ttl_word,
		.saddr = p->to.src.w[3],
		.daddr = p->to.dst.w[3],
	};

	tail.check = csum_replace(p->ip_check,
				  csum_add(addr_diff, csum_diff16(p->ttl_word, tail.ttl_word)));
	return context_store(p->ctx, p->l2 + IPV4_TTL_WORD, &tail, sizeof(tail));
}

static __always_inline long nat_network_ipv6(struct packet *p)
{
	long err;

	if (p->egress) {
		__u16 lowered = nat_lower_ttl(p);

		err = context_store(p->ctx, p->l2 + IPV6_TTL_WORD, &lowered, sizeof(lowered));
		if (err)
			return err;
	}
	return context_store(p->ctx, p->l2 + offsetof(struct ipv6hdr, saddr), &p->to.src,
			     sizeof(p->to.src) + sizeof(p->to.dst));
}

static __always_inline long nat_network(struct packet *p, __u32 addr_diff)
{
	return p->ipv4 ? nat_network_ipv4(p, addr_diff) : nat_network_ipv6(p);
}

/*
 * A redirected packet needs none: bpf_redirect_neigh leaves the old MAC header in the sum,
 * so it is wrong from there on (6.18).
 */
static __always_inline void nat_complete_sum(struct packet *p, __u32 addr_diff)
{
	if (!p->ipv4 && !p->egress)
		context_update_complete_sum(p->ctx, addr_diff);
}

static __always_inline int nat_apply(struct packet *p)
{
	__u32 addr_diff = csum_diff_addrs(&p->tuple, &p->to);
	int ret = OUTCOME_CONTINUE;

	/* A later fragment has no transport header; its first one told the checksum of it. */
	if (!packet_is_later_fragment(p)) {
		if (packet_is_sctp(p))
			ret = nat_sctp(p);
		else if (nat_transport(p, addr_diff))
			ret = -OUTCOME_REWRITE_FAILED;
	}
	if (ret)
		return ret;
	nat_complete_sum(p, addr_diff);
	if (nat_network(p, addr_diff))
		return -OUTCOME_REWRITE_FAILED;
	return OUTCOME_CONTINUE;
}

#endif
