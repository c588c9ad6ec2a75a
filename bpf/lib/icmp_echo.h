/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * icmp_echo.h: does a Service address answer to ping?
 *
 * No, unless it is switched on; an address that is also the node's own is the host's to
 * answer for. Never is such a packet let through: the route to the address leads here, so
 * the stack would send it round in a circle.
 *
 * in    an echo request
 * out   OUTCOME_PING_ANSWERED: the packet has become the reply; -OUTCOME_PING_IGNORED;
 *       OUTCOME_NOT_HANDLED; other negative ones
 * maps  frontends4_v1, frontends6_v1 (read)
 */
#ifndef WAGGLE_LIB_ICMP_ECHO_H
#define WAGGLE_LIB_ICMP_ECHO_H

#include "frontend_lookup.h"
#include "icmp.h"
#include "reply.h"

/* --answer-ping */
const volatile bool cfg_answer_ping = false;

static __always_inline int icmp_echo_answer(struct packet *p, struct reply_state *state,
					    struct icmp_header *icmp)
{
	__u8 reply = p->ipv4 ? ICMP_ECHOREPLY : ICMPV6_ECHO_REPLY;
	__u16 before, after;

	__builtin_memcpy(&before, icmp, sizeof(before));
	icmp->type = reply;
	__builtin_memcpy(&after, icmp, sizeof(after));
	/* Addresses that change places leave the sum as it is. */
	icmp->check = csum_replace(icmp->check, csum_diff16(before, after));
	if (reply_drop_options(p->ctx, p))
		return -OUTCOME_REWRITE_FAILED;
	tuple_exchange(&p->to, &p->tuple);
	reply_make_ip(p, state, p->end - p->l4);
	__builtin_memcpy(&state->words[REPLY_L4], icmp, sizeof(*icmp));
	return reply_store(p->ctx, p, state, sizeof(*icmp)) ? -OUTCOME_REWRITE_FAILED :
							      OUTCOME_CONTINUE;
}

static __noinline int icmp_echo(struct packet *p, struct icmp_header *icmp)
{
	const struct frontend *frontend = frontend_find(&p->tuple.dst, 0, 0);
	struct reply_state *state = reply_state_get();
	int ret;

	if (!frontend || frontend->flags & FRONTEND_FLAG_OWN_ADDRESS)
		return OUTCOME_NOT_HANDLED;
	if (!cfg_answer_ping || !reply_has_receiver(p) || !state)
		return -OUTCOME_PING_IGNORED;
	ret = icmp_echo_answer(p, state, icmp);
	if (!ret)
		ret = reply_route(p->ctx, p);
	return ret ?: OUTCOME_PING_ANSWERED;
}

#endif
