/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * icmp_make.h: makes an ICMP error about the packet out of the packet itself.
 *
 * in    p->tuple, offsets and lengths as parsed; p->to.src is who says it; what it says
 * out   0 with p->to set; -OUTCOME_REWRITE_FAILED: the packet is half changed
 */
#ifndef WAGGLE_LIB_ICMP_MAKE_H
#define WAGGLE_LIB_ICMP_MAKE_H

#include "bound.h"
#include "crc32c.h"
#include "icmp.h"
#include "reply.h"

/* How much of a packet is quoted: errors of at most 576 bytes (RFC 1812 4.3.2.3) and 1,280 (RFC
 * 4443 2.4c). */
#define ICMP_IPV4_QUOTE (576 - (__u32)(sizeof(struct iphdr) + sizeof(struct icmp_header)))
#define ICMP_IPV6_QUOTE (1280 - (__u32)(sizeof(struct ipv6hdr) + sizeof(struct icmp_header)))

/* The sum of the packet's bytes from begin to end, which are even, by way of the scratch words. */
static __always_inline long icmp_sum(struct __sk_buff *skb, const struct packet *p,
				     struct reply_state *state, __u32 end, __u32 *sum)
{
	__u32 offset = p->l2;
	__s64 part = 0;
	__u32 i;

	for (i = 0; i <= ICMP_IPV6_QUOTE / sizeof(state->words) && offset < end; i++) {
		__u32 size = end - offset;

		if (size > sizeof(state->words))
			size = sizeof(state->words);
		if (!size_is_valid(&size, sizeof(state->words)))
			return -1;
		__builtin_memset(state->words, 0, sizeof(state->words));
		if (bpf_skb_load_bytes(skb, offset, state->words, size))
			return -1;
		part = bpf_csum_diff(NULL, 0, state->words, sizeof(state->words), (__u32)part);
		offset += size;
	}
	*sum = (__u32)part;
	return 0;
}

/* Bytes of an SCTP packet in a quote that is cut short: to the tag that an INIT's sender knows it
 * by. */
#define ICMP_SCTP_QUOTE 20

/*
 * Where an SCTP packet's checksum is left to the device, it is written into the quote, as a sum
 * of all that lies behind the header's begin: few bytes, so that it can be told beforehand.
 *
 * out   0 with *crc: what will stand where zero stands now, or 0; *quote: bytes to quote
 */
static __noinline long icmp_foresee_crc(struct __sk_buff *skb, const struct packet *p, __u32 *quote,
					__u32 *crc)
{
	__u32 at = p->l4 + offsetof(struct sctp_packet, check);
	__u32 words[ICMP_SCTP_QUOTE / 4];
	__u32 reg = 0xffffffff;
	__u32 i;

	if (bpf_skb_load_bytes(skb, at, crc, sizeof(*crc)))
		return -1;
	if (*crc || !context_sum_is_unfinished(skb, at)) {
		*crc = 0;
		return 0;
	}
	if (p->l4 + ICMP_SCTP_QUOTE > p->end ||
	    bpf_skb_load_bytes(skb, p->l4, words, sizeof(words)))
		return -1;
	for (i = 0; i < ICMP_SCTP_QUOTE / 4; i++)
		reg = crc32c_carry(reg ^ words[i], 4);
	*quote = p->l4 + ICMP_SCTP_QUOTE - p->l2;
	*crc = ~reg;
	return 0;
}

static __noinline int icmp_make(struct __sk_buff *skb, struct packet *p, struct reply_state *state,
				__u32 kind, __u32 rest)
{
	__u32 header = reply_ip_size(p) + sizeof(struct icmp_header);
	__u32 most = p->ipv4 ? ICMP_IPV4_QUOTE : ICMP_IPV6_QUOTE;
	__u32 quote = p->end - p->l2;
	__u32 *icmp = &state->words[REPLY_L4];
	bool unfinished = false;
	__sum16 check;
	__u32 crc = 0;
	__u32 sum;

	if (quote > most)
		quote = most;
	if ((packet_is_sctp(p) ? icmp_foresee_crc(skb, p, &quote, &crc) :
				 reply_find_checksum(skb, p, &check, &unfinished)) ||
	    bpf_skb_change_tail(skb, p->l2 + quote, 0))
		return -OUTCOME_REWRITE_FAILED;
	if (icmp_sum(skb, p, state, unfinished ? p->l4 : p->l2 + quote, &sum))
		return -OUTCOME_REWRITE_FAILED;
	/*
	 * What the device will finish in the quote, it finishes so that all of it sums up to the
	 * complement of what stands in the field now.
	 */
	if (unfinished)
		sum = csum_add(sum, (__u16)~check);
	sum = csum_add(sum, crc);
	if (bpf_skb_adjust_room(skb, header, BPF_ADJ_ROOM_MAC, 0))
		return -OUTCOME_REWRITE_FAILED;
	p->to.dst = p->tuple.src;
	p->to.proto = p->ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	reply_make_ip(p, state, sizeof(struct icmp_header) + quote);
	icmp[0] = bpf_htonl(kind << 16);
	icmp[1] = bpf_htonl(rest);
	sum = csum_add(sum, csum_add(icmp[0], icmp[1]));
	if (!p->ipv4)
		sum = csum_add(sum, csum_pseudo(&p->to, sizeof(struct icmp_header) + quote));
	icmp[0] |= bpf_htonl(bpf_ntohs(csum_finish(sum)));
	return reply_store(skb, p, state, sizeof(struct icmp_header)) ? -OUTCOME_REWRITE_FAILED :
									OUTCOME_CONTINUE;
}

#endif
