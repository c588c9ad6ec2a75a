/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * open.h: a packet of no known flow: if it is for a frontend it opens one.
 *
 * in    p->tuple
 * out   0 with p->to, flow_flags and flow_direction set, and p->egress when the backend
 *       is on another node; a positive outcome: not ours to change; a negative one
 */
#ifndef WAGGLE_LIB_OPEN_H
#define WAGGLE_LIB_OPEN_H

#include "client.h"
#include "conntrack.h"
#include "flow.h"
#include "frontend_lookup.h"
#include "martian.h"
#include "packet.h"
#include "route.h"
#include "select.h"
#include "snat.h"
#include "source_range.h"

/*
 * The middle of a connection goes to the stack whatever its port: it may be a flow from
 * before us. Most of what passes here is no Service's traffic at all, so one look-up has
 * to do.
 */
static __always_inline int open_without_syn(const struct packet *p)
{
	return frontend_find(&p->tuple.dst, p->tuple.dport, p->tuple.proto) ? OUTCOME_UNKNOWN_FLOW :
									      OUTCOME_NOT_SERVICE;
}

/*
 * An INIT is small. In fragments it could not be given other ports: its checksum depends on its
 * length (nat_sctp.h).
 */
static __always_inline int open_in_fragments(const struct packet *p)
{
	return frontend_find(&p->tuple.dst, p->tuple.dport, p->tuple.proto) ?
		       -OUTCOME_BAD_FRAGMENT :
		       OUTCOME_NOT_SERVICE;
}

/*
 * A pod that is its own backend would be sent a packet of its own, which its stack drops:
 * it sees this node as the client, and so the answer comes back here.
 */
static __always_inline bool open_is_hairpin(const struct packet *p)
{
	return addr_equal(&p->tuple.src, &p->to.dst);
}

/*
 * Whose packet is it, and which backend does it get? A function of its own, so that its
 * variables are not on the stack beside those of the search for a source port.
 *
 * out   0 with p->to but its source, and what new has to say of service and backend
 */
static __noinline int open_choose(struct packet *p, struct flow_new *new)
{
	const struct frontend *frontend;
	const struct service *service;
	struct affinity_key client;
	struct choice choice = {};
	__u32 connection = 0;
	int ret;

	ret = frontend_lookup(&p->tuple.dst, p->tuple.dport, p->tuple.proto, &frontend);
	if (ret)
		return ret;
	/* Nobody's packet may reach what is for the node alone (CVE-2020-8558). */
	if (frontend->flags & FRONTEND_FLAG_LOOPBACK)
		return OUTCOME_NOT_SERVICE;
	if (martian_source(p))
		return -OUTCOME_MARTIAN;
	/* Before all that may refuse it: what began there goes on there. */
	if (cfg_adopt_conntrack && conntrack_translates(p->ctx, &p->tuple, p->ipv4))
		return OUTCOME_KERNEL_FLOW;
	new->service = frontend->service;
	service = service_get(new->service);
	if (!service)
		return -OUTCOME_BROKEN_STATE;
	if (source_range_binds(frontend, service) && !source_range_has(new->service, &p->tuple.src))
		return -OUTCOME_SOURCE_DENIED;
	affinity_key_from_addr(&client, &p->tuple.src);
	if (select_hashes_connection(service))
		connection = sched_maglev_packet(&p->tuple);
	ret = select_backend(new->service,
			     client_is_bound_to_node(frontend, service, &p->tuple.src), &client,
			     connection, &choice);
	if (ret) {
		if (context_has_last_word(ret))
			select_count_refused(new->service, ret);
		return ret;
	}
	if (addr_is_ipv4(&choice.addr) != p->ipv4)
		return -OUTCOME_BROKEN_STATE;
	new->backend = choice.backend;
	new->generation = choice.generation;
	p->to.dst = choice.addr;
	p->to.dport = choice.port;
	p->to.proto = p->tuple.proto;
	new->flags =
		choice.flags &BACKEND_LOCAL && !open_is_hairpin(p) ? FLOW_LOCAL_BACKEND : FLOW_SNAT;
	return OUTCOME_CONTINUE;
}

/*
 * A backend here keeps the client's address and, unless another flow's replies would
 * look the same (one client port, two frontends, one backend), its port.
 */
static __always_inline int open_to_local(struct packet *p, struct flow_new *new)
{
	context *ctx = p->ctx;
	int ret;

	p->to.src = p->tuple.src;
	p->to.sport = p->tuple.sport;
	ret = flow_add(p, new);
	/* The verifier takes what a global function had a pointer to for plain bytes. */
	p->ctx = ctx;
	if (ret != FLOW_TAKEN)
		return ret;
	new->flags |= FLOW_SNAT;
	return snat_add_flow(p, new);
}

/* A backend elsewhere, or one that is its own client, sees this node: so its replies come back
 * here. */
static __always_inline int open_to_remote(struct packet *p, struct flow_new *new)
{
	int ret;

	if (p->ipv4)
		addr_from_ipv4(&p->to.src, 0);
	ret = route_find(p);
	if (ret)
		return ret;
	ret = route_source(p, &p->to.src);
	if (ret)
		return ret;
	return snat_add_flow(p, new);
}

/* A function of its own: known flows do without what it has on the stack. */
static __noinline int flow_open(struct packet *p)
{
	struct flow_new new = {};
	int ret;

	if (packet_is_of_connection(p) && !packet_is_pure_syn(p))
		return open_without_syn(p);
	if (packet_is_sctp(p) && p->fragment)
		return open_in_fragments(p);
	ret = open_choose(p, &new);
	if (ret)
		return ret;
	new.place = flow_store_claim(p->ipv4);
	if (new.place == FLOW_PLACE_NONE)
		return -OUTCOME_FLOWS_FULL;
	ret = new.flags &FLOW_LOCAL_BACKEND ? open_to_local(p, &new) : open_to_remote(p, &new);
	if (!ret) {
		select_count_opened(new.service, new.backend);
		return OUTCOME_CONTINUE;
	}
	flow_store_give_back(new.place);
	return ret == FLOW_EXISTS ? flow_join(p) : ret;
}

#endif
