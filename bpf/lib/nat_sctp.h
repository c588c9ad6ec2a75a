/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * nat_sctp.h: the ports of an SCTP packet, and its checksum, which covers them but no address:
 * where only addresses change there is nothing to do.
 *
 * in    p->tuple, p->to
 * out   0; -OUTCOME_BAD_FRAGMENT: the change depends on the length of the whole packet, which
 *       its first fragment does not tell; -OUTCOME_REWRITE_FAILED
 */
#ifndef WAGGLE_LIB_NAT_SCTP_H
#define WAGGLE_LIB_NAT_SCTP_H

#include "crc32c.h"
#include "csum.h"
#include "packet.h"
#include "parse_transport.h"

/* Changes the checksum by what the change of the ports makes of it: a wrong one stays wrong. */
static __noinline int nat_sctp(struct packet *p)
{
	__u32 at = p->l4 + offsetof(struct sctp_packet, check);
	__u32 old_ports, new_ports, check, changed;

	__builtin_memcpy(&old_ports, &p->tuple.sport, sizeof(old_ports));
	__builtin_memcpy(&new_ports, &p->to.sport, sizeof(new_ports));
	if (old_ports == new_ports)
		return OUTCOME_CONTINUE;
	if (p->fragment)
		return -OUTCOME_BAD_FRAGMENT;
	if (context_load(p->ctx, at, &check, sizeof(check)))
		return -OUTCOME_REWRITE_FAILED;
	changed = check;
	/* What the device is to sum up is zero until then. */
	if (check || !context_sum_is_unfinished(p->ctx, at))
		changed ^= crc32c_carry(old_ports ^ new_ports, p->end - p->l4);
	/* One register for the check and the use: Linux 6.1 does not know them for one on the
	 * stack. */
	asm volatile("" : "+r"(at));
	if (context_store(p->ctx, at, &changed, sizeof(changed)) ||
	    context_store(p->ctx, p->l4, &new_ports, sizeof(new_ports)))
		return -OUTCOME_REWRITE_FAILED;
	if (!p->egress)
		context_update_complete_sum(p->ctx, csum_add(csum_add(~old_ports, new_ports),
							     csum_add(~check, changed)));
	return OUTCOME_CONTINUE;
}

#endif
