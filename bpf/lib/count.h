/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * count.h: count one way out of a program. Called by the finish functions alone, so
 * that each exit is counted once.
 *
 * maps  outcomes_v1 (write)
 */
#ifndef WAGGLE_LIB_COUNT_H
#define WAGGLE_LIB_COUNT_H

#include "../maps.h"

/* outcome is an enum outcome or its negative; bytes is 0 at the socket layer. */
static __always_inline void count_outcome(__u32 hook, int outcome, __u64 bytes)
{
	__u32 index = hook * OUTCOME_COUNT + (__u32)(outcome < 0 ? -outcome : outcome);
	struct outcome_stats *stats = bpf_map_lookup_elem(&outcomes_v1, &index);

	if (!stats)
		return;
	stats->packets++;
	stats->bytes += bytes;
}

#endif
