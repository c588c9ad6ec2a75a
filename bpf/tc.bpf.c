/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * tc.bpf.c: Service traffic that arrives as packets, at the node's uplinks. The same
 * object serves tcx and clsact.
 *
 * A backend on this node gets the packet through the stack, its destination translated,
 * and the reply is translated back at egress. A packet for a backend elsewhere is
 * translated at both ends and redirected, and so is its reply, at ingress: conntrack
 * sees all of a flow or nothing of it.
 *
 * Each program is there twice: for devices with Ethernet headers and (_l3) for those
 * without, such as tun, WireGuard and IP-in-IP. The offset of the IP header is a constant
 * of the program, so that no packet pays for the question.
 */
#include "lib/context_skb.h"

#include "lib/defect.h"
#include "lib/filter.h"
#include "lib/finish.h"
#include "lib/flow.h"
#include "lib/fragment.h"
#include "lib/fragment_hold.h"
#include "lib/icmp_receive.h"
#include "lib/nat.h"
#include "lib/open.h"
#include "lib/parse.h"
#include "lib/reject.h"
#include "lib/route.h"
#include "lib/route_recent.h"
#include "lib/sign.h"
#include "lib/snat_egress.h"

/*
 * What becomes of a TCP or UDP packet. A function of its own, so that its variables and
 * those of what opens flows and answers packets are not on the stack together.
 *
 * in    ret: what flow_open or the filter said; FLOW_NONE: nobody has looked for a flow yet
 * out   an outcome; FLOW_NONE: there is none, so one may be opened
 */
static __noinline int translate(struct packet *p, int ret)
{
	if (ret == FLOW_NONE)
		ret = flow_find(p, FLOW_SIDE_INGRESS);
	if (ret == FLOW_NONE) {
		if (!packet_is_later_fragment(p))
			return FLOW_NONE;
		ret = -OUTCOME_FRAGMENT;
	}
	if (packet_is_first_fragment(p))
		ret = fragment_settle(p, ret);
	if (!ret && !flow_is_of_stack(p->flow_flags) && !p->egress)
		ret = route_find_again(p);
	if (!ret)
		ret = nat_apply(p);
	return ret;
}

/* Is it worth while to look for a flow? A later fragment has been found to be one's. */
static __always_inline int flow_or_not(const struct packet *p)
{
	return packet_is_later_fragment(p) || filter_passes_ingress(&p->tuple) ?
		       FLOW_NONE :
		       OUTCOME_NOT_SERVICE;
}

static __always_inline int ingress(struct __sk_buff *skb, __u32 l2)
{
	struct packet p;
	int ret;

	sign_take_away(skb);
	ret = packet_parse(&p, skb, l2);
	/* Whatever is wrong with it: whom it is for may know better. */
	if (!context_is_for_host(skb))
		return finish(&p, HOOK_TC_INGRESS, ret ?: OUTCOME_NOT_HANDLED);
	if (!ret && packet_is_later_fragment(&p))
		ret = fragment_find_or_hold(&p);
	if (p.defect)
		return finish(&p, HOOK_TC_INGRESS, defect_judge(&p, ret));
	if (!ret)
		ret = packet_is_icmp(&p) ? icmp_receive(&p, FLOW_SIDE_INGRESS) :
					   translate(&p, flow_or_not(&p));
	if (ret == FLOW_NONE)
		ret = translate(&p, flow_open(&p));
	if (ret < 0)
		ret = reject(&p, ret);
	return finish(&p, HOOK_TC_INGRESS, ret);
}

static __always_inline int egress(struct __sk_buff *skb, __u32 l2)
{
	struct packet p;
	int ret;

	ret = packet_parse(&p, skb, l2);
	if (!ret && sign_is_set(skb))
		ret = OUTCOME_NOT_SERVICE;
	if (!ret && packet_is_later_fragment(&p))
		ret = fragment_find(&p);
	if (p.defect)
		return finish(&p, HOOK_TC_EGRESS, defect_judge(&p, ret));
	if (!ret && packet_is_icmp(&p))
		ret = icmp_receive(&p, FLOW_SIDE_EGRESS);
	else if (!ret)
		ret = filter_passes_egress(&p.tuple) ? flow_find(&p, FLOW_SIDE_EGRESS) :
						       OUTCOME_NOT_SERVICE;
	if (ret == FLOW_NONE)
		ret = snat_egress(&p);
	if (!ret && packet_is_first_fragment(&p))
		fragment_remember(&p, false);
	if (!ret)
		ret = nat_apply(&p);
	return finish(&p, HOOK_TC_EGRESS, ret);
}

SEC("tc")
int waggle_ingress(struct __sk_buff *skb)
{
	return ingress(skb, ETH_HLEN);
}

SEC("tc")
int waggle_egress(struct __sk_buff *skb)
{
	return egress(skb, ETH_HLEN);
}

SEC("tc")
int waggle_in_l3(struct __sk_buff *skb)
{
	return ingress(skb, 0);
}

SEC("tc")
int waggle_out_l3(struct __sk_buff *skb)
{
	return egress(skb, 0);
}

char _license[] SEC("license") = "GPL";
