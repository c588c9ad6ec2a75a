/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * xdp_finish.h: the one exit of the XDP program: counts it and gives the verdict.
 *
 * in    what the steps returned; 0 = translated
 * out   XDP_TX or a redirect: on its way; XDP_DROP: what tc would drop without a word;
 *       XDP_PASS: everything else, unchanged
 * maps  outcomes_v1 (write)
 */
#ifndef WAGGLE_LIB_XDP_FINISH_H
#define WAGGLE_LIB_XDP_FINISH_H

#include "count.h"
#include "packet.h"
#include "refusal.h"
#include "translated.h"

/* --xdp-drop-unknown-ports */
const volatile bool cfg_drop_unknown_ports = false;

/* Refusals with an answer are tc's, which makes it. */
static __always_inline int xdp_settle(int ret)
{
	if (ret == -OUTCOME_NO_PORT && cfg_drop_unknown_ports)
		return ret;
	return ret < 0 && refusal_is_answered(ret) ? OUTCOME_LEFT_TO_TC : ret;
}

/*
 * Devices are given the frame by their number, without a devmap: one more map to keep
 * right, and the kernel sends frames in bulk either way.
 */
static __always_inline int xdp_send(const struct packet *p)
{
	if (context_store(p->ctx, 0, p->next_hop.to, 2 * ETH_ALEN))
		return XDP_DROP;
	if (p->next_hop.back)
		return XDP_TX;
	return bpf_redirect(p->egress, 0);
}

static __always_inline int xdp_finish(const struct packet *p, int ret)
{
	bool send = !ret;

	ret = send ? translated_outcome(p) : xdp_settle(ret);
	count_outcome(HOOK_XDP, ret, context_size(p->ctx));
	if (ret < 0)
		return XDP_DROP;
	return send ? xdp_send(p) : XDP_PASS;
}

#endif
