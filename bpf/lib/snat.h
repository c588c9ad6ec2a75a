/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * snat.h: stores a flow with a source port that makes its replies unlike all others.
 *
 * A port is taken when a flow's replies, a socket of this node, a frontend or conntrack has
 * it (snat_taken.h). The flow table decides: storing the reply half is the claim. The tries
 * are bounded for each flow and, where ports are scarce, for each CPU and second.
 *
 * maps  flow_stats_v1 (write); flows through flow.h
 */
#ifndef WAGGLE_LIB_SNAT_H
#define WAGGLE_LIB_SNAT_H

#include "clock.h"
#include "flow.h"
#include "packet.h"
#include "snat_ports.h"
#include "snat_taken.h"

/*
 * Tries that a CPU may make in a second, the free ones of each flow not counted; 0 = no limit.
 * A try that fails takes 0.3 us: once a backend has no port left, each SYN to it pays for all
 * tries, and a flood of them would take the CPU. At this rate it takes a seventh, and 10,000
 * flows a second may still find the last range when the first two are full.
 */
const volatile __u32 cfg_snat_tries_rate = 500000;

/* What may be tried at once: a tenth of a second's. */
#define SNAT_BURST_NS 100000000ULL

/*
 * Tries that are free in each of the first two rounds: in the first two ranges, and in all.
 * With three quarters of the first two taken, 99 flows of 100 get a port by these alone.
 */
#define SNAT_TRIES_FREE	 4
#define SNAT_ROUNDS_FREE 2

/* Tries that a round of the search may make. */
static __always_inline __u32 snat_tries_allowed(const struct flow_stats *stats, __u32 round)
{
	if (!cfg_snat_tries_rate || !stats ||
	    (__s64)(stats->snat_due_ns - clock_coarse_ns()) <= (__s64)SNAT_BURST_NS)
		return SNAT_TRIES_A_ROUND;
	return round < SNAT_ROUNDS_FREE ? SNAT_TRIES_FREE : 0;
}

/*
 * Counts the tries of a round, and pays for those that are not free. They are paid for evenly,
 * so the time when all of them are tells what is left.
 */
static __always_inline void snat_count(struct flow_stats *stats, __u32 round, __u32 tries)
{
	__u64 now;

	if (!stats)
		return;
	stats->snat_flows += !round;
	stats->snat_tries += tries;
	if (round < SNAT_ROUNDS_FREE)
		tries -= tries < SNAT_TRIES_FREE ? tries : SNAT_TRIES_FREE;
	if (!tries || !cfg_snat_tries_rate)
		return;
	now = clock_coarse_ns();
	if ((__s64)(stats->snat_due_ns - now) < 0)
		stats->snat_due_ns = now;
	stats->snat_due_ns += tries * (NSEC_PER_SEC / cfg_snat_tries_rate);
}

/*
 * The steps of a try, and the search, are global functions: each is verified once, with
 * whatever it may be given, not once for each way to it and each try. None has more on the
 * stack than it needs, since they are on top of all else.
 */

/* Is the new source an address of this node? It is the client's own where the backend is here. */
static __always_inline bool snat_has_own_address(const struct flow_new *new)
{
	return !(new->flags &FLOW_LOCAL_BACKEND);
}

/* A round of the search. */
__noinline int snat_search(context *ctx, struct packet *p, struct flow_new *new, __u32 round)
{
	__u32 zero = 0;
	struct flow_stats *stats = bpf_map_lookup_elem(&flow_stats_v1, &zero);
	__u32 allowed = snat_tries_allowed(stats, round);
	int ret = FLOW_TAKEN;
	__u32 i;

	if (!p || !new)
		return -OUTCOME_BROKEN_STATE;
	if (!allowed)
		return -OUTCOME_SNAT_LIMITED;
	for (i = 0; i < SNAT_TRIES_A_ROUND && i < allowed && ret == FLOW_TAKEN; i++) {
		p->to.sport = !round && !i ? snat_port_of_client(&p->tuple) :
					     snat_port_at(bpf_get_prandom_u32(), round);
		/* Where ports are scarce most tries end with the first question. */
		if (!flow_half_for_replies(p) && !snat_is_taken(ctx, p, snat_has_own_address(new)))
			ret = flow_add(p, new);
	}
	snat_count(stats, round, i);
	return ret;
}

/*
 * in    p->to without its source port; new as flow_add wants it
 * out   as flow_add, with -OUTCOME_SNAT_EXHAUSTED or -OUTCOME_SNAT_LIMITED instead of FLOW_TAKEN
 */
static __always_inline int snat_add_flow(struct packet *p, struct flow_new *new)
{
	context *ctx = p->ctx;
	int ret = FLOW_TAKEN;
	__u32 round;

	for (round = 0; round < SNAT_ROUNDS && ret == FLOW_TAKEN; round++)
		ret = snat_search(ctx, p, new, round);
	/* The verifier takes what a global function had a pointer to for plain bytes. */
	p->ctx = ctx;
	return ret == FLOW_TAKEN ? -OUTCOME_SNAT_EXHAUSTED : ret;
}

#endif
