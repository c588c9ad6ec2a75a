/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * client.h: whose packet is this, and which of a service's two lists is its client bound to?
 *
 * A packet that arrives at an uplink is another node's pod's, when its source is in the
 * cluster's pod networks, or an outside client's. This node's own clients begin at a
 * socket and never come here. A process of another node's host network is an outside
 * client: its node has judged it as its own, if it was a frontend there.
 *
 * maps  src_ranges_v1 (read)
 */
#ifndef WAGGLE_LIB_CLIENT_H
#define WAGGLE_LIB_CLIENT_H

#include "source_range.h"

static __always_inline bool client_is_pod(const struct ip_addr *addr)
{
	return source_range_has(SOURCE_RANGE_PODS, addr);
}

/*
 * Does a traffic policy bind this client to backends on this node? The external one
 * binds outside clients only: a pod's packet has come in as if by a load balancer.
 */
static __always_inline bool client_is_bound_to_node(const struct frontend *frontend,
						    const struct service *service,
						    const struct ip_addr *addr)
{
	if (frontend->kind == FRONTEND_CLUSTER_IP)
		return service->flags & SERVICE_INTERNAL_LOCAL;
	return service->flags & SERVICE_EXTERNAL_LOCAL && !client_is_pod(addr);
}

#endif
