/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * icmp_receive.h: which ICMP messages concern us?
 *
 * in    a parsed ICMP or ICMPv6 packet, the side where the program stands
 * out   an outcome, never 0
 */
#ifndef WAGGLE_LIB_ICMP_RECEIVE_H
#define WAGGLE_LIB_ICMP_RECEIVE_H

#include "icmp_echo.h"
#include "icmp_translate.h"

static __noinline int icmp_receive(struct packet *p, enum flow_side side)
{
	struct icmp_header icmp;

	if (p->l4 + sizeof(icmp) > p->end || bpf_skb_load_bytes(p->ctx, p->l4, &icmp, sizeof(icmp)))
		return OUTCOME_MALFORMED;
	if (icmp_is_error(p, &icmp))
		return icmp_translate(p, side, icmp.check);
	if (side == FLOW_SIDE_INGRESS && icmp_is_echo_request(p, &icmp))
		return icmp_echo(p, &icmp);
	return OUTCOME_NOT_HANDLED;
}

#endif
