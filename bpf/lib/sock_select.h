/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_select.h: which backend does a client on this node get?
 *
 * in    ctx for the client's network namespace, the frontend it dialled
 * out   as select.h
 *
 * Whoever owns a socket here is a pod or the host, never an outside client. So
 * externalTrafficPolicy does not bind it: an external address, a load-balancer address
 * and a node port are short-cut to all backends, as kube-proxy does.
 * internalTrafficPolicy binds the cluster address alone.
 */
#ifndef WAGGLE_LIB_SOCK_SELECT_H
#define WAGGLE_LIB_SOCK_SELECT_H

#include "select.h"

static __always_inline int sock_select(struct bpf_sock_addr *ctx, const struct frontend *frontend,
				       struct choice *choice)
{
	const struct service *service = service_get(frontend->service);
	struct affinity_key client;
	bool local;

	if (!service)
		return -OUTCOME_BROKEN_STATE;
	local = frontend->kind == FRONTEND_CLUSTER_IP && service->flags & SERVICE_INTERNAL_LOCAL;
	affinity_key_from_cookie(&client, bpf_get_netns_cookie(ctx));
	return select_backend(frontend->service, local, &client, choice);
}

#endif
