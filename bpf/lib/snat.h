/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * snat.h: which source port makes this flow's replies unlike all others?
 *
 * A port is taken when a flow's replies, a socket of this node or a frontend has it.
 * The flow table decides: storing the reply half is the claim.
 *
 * maps  frontends4_v1, frontends6_v1 (read); flows through flow.h
 */
#ifndef WAGGLE_LIB_SNAT_H
#define WAGGLE_LIB_SNAT_H

#include "flow.h"
#include "frontend_lookup.h"
#include "packet.h"

/*
 * Two ranges, host order, both ends included; max = min - 1 makes one empty. The
 * defaults leave out node ports (30000-32767) and the usual ip_local_port_range
 * (32768-60999).
 */
const volatile __u16 cfg_snat_low_min = 1024;
const volatile __u16 cfg_snat_low_max = 29999;
const volatile __u16 cfg_snat_high_min = 61000;
const volatile __u16 cfg_snat_high_max = 65535;

/*
 * Tries for a free port, all but the first at random. With three quarters of the range
 * taken 32 tries fail for one flow in 10,000; a try costs about a microsecond's tenth and
 * only new flows pay it.
 */
#define SNAT_TRIES 32

/* A prime above every range's size: multiplying by it mixes the positions and keeps them apart. */
#define SNAT_MIX 2654435761ULL

/* The port at a position of the two ranges taken together, in network order. */
static __always_inline __be16 snat_port_at(__u64 position)
{
	__u32 low = (__u32)cfg_snat_low_max + 1 - cfg_snat_low_min;
	__u32 high = (__u32)cfg_snat_high_max + 1 - cfg_snat_high_min;

	position %= low + high;
	return bpf_htons(position < low ? cfg_snat_low_min + position :
					  cfg_snat_high_min + (position - low));
}

/*
 * The port that is tried first. All ports of one client lead to different ones, and each
 * always to the same: the backend may still hold the connection that this client had from
 * this port in TIME_WAIT, and lets a new one pass only if sequence numbers or timestamps
 * grew. Those of another port, or another client, need not be greater; Linux 6.18 begins
 * timestamps anywhere. Seen with random ports: a client that used its 28,000 ports again
 * within a minute was held up for a second in one connection of seven.
 */
static __always_inline __be16 snat_port_of_client(const struct packet *p)
{
	const __be32 *w = p->tuple.src.w;

	return snat_port_at(((__u64)(w[0] ^ w[1] ^ w[2] ^ w[3]) + bpf_ntohs(p->tuple.sport)) *
			    SNAT_MIX);
}

/* Fills in the tuple as the replies will carry it and returns its size. */
static __always_inline __u32 snat_reply_tuple(const struct packet *p, struct bpf_sock_tuple *reply)
{
	if (p->ipv4) {
		reply->ipv4.saddr = p->to.dst.w[3];
		reply->ipv4.daddr = p->to.src.w[3];
		reply->ipv4.sport = p->to.dport;
		reply->ipv4.dport = p->to.sport;
		return sizeof(reply->ipv4);
	}
	__builtin_memcpy(reply->ipv6.saddr, p->to.dst.w, sizeof(reply->ipv6.saddr));
	__builtin_memcpy(reply->ipv6.daddr, p->to.src.w, sizeof(reply->ipv6.daddr));
	reply->ipv6.sport = p->to.dport;
	reply->ipv6.dport = p->to.sport;
	return sizeof(reply->ipv6);
}

/* TCP listeners do not count: they have no peer. TIME_WAIT does. */
static __always_inline bool snat_port_has_tcp(const struct packet *p, struct bpf_sock_tuple *reply,
					      __u32 size)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(p->ctx, reply, size, BPF_F_CURRENT_NETNS, 0);
	bool taken;

	if (!sk)
		return false;
	taken = sk->state != BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	return taken;
}

/* A socket bound to the port without a peer counts: it may talk to anyone. */
static __always_inline bool snat_port_has_udp(const struct packet *p, struct bpf_sock_tuple *reply,
					      __u32 size)
{
	struct bpf_sock *sk = bpf_sk_lookup_udp(p->ctx, reply, size, BPF_F_CURRENT_NETNS, 0);

	if (!sk)
		return false;
	bpf_sk_release(sk);
	return true;
}

/* Would a socket of this node receive the replies? */
static __always_inline bool snat_port_has_socket(const struct packet *p)
{
	struct bpf_sock_tuple reply = {};
	__u32 size = snat_reply_tuple(p, &reply);

	return packet_is_tcp(p) ? snat_port_has_tcp(p, &reply, size) :
				  snat_port_has_udp(p, &reply, size);
}

/*
 * Tries one port. A function of its own: inlined into the loop it takes the verifier
 * (6.18) more than a million instructions, which it refuses.
 */
static __noinline int snat_try(struct packet *p, struct flow *half, bool own_address, bool first)
{
	p->to.sport = first ? snat_port_of_client(p) : snat_port_at(bpf_get_prandom_u32());
	if (own_address &&
	    (frontend_find(&p->to.src, p->to.sport, p->to.proto) || snat_port_has_socket(p)))
		return FLOW_TAKEN;
	return flow_add(p, half);
}

/*
 * Stores the flow with a source port that is free.
 *
 * in    p->to without its source port; half as flow_add wants it; whether the source is
 *       an address of this node
 * out   as flow_add, with -OUTCOME_SNAT_EXHAUSTED instead of FLOW_TAKEN
 */
static __always_inline int snat_add_flow(struct packet *p, struct flow *half, bool own_address)
{
	int ret;
	int i;

	/* Unrolled, the verifier's work grows with the tries; as a loop, with their square. */
#pragma unroll
	for (i = 0; i < SNAT_TRIES; i++) {
		ret = snat_try(p, half, own_address, i == 0);
		if (ret != FLOW_TAKEN)
			return ret;
	}
	return -OUTCOME_SNAT_EXHAUSTED;
}

#endif
