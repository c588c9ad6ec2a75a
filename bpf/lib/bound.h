/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * bound.h: is a size one that a helper may be given?
 *
 * The verifier wants to see both bounds of a length. clang makes one comparison of the two, on
 * a copy that is one less (size - 1 < max), and verifiers up to at least 6.12 learn nothing of
 * the copy for the original: "invalid zero-sized read". Here the compiler cannot know that the
 * lower bound is one, so it has to compare twice, with the register that is passed on.
 */
#ifndef WAGGLE_LIB_BOUND_H
#define WAGGLE_LIB_BOUND_H

#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* 1 to max, also for the verifier. */
static __always_inline bool size_is_valid(__u32 *size, __u32 max)
{
	__u32 least = 1;

	asm volatile("" : "+r"(least), "+r"(*size));
	return *size >= least && *size <= max;
}

#endif
