/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * translated.h: what a packet whose flow is known and which was translated is called.
 */
#ifndef WAGGLE_LIB_TRANSLATED_H
#define WAGGLE_LIB_TRANSLATED_H

#include "packet.h"

static __always_inline enum outcome translated_outcome(const struct packet *p)
{
	if (p->flow_direction == FLOW_REPLY)
		return OUTCOME_REPLIED;
	if (p->flow_flags & FLOW_OF_NODE)
		return OUTCOME_PORT_MOVED;
	return p->flow_flags & FLOW_LOCAL_BACKEND ? OUTCOME_DELIVERED : OUTCOME_FORWARDED;
}

#endif
