/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sign.h: was this packet, about to leave, sent by us?
 *
 * What we redirect passes the egress program of the device that it leaves by, and must not
 * be taken there for the node's own. It carries a sign, in the control block of the skb,
 * from the redirect to there. Only redirected packets do: one that went on to the stack
 * with it might come to an egress program as the stack's. On a virtual link the skb
 * arrives at another machine of the same kernel with its control block, so it is taken
 * away at ingress.
 *
 * Neither skb->sk (a packet of a pod behind veth still has the pod's socket) nor
 * ingress_ifindex (masqueraded packets have one, too) would tell.
 */
#ifndef WAGGLE_LIB_SIGN_H
#define WAGGLE_LIB_SIGN_H

#include "packet.h"

#define SIGN	  0x7761676c
#define SIGN_WORD 4 /* of __sk_buff.cb, the last */

static __always_inline void sign_set(context *ctx)
{
	ctx->cb[SIGN_WORD] = SIGN;
}

static __always_inline bool sign_is_set(const context *ctx)
{
	return ctx->cb[SIGN_WORD] == SIGN;
}

static __always_inline void sign_take_away(context *ctx)
{
	if (sign_is_set(ctx))
		ctx->cb[SIGN_WORD] = 0;
}

#endif
