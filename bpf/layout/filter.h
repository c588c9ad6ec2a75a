/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * filter.h: which addresses and ports may be ours (lib/filter.h).
 */
#ifndef WAGGLE_LAYOUT_FILTER_H
#define WAGGLE_LAYOUT_FILTER_H

#include <linux/types.h>

/* 2^20 bits in 128 KiB: few enough to stay in a core's cache, and with 65,536 flows one of 16 is
 * set. */
#define FILTER_WORDS 16384

/*
 * The one value of filter. A set bit says that something with this hash may be ours. The
 * control plane alone writes `agent`; the programs alone set bits of `flows`, in both halves
 * at once. Of these the control plane clears the one that is not current, and then makes it
 * current (src/dataplane/ebpf/filter.ts).
 */
struct filter {
	__u64 agent[FILTER_WORDS];     /* every frontend, and flows from before a clearing */
	__u64 flows[2 * FILTER_WORDS]; /* two halves: every flow since it was cleared */
	__u64 current; /* half of flows, 1 or 2; 0 = neither is whole: everything may be ours */
};

_Static_assert(sizeof(struct filter) == 3 * FILTER_WORDS * 8 + 8, "filter has no holes");

#endif
