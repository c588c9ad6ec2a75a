/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * tc.bpf.c: Service traffic that arrives as packets, at the node's uplinks. The same
 * object serves tcx and clsact.
 *
 * A backend on this node gets the packet through the stack, its destination translated,
 * and the reply is translated back at egress. A packet for a backend elsewhere is
 * translated at both ends and redirected, and so is its reply, at ingress: conntrack
 * sees all of a flow or nothing of it.
 */
#include "lib/finish.h"
#include "lib/flow.h"
#include "lib/nat.h"
#include "lib/open.h"
#include "lib/parse.h"
#include "lib/route.h"

SEC("tc")
int waggle_ingress(struct __sk_buff *skb)
{
	struct packet p;
	int ret;

	ret = packet_parse(&p, skb);
	if (!ret)
		ret = packet_check_receiver(&p);
	if (!ret)
		ret = flow_find(&p, FLOW_SIDE_INGRESS);
	if (ret == FLOW_NONE)
		ret = flow_open(&p);
	if (!ret && !(p.flow_flags & FLOW_LOCAL_BACKEND) && !p.egress)
		ret = route_find(&p);
	if (!ret)
		ret = nat_apply(&p);
	return finish(&p, HOOK_TC_INGRESS, ret);
}

SEC("tc")
int waggle_egress(struct __sk_buff *skb)
{
	struct packet p;
	int ret;

	ret = packet_parse(&p, skb);
	if (!ret)
		ret = flow_find(&p, FLOW_SIDE_EGRESS);
	if (ret == FLOW_NONE)
		ret = OUTCOME_NOT_SERVICE;
	if (!ret)
		ret = nat_apply(&p);
	return finish(&p, HOOK_TC_EGRESS, ret);
}

char _license[] SEC("license") = "GPL";
