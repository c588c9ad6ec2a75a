/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * source_range.h: is this address in one of a service's source ranges?
 *
 * loadBalancerSourceRanges bind load-balancer frontends alone, whoever dials them, as in
 * kube-proxy: the same service's node ports and external IPs stay open. Services without
 * ranges pay nothing, those with pay one look-up for each new flow.
 *
 * maps  src_ranges_v1 (read)
 */
#ifndef WAGGLE_LIB_SOURCE_RANGE_H
#define WAGGLE_LIB_SOURCE_RANGE_H

#include <stdbool.h>

#include "../maps.h"

/* Instead of a service's index: the pod networks of the cluster. */
#define SOURCE_RANGE_PODS 0

static __always_inline bool source_range_has(__u32 service, const struct ip_addr *addr)
{
	struct source_range_key key = {
		.prefix = 8 * (sizeof(key) - sizeof(key.prefix)),
		.service = service,
		.addr = *addr,
	};

	return bpf_map_lookup_elem(&src_ranges_v1, &key);
}

/* Do source ranges bind whoever dials this frontend? */
static __always_inline bool source_range_binds(const struct frontend *frontend,
					       const struct service *service)
{
	return frontend->kind == FRONTEND_LOAD_BALANCER && service->flags & SERVICE_SOURCE_RANGES;
}

#endif
