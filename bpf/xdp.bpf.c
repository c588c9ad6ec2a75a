/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * xdp.bpf.c: the part of tc.bpf.c's work that can be done before there is an skb: packets
 * to backends on other nodes, their replies, and drops.
 *
 * The steps are tc's, and so are the flows: a flow may go on at the other hook in its
 * middle. Whatever is not plain passes unchanged, and tc sees it next.
 */
#include "lib/context_xdp.h"

#include "lib/filter.h"
#include "lib/flow.h"
#include "lib/nat.h"
#include "lib/open.h"
#include "lib/parse.h"
#include "lib/route.h"
#include "lib/route_recent.h"
#include "lib/xdp_finish.h"
#include "lib/xdp_leave.h"

/*
 * As in tc.bpf.c. What goes through the stack is tc's; a flow to a backend here is opened all the
 * same.
 */
static __noinline int translate(struct packet *p, int ret)
{
	if (ret == FLOW_NONE)
		ret = flow_find(p, FLOW_SIDE_INGRESS);
	if (ret == FLOW_NONE)
		return FLOW_NONE;
	if (!ret && flow_is_of_stack(p->flow_flags))
		ret = OUTCOME_LEFT_TO_TC;
	if (!ret && !p->egress)
		ret = route_find_again(p);
	if (!ret)
		ret = xdp_leave(p);
	if (!ret)
		ret = nat_apply(p);
	return ret;
}

static __always_inline int serve(struct xdp_md *ctx)
{
	struct packet p;
	int ret;

	ret = packet_parse(&p, ctx, ETH_HLEN);
	if (ret || !xdp_is_plain(&p))
		return xdp_finish(&p, OUTCOME_NOT_HANDLED);
	if (!filter_passes_ingress(&p.tuple))
		return xdp_finish(&p, OUTCOME_NOT_SERVICE);
	if (!xdp_is_for_host(ctx))
		return xdp_finish(&p, OUTCOME_NOT_HANDLED);
	ret = translate(&p, FLOW_NONE);
	if (ret == FLOW_NONE)
		ret = translate(&p, flow_open(&p));
	return xdp_finish(&p, ret);
}

/* In the driver. It may hand on frames of several buffers, which large MTUs need. */
SEC("xdp.frags")
int waggle_xdp(struct xdp_md *ctx)
{
	return serve(ctx);
}

/*
 * Behind the driver. For a program that takes several buffers generic XDP copies the skb and
 * forgets the length of its Ethernet header (Linux 6.9 to 6.18 at least): tc would then find
 * the IP header where it is not.
 */
SEC("xdp")
int waggle_xdp_skb(struct xdp_md *ctx)
{
	return serve(ctx);
}

char _license[] SEC("license") = "GPL";
