/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sched_rr.h: the next position. Each CPU counts by itself, so no cache line is shared:
 * n flows differ from even by one a CPU.
 */
#ifndef WAGGLE_LIB_SCHED_RR_H
#define WAGGLE_LIB_SCHED_RR_H

#include "../maps.h"

static __always_inline __u32 sched_rr(struct service_stats *stats, __u32 count)
{
	return stats->rr_cursor++ % count;
}

#endif
