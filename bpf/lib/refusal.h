/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * refusal.h: which packets that cannot be served are answered, so that their sender knows
 * at once?
 *
 * A port that no Service has and a Service without backends, and, as every router answers
 * them, a TTL that is used up and a packet too large for its route. Nobody answers for
 * externalTrafficPolicy: Local without a backend here: a load balancer has to see a node
 * that is silent.
 */
#ifndef WAGGLE_LIB_REFUSAL_H
#define WAGGLE_LIB_REFUSAL_H

#include <stdbool.h>

#include "../layout/outcome.h"

/* in    a negative outcome */
static __always_inline bool refusal_is_answered(int refusal)
{
	return refusal == -OUTCOME_NO_PORT || refusal == -OUTCOME_NO_BACKEND ||
	       refusal == -OUTCOME_TTL_EXCEEDED || refusal == -OUTCOME_TOO_BIG;
}

#endif
