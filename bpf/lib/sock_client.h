/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_client.h: who owns this socket, a process of the node's own network namespace or
 * a pod, and which source ranges let it in?
 *
 * maps  src_ranges_v1 (read)
 */
#ifndef WAGGLE_LIB_SOCK_CLIENT_H
#define WAGGLE_LIB_SOCK_CLIENT_H

#include "addr.h"
#include "source_range.h"

/* Cookie of the node's network namespace; 0 = it is the first one, that of the machine. */
const volatile __u64 cfg_node_netns = 0;

static __always_inline bool sock_client_is_node(struct bpf_sock_addr *ctx)
{
	return bpf_get_netns_cookie(ctx) == (cfg_node_netns ?: bpf_get_netns_cookie(NULL));
}

/* The address that the socket is bound to; false when routing will choose one. */
static __always_inline bool sock_client_address(const struct bpf_sock *sk, bool ipv6,
						struct ip_addr *addr)
{
	if (ipv6) {
		addr->w[0] = sk->src_ip6[0];
		addr->w[1] = sk->src_ip6[1];
		addr->w[2] = sk->src_ip6[2];
		addr->w[3] = sk->src_ip6[3];
		return !addr_is_zero(addr);
	}
	addr_from_ipv4(addr, sk->src_ip4);
	return addr->w[3];
}

/*
 * Which source address a socket will have is not known before it is routed, unless it is
 * bound. So the control plane says of each service whether its ranges let in the node,
 * and whether they let in every pod that runs here.
 */
static __always_inline bool sock_client_is_let_in(struct bpf_sock_addr *ctx, bool ipv6, __u32 index,
						  const struct service *service)
{
	struct ip_addr addr;

	if (sock_client_address(ctx->sk, ipv6, &addr))
		return source_range_has(index, &addr);
	return service->flags &
	       (sock_client_is_node(ctx) ? SERVICE_SOURCE_NODE : SERVICE_SOURCE_PODS);
}

#endif
