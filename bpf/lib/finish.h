/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * finish.h: the one exit of a tc program: counts it and gives the verdict.
 *
 * TC_ACT_UNSPEC and TCX_NEXT are the same number: the next program of the chain, or the
 * next filter of clsact, sees the packet, and the stack when there is none.
 *
 * maps  outcomes_v1 (write)
 */
#ifndef WAGGLE_LIB_FINISH_H
#define WAGGLE_LIB_FINISH_H

#include <linux/pkt_cls.h>

#include "count.h"
#include "packet.h"
#include "sign.h"
#include "translated.h"

/*
 * Sends the packet to the next hop. A priority tag (VLAN 0) was for the link it came by; a
 * packet without Ethernet header gets room for one, which bpf_redirect_neigh insists on.
 */
static __always_inline int finish_redirect(struct packet *p)
{
	if (p->ctx->vlan_present)
		bpf_skb_vlan_pop(p->ctx);
	if (!p->l2 && bpf_skb_change_head(p->ctx, ETH_HLEN, 0))
		return TC_ACT_SHOT;
	sign_set(p->ctx);
	return bpf_redirect_neigh(p->egress, &p->next_hop, sizeof(p->next_hop), 0);
}

/* ret 0 = translated. What is not dropped leaves by p->egress if that is set: translated, or made
 * by us. */
static __always_inline int finish(struct packet *p, __u32 hook, int ret)
{
	if (!ret)
		ret = translated_outcome(p);
	count_outcome(hook, ret, p->ctx->len);
	if (ret < 0)
		return TC_ACT_SHOT;
	if (p->egress)
		return finish_redirect(p);
	return TC_ACT_UNSPEC;
}

#endif
