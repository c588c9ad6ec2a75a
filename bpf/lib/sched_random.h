/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sched_random.h: any position, each as likely as the others. Keeps nothing.
 */
#ifndef WAGGLE_LIB_SCHED_RANDOM_H
#define WAGGLE_LIB_SCHED_RANDOM_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static __always_inline __u32 sched_random(__u32 count)
{
	return bpf_get_prandom_u32() % count;
}

#endif
