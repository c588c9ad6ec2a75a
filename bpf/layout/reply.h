/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * reply.h: what a CPU needs to answer packets itself.
 */
#ifndef WAGGLE_LAYOUT_REPLY_H
#define WAGGLE_LAYOUT_REPLY_H

#include <linux/types.h>

struct reply_state {
	__u64 due_ns;	 /* CLOCK_MONOTONIC: when all resets and errors so far are paid for */
	__u32 words[64]; /* scratch: headers are made and checksums summed here, the stack is too
			    small */
};

#endif
