/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_stale.h: is this datagram for a backend that was removed, from a socket that
 * was connected to it?
 *
 * in    skb of a cgroup_skb program: data begins at the network header, before
 *       fragmentation
 * out   -OUTCOME_STALE_SOCKET; OUTCOME_NOT_SERVICE: leave it alone
 * maps  sock_places_v1, sock_conn_v1, backends_v1 (read)
 */
#ifndef WAGGLE_LIB_SOCK_STALE_H
#define WAGGLE_LIB_SOCK_STALE_H

#include <stddef.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "sock_peer.h"
#include "sock_place.h"

/* The mark of the sending socket, if it is a UDP one whose backend is gone. */
static __always_inline const struct sock_peer *sock_stale_mark(struct __sk_buff *skb)
{
	const struct sock_peer *mark;
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return NULL;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return NULL;
	mark = sock_place_find(sk, bpf_get_socket_cookie(skb));
	if (!mark || mark->proto != IPPROTO_UDP)
		return NULL;
	return backend_is_current(mark->backend, mark->generation) ? NULL : mark;
}

/* Offset of the UDP header with the destination address in *call, or 0. */
static __always_inline __u32 sock_stale_read_ip(struct __sk_buff *skb, struct sock_call *call)
{
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.protocol != IPPROTO_UDP)
			return 0;
		addr_from_ipv4(&call->addr, ip.daddr);
		return ip.ihl * 4;
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) || ip.nexthdr != IPPROTO_UDP)
			return 0;
		__builtin_memcpy(&call->addr, &ip.daddr, sizeof(call->addr));
		return sizeof(ip);
	}
	return 0;
}

static __always_inline int sock_stale_check(struct __sk_buff *skb)
{
	const struct sock_peer *mark = sock_stale_mark(skb);
	struct sock_call call;
	__u32 udp;

	if (!mark) /* everybody else leaves here */
		return OUTCOME_NOT_SERVICE;
	udp = sock_stale_read_ip(skb, &call);
	if (!udp || bpf_skb_load_bytes(skb, udp + offsetof(struct udphdr, dest), &call.port,
				       sizeof(call.port)))
		return OUTCOME_NOT_SERVICE;
	return sock_peer_has_backend(mark, &call) ? -OUTCOME_STALE_SOCKET : OUTCOME_NOT_SERVICE;
}

#endif
