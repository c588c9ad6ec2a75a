/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_finish.h: the exits of the socket programs: count, then the verdict.
 *
 * in    enum hook, and what the steps returned
 * out   the value to return to the kernel
 */
#ifndef WAGGLE_LIB_SOCK_FINISH_H
#define WAGGLE_LIB_SOCK_FINISH_H

#include <stdbool.h>
#include <asm/errno.h>
#include <bpf/bpf_helpers.h>

#include "count.h"

enum sock_verdict {
	SOCK_REFUSE = 0,
	SOCK_PASS = 1,
};

/* A frontend that cannot serve. Broken state is not refused: it may be somebody else's address. */
static __always_inline bool request_is_refused(int ret)
{
	return ret == -OUTCOME_NO_PORT || ret == -OUTCOME_NO_BACKEND ||
	       ret == -OUTCOME_NO_LOCAL_BACKEND || ret == -OUTCOME_SOURCE_DENIED;
}

/*
 * connect and sendmsg: the caller sees what a host without such a port answers, at once,
 * and whoever is not let in what a firewall of the node would answer (EPERM).
 */
static __always_inline int finish_request(enum hook hook, int ret)
{
	count_outcome(hook, ret, 0);
	if (!request_is_refused(ret))
		return SOCK_PASS;
	bpf_set_retval(ret == -OUTCOME_SOURCE_DENIED ? -EPERM : -ECONNREFUSED);
	return SOCK_REFUSE;
}

/* recvmsg and getpeername: the verifier allows nothing but to pass. */
static __always_inline int finish_report(enum hook hook, int ret)
{
	count_outcome(hook, ret, 0);
	return SOCK_PASS;
}

/* A datagram on its way out; the sender of a refused one gets EPERM. */
static __always_inline int finish_datagram(int ret)
{
	count_outcome(HOOK_SOCK_EGRESS, ret, 0);
	return ret == -OUTCOME_STALE_SOCKET ? SOCK_REFUSE : SOCK_PASS;
}

#endif
