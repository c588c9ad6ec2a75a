/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * defect.h: is a packet with something wrong about it a Service's? Then it is dropped,
 * with its reason; other people's are none of our business.
 *
 * maps  frontends4_v1, frontends6_v1 (read); flows through the store
 */
#ifndef WAGGLE_LIB_DEFECT_H
#define WAGGLE_LIB_DEFECT_H

#include "flow_store_hash.h"
#include "frontend_lookup.h"
#include "packet.h"

/*
 * in    ret: 0, the packet was read to its ports; else why not
 * out   -p->defect; OUTCOME_NOT_SERVICE; ret
 *
 * Where the ports could not be read the address decides; one that is the node's own, too,
 * is left to the stack, which drops what is broken.
 */
static __noinline int defect_judge(const struct packet *p, int ret)
{
	const struct frontend *address;

	if (ret && ret != p->defect)
		return ret;
	if (!ret && (flow_store_has(&p->tuple) ||
		     frontend_find(&p->tuple.dst, p->tuple.dport, p->tuple.proto)))
		return -p->defect;
	address = frontend_find(&p->tuple.dst, 0, 0);
	if (address && !(address->flags & FRONTEND_FLAG_OWN_ADDRESS))
		return -p->defect;
	return ret ?: OUTCOME_NOT_SERVICE;
}

#endif
