/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * clock.h: what time is it, to the tick of the timer?
 *
 * Once a packet this counts: bpf_ktime_get_ns takes 35 ns (6.18 in a VM), a third of
 * all that is done to a packet of a known flow, and the coarse clock 3.
 */
#ifndef WAGGLE_LIB_CLOCK_H
#define WAGGLE_LIB_CLOCK_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define NSEC_PER_SEC 1000000000ULL

/* CLOCK_MONOTONIC in nanoseconds, up to a tick (10 ms at most) behind. */
static __always_inline __u64 clock_coarse_ns(void)
{
	return bpf_ktime_get_coarse_ns();
}

#endif
