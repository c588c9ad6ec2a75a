/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * snat_egress.h: a packet of the node's own, or one that it masquerades, is about to leave
 * with an address and port that a flow of ours has towards the same backend. Its replies
 * would go to the flow's client: it gets another port, and so does all that follows it.
 *
 * The search for a port (snat.h) asks sockets and conntrack; this is for connections that
 * begin after the flow. So of TCP a SYN is looked at and nothing else.
 *
 * maps  devices_v1, flows_v1 (read); flows through flow.h
 */
#ifndef WAGGLE_LIB_SNAT_EGRESS_H
#define WAGGLE_LIB_SNAT_EGRESS_H

#include "conntrack.h"
#include "flow.h"
#include "packet.h"
#include "snat.h"

/* Does it leave from the address that flows by this device have, from a port they may have? */
static __always_inline bool snat_egress_is_from_flows(const struct packet *p)
{
	__u32 ifindex = context_ifindex(p->ctx);
	const struct device *device;

	if (!snat_port_is_ours(p->tuple.sport))
		return false;
	device = bpf_map_lookup_elem(&devices_v1, &ifindex);
	return device && addr_equal(&p->tuple.src, p->ipv4 ? &device->addr4 : &device->addr6);
}

/*
 * A packet of the flow itself has the sign of sign.h, and does not come here. Were that
 * lost on the way, through another's program: it came by a device, and conntrack does not
 * know it.
 */
static __noinline bool snat_egress_is_stray(context *ctx, const struct packet *p)
{
	struct bpf_sock_tuple reply = {};
	__u32 size;

	if (!ctx->ingress_ifindex || !conntrack_can_be_asked())
		return false;
	size = sock_tuple_make_reply(&reply, &p->tuple, p->ipv4);
	return !conntrack_knows(ctx, &reply, size, p->tuple.proto);
}

/* Gives the packet's connection a port that no flow has. */
static __noinline int snat_egress_move(struct packet *p)
{
	struct flow_new new = {.flags = FLOW_SNAT | FLOW_OF_NODE};
	context *ctx = p->ctx;
	int of, ret;

	p->to = p->tuple;
	of = flow_half_for_replies(p);
	/* The verifier takes what a global function had a pointer to for plain bytes. */
	p->ctx = ctx;
	if (of != FLOW_REPLY || snat_egress_is_stray(ctx, p))
		return OUTCOME_NOT_SERVICE;
	new.place = flow_store_claim(p->ipv4);
	if (new.place == FLOW_PLACE_NONE)
		return -OUTCOME_FLOWS_FULL;
	ret = snat_add_flow(p, &new);
	if (ret)
		flow_store_give_back(new.place);
	return ret == FLOW_EXISTS ? flow_join(p) : ret;
}

/*
 * in    a packet of no flow that does not carry our sign
 * out   0 with p->to set: it goes on from another port; OUTCOME_NOT_SERVICE; as snat_add_flow
 */
static __always_inline int snat_egress(struct packet *p)
{
	if (packet_is_later_fragment(p) || (packet_is_of_connection(p) && !packet_is_pure_syn(p)))
		return OUTCOME_NOT_SERVICE;
	return snat_egress_is_from_flows(p) ? snat_egress_move(p) : OUTCOME_NOT_SERVICE;
}

#endif
