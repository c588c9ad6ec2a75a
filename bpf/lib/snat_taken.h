/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * snat_taken.h: does this node itself, or its kernel's NAT, use the source port that a flow
 * is about to get?
 *
 * in    p->to, complete
 * maps  frontends4_v1, frontends6_v1 (read)
 */
#ifndef WAGGLE_LIB_SNAT_TAKEN_H
#define WAGGLE_LIB_SNAT_TAKEN_H

#include "conntrack.h"
#include "frontend_lookup.h"
#include "packet.h"

/* TCP listeners do not count: they have no peer. TIME_WAIT does. */
static __always_inline bool snat_has_tcp_socket(context *ctx, struct bpf_sock_tuple *reply,
						__u32 size)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(ctx, reply, size, BPF_F_CURRENT_NETNS, 0);
	bool taken;

	if (!sk)
		return false;
	taken = sk->state != BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	return taken;
}

/* A socket bound to the port without a peer counts: it may talk to anyone. */
static __always_inline bool snat_has_udp_socket(context *ctx, struct bpf_sock_tuple *reply,
						__u32 size)
{
	struct bpf_sock *sk = bpf_sk_lookup_udp(ctx, reply, size, BPF_F_CURRENT_NETNS, 0);

	if (!sk)
		return false;
	bpf_sk_release(sk);
	return true;
}

/*
 * Would a socket of this node receive the replies, or does conntrack know them for those
 * of somebody else's packets? own_address: the source is an address of this node; with
 * another one only conntrack can tell.
 */
__noinline int snat_is_taken(context *ctx, struct packet *p, __u32 own_address)
{
	struct bpf_sock_tuple reply = {};
	__u32 size;

	if (!p)
		return 0;
	if (own_address && frontend_find(&p->to.src, p->to.sport, p->to.proto))
		return 1;
	size = sock_tuple_make_reply(&reply, &p->to, p->ipv4);
	/* About SCTP the kernel can be asked neither way. */
	if (packet_is_sctp(p))
		return 0;
	if (own_address && (packet_is_tcp(p) ? snat_has_tcp_socket(ctx, &reply, size) :
					       snat_has_udp_socket(ctx, &reply, size)))
		return 1;
	return conntrack_knows(ctx, &reply, size, p->to.proto);
}

#endif
