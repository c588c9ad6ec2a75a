/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * snat.h: stores a flow with a source port that makes its replies unlike all others.
 *
 * A port is taken when a flow's replies, a socket of this node, a frontend or conntrack has
 * it (snat_taken.h). The flow table decides: storing the reply half is the claim.
 *
 * maps  flow_stats_v1 (write); flows through flow.h
 */
#ifndef WAGGLE_LIB_SNAT_H
#define WAGGLE_LIB_SNAT_H

#include "flow.h"
#include "packet.h"
#include "snat_ports.h"
#include "snat_taken.h"

/* Adds the tries of a round of the search. */
static __always_inline void snat_count(bool first_round, __u32 tries)
{
	__u32 zero = 0;
	struct flow_stats *stats = bpf_map_lookup_elem(&flow_stats_v1, &zero);

	if (!stats)
		return;
	stats->snat_flows += first_round;
	stats->snat_tries += tries;
}

/*
 * The steps of a try, and the search, are global functions: each is verified once, with
 * whatever it may be given, not once for each way to it and each try. None has more on the
 * stack than it needs, since they are on top of all else.
 */

/* A round of the search. */
__noinline int snat_search(context *ctx, struct packet *p, struct flow_new *new, __u32 own_address,
			   __u32 round)
{
	int ret = FLOW_TAKEN;
	__u32 i;

	if (!p || !new)
		return -OUTCOME_BROKEN_STATE;
	for (i = 0; i < SNAT_TRIES_A_ROUND && ret == FLOW_TAKEN; i++) {
		p->to.sport = !round && !i ? snat_port_of_client(&p->tuple) :
					     snat_port_at(bpf_get_prandom_u32(), round);
		/* Where ports are scarce most tries end with the first question. */
		if (!flow_half_for_replies(p) && !snat_is_taken(ctx, p, own_address))
			ret = flow_add(p, new);
	}
	snat_count(!round, i);
	return ret;
}

/*
 * in    p->to without its source port; new as flow_add wants it; whether the source is
 *       an address of this node
 * out   as flow_add, with -OUTCOME_SNAT_EXHAUSTED instead of FLOW_TAKEN
 */
static __always_inline int snat_add_flow(struct packet *p, struct flow_new *new, bool own_address)
{
	context *ctx = p->ctx;
	int ret = FLOW_TAKEN;
	__u32 round;

	for (round = 0; round < SNAT_ROUNDS && ret == FLOW_TAKEN; round++)
		ret = snat_search(ctx, p, new, own_address, round);
	/* The verifier takes what a global function had a pointer to for plain bytes. */
	p->ctx = ctx;
	return ret == FLOW_TAKEN ? -OUTCOME_SNAT_EXHAUSTED : ret;
}

#endif
