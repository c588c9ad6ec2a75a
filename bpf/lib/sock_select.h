/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_select.h: which backend does a client on this node get?
 *
 * in    ctx for the client's network namespace and address, whether its hook is an IPv6
 *       one, the frontend it dialled
 * out   as select.h; -OUTCOME_SOURCE_DENIED; OUTCOME_NOT_SERVICE: a loopback address, and
 *       not the node's
 *
 * Whoever owns a socket here is a pod or the host, never an outside client. So
 * externalTrafficPolicy does not bind it: an external address, a load-balancer address
 * and a node port are short-cut to all backends, as kube-proxy does.
 * internalTrafficPolicy binds the cluster address alone.
 */
#ifndef WAGGLE_LIB_SOCK_SELECT_H
#define WAGGLE_LIB_SOCK_SELECT_H

#include "select.h"
#include "sock_client.h"

static __always_inline int sock_select(struct bpf_sock_addr *ctx, bool ipv6,
				       const struct frontend *frontend, struct choice *choice)
{
	const struct service *service = service_get(frontend->service);
	struct affinity_key client;
	__u32 connection = 0;
	bool local;
	int ret;

	if (frontend->flags & FRONTEND_FLAG_LOOPBACK && !sock_client_is_node(ctx))
		return OUTCOME_NOT_SERVICE;
	if (!service)
		return -OUTCOME_BROKEN_STATE;
	if (source_range_binds(frontend, service) &&
	    !sock_client_is_let_in(ctx, ipv6, frontend->service, service))
		return -OUTCOME_SOURCE_DENIED;
	local = frontend->kind == FRONTEND_CLUSTER_IP && service->flags & SERVICE_INTERNAL_LOCAL;
	affinity_key_from_cookie(&client, bpf_get_netns_cookie(ctx));
	if (select_hashes_connection(service))
		connection = sched_maglev_socket(bpf_get_socket_cookie(ctx));
	ret = select_backend(frontend->service, local, &client, connection, choice);
	if (ret)
		select_count_refused(frontend->service, ret);
	else
		select_count_opened(frontend->service, choice->backend);
	return ret;
}

#endif
