/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sched_least_conn.h: of two random positions the one whose backend has fewer
 * connections for its weight.
 *
 * Two choices come close to the best of all (Mitzenmacher 2001) at the price of two, and
 * do not send everybody to the one that is emptiest at the moment. Counted are the
 * connected sockets of this node (sock_mark.h); no node knows the others' counts.
 *
 * maps  slots_v1, backends_v1, be_stats_v1 (read)
 */
#ifndef WAGGLE_LIB_SCHED_LEAST_CONN_H
#define WAGGLE_LIB_SCHED_LEAST_CONN_H

#include <stdbool.h>

#include "backend.h"
#include "slot.h"

/* Is the backend of slot b less busy than that of slot a? Of equals a stays: it is as random. */
static __always_inline bool less_busy(__u32 a, __u32 b)
{
	const struct backend_stats *a_stats, *b_stats;
	const struct backend *a_backend, *b_backend;
	__u64 a_live, b_live;

	a = slot_get(a);
	b = slot_get(b);
	a_backend = backend_get(a);
	b_backend = backend_get(b);
	a_stats = backend_stats_get(a);
	b_stats = backend_stats_get(b);
	if (!a_backend || !b_backend || !a_stats || !b_stats)
		return false;
	a_live = a_stats->tcp_live + a_stats->udp_live;
	b_live = b_stats->tcp_live + b_stats->udp_live;
	return b_live * a_backend->weight < a_live * b_backend->weight;
}

/* Global: the verifier looks at it once, and not with every path that leads here. */
__noinline __u32 sched_least_conn(__u32 base, __u32 count)
{
	__u32 a = bpf_get_prandom_u32() % count;
	__u32 b;

	if (count == 1)
		return a;
	/* Any of the others: with two backends both are looked at each time. */
	b = a + 1 + bpf_get_prandom_u32() % (count - 1);
	if (b >= count)
		b -= count;
	return less_busy(base + a, base + b) ? b : a;
}

#endif
