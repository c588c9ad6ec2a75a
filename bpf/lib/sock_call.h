/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_call.h: the address that a socket call carries, whatever its family.
 *
 * in    ctx of a cgroup sock_addr program and whether its hook is an IPv6 one. An IPv4
 *       address in a v6 socket comes mapped, which is how ip_addr writes it anyway.
 * out   0 with *call set; OUTCOME_NOT_HANDLED
 *
 * `ipv6` is a constant in each caller: a ctx field chosen at run time would be a
 * modified ctx pointer, which the verifier refuses.
 */
#ifndef WAGGLE_LIB_SOCK_CALL_H
#define WAGGLE_LIB_SOCK_CALL_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#include "../layout/outcome.h"
#include "addr.h"

struct sock_call {
	struct ip_addr addr; /* destination of a request, source of a reply, peer */
	__be16 port;
	__u8 proto; /* IPPROTO_* */
};

static __always_inline int sock_call_read(const struct bpf_sock_addr *ctx, bool ipv6,
					  struct sock_call *call)
{
	__u32 proto = ctx->protocol;

	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return OUTCOME_NOT_HANDLED;
	if (ipv6) {
		call->addr.w[0] = ctx->user_ip6[0];
		call->addr.w[1] = ctx->user_ip6[1];
		call->addr.w[2] = ctx->user_ip6[2];
		call->addr.w[3] = ctx->user_ip6[3];
	} else {
		addr_from_ipv4(&call->addr, ctx->user_ip4);
	}
	/* 32 bits wide in ctx, the port in network order in the first two bytes. */
	call->port = (__be16)ctx->user_port;
	call->proto = proto;
	return OUTCOME_CONTINUE;
}

/* Puts another address into the call. Only words may be written. */
static __always_inline void sock_call_write(struct bpf_sock_addr *ctx, bool ipv6,
					    const struct ip_addr *addr, __be16 port)
{
	if (ipv6) {
		ctx->user_ip6[0] = addr->w[0];
		ctx->user_ip6[1] = addr->w[1];
		ctx->user_ip6[2] = addr->w[2];
		ctx->user_ip6[3] = addr->w[3];
	} else {
		ctx->user_ip4 = addr->w[3];
	}
	ctx->user_port = port;
}

#endif
