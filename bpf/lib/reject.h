/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * reject.h: a packet that cannot be served is answered, so that its sender knows at once.
 *
 * in    a negative outcome
 * out   the positive one: the packet has become the answer; -OUTCOME_REPLY_LIMITED; another
 *       negative one: dropped without a word
 *
 * refusal.h says what is answered: a port or a backend that is missing by a reset or port
 * unreachable of the address that was dialled, the others as a router does.
 */
#ifndef WAGGLE_LIB_REJECT_H
#define WAGGLE_LIB_REJECT_H

#include "icmp_make.h"
#include "refusal.h"
#include "reply.h"

/*
 * The reset for a SYN (RFC 9293 3.5.2): it acknowledges the SYN and the data in it. No
 * other segment comes here: without a flow they are left to the stack (open.h), and a
 * reset for a reset is none of them.
 */
static __noinline int reject_syn(struct __sk_buff *skb, struct packet *p, struct reply_state *state)
{
	__u32 *tcp = &state->words[REPLY_L4];
	bool unfinished;
	__sum16 check;
	__be32 seq;
	__u32 sum;

	if (bpf_skb_load_bytes(skb, p->l4 + offsetof(struct tcphdr, seq), &seq, sizeof(seq)) ||
	    reply_find_checksum(skb, p, &check, &unfinished) ||
	    bpf_skb_change_tail(skb, p->l4 + sizeof(struct tcphdr), 0) ||
	    reply_drop_options(skb, p))
		return -OUTCOME_REWRITE_FAILED;
	tuple_exchange(&p->to, &p->tuple);
	reply_make_ip(p, state, sizeof(struct tcphdr));
	__builtin_memcpy(&tcp[0], &p->to.sport, sizeof(tcp[0]));
	tcp[1] = 0;
	tcp[2] = bpf_htonl(bpf_ntohl(seq) + 1 + (p->end - p->l4 - p->l4_size));
	tcp[3] = bpf_htonl((__u32)sizeof(struct tcphdr) / 4 << 28 | (TCP_RST | TCP_ACK) << 16);
	sum = csum_pseudo(&p->to, sizeof(struct tcphdr));
	/* The device adds the rest, see reply_find_checksum. */
	if (unfinished)
		check = ~csum_finish(sum);
	else
		check = csum_finish(bpf_csum_diff(NULL, 0, tcp, 16, sum));
	tcp[4] = bpf_htonl((__u32)bpf_ntohs(check) << 16);
	return reply_store(skb, p, state, sizeof(struct tcphdr)) ? -OUTCOME_REWRITE_FAILED :
								   OUTCOME_CONTINUE;
}

/* A router speaks from its address on the device where the packet came in (RFC 1812 4.3.2.4). */
static __always_inline void reject_as_router(const struct __sk_buff *skb, struct packet *p)
{
	__u32 ifindex = skb->ifindex;
	const struct device *device = bpf_map_lookup_elem(&devices_v1, &ifindex);

	p->to.src = p->tuple.dst;
	if (!device)
		return;
	if (!addr_is_zero(p->ipv4 ? &device->addr4 : &device->addr6))
		p->to.src = p->ipv4 ? device->addr4 : device->addr6;
}

static __always_inline int reject_answer(struct __sk_buff *skb, struct packet *p,
					 struct reply_state *state, int refusal)
{
	switch (refusal) {
	case -OUTCOME_TTL_EXCEEDED:
		reject_as_router(skb, p);
		return icmp_make(skb, p, state, icmp_time_exceeded(p), 0);
	case -OUTCOME_TOO_BIG:
		reject_as_router(skb, p);
		return icmp_make(skb, p, state, icmp_too_big(p), p->mtu);
	default:
		if (packet_is_tcp(p))
			return reject_syn(skb, p, state);
		p->to.src = p->tuple.dst;
		return icmp_make(skb, p, state, icmp_port_unreachable(p), 0);
	}
}

/*
 * A global function: the verifier looks at it once, whatever led here. With each refusal
 * on each way through snat.h it goes beyond its limit (6.18).
 */
__noinline int reject_packet(struct __sk_buff *skb, struct packet *p, int refusal)
{
	struct reply_state *state = reply_state_get();
	int ret;

	if (!p || !state)
		return refusal;
	/* No error about an error, nor about a later fragment (RFC 1122 3.2.2). */
	if (!refusal_is_answered(refusal) || packet_is_icmp(p) || packet_is_later_fragment(p) ||
	    !reply_has_receiver(p))
		return refusal;
	if (!reply_is_allowed(state))
		return -OUTCOME_REPLY_LIMITED;
	ret = reject_answer(skb, p, state, refusal);
	if (!ret)
		ret = reply_route(skb, p);
	return ret ?: -refusal;
}

static __always_inline int reject(struct packet *p, int refusal)
{
	struct __sk_buff *skb = p->ctx;
	int ret = reject_packet(skb, p, refusal);

	/* The verifier takes what a global function had a pointer to for plain bytes. */
	p->ctx = skb;
	return ret;
}

#endif
