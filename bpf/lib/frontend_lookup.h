/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * frontend_lookup.h: is this address and port a frontend, and of which service?
 *
 * in    addr (IPv4 mapped), port in network order, proto IPPROTO_*
 * out   0 with *frontend set; OUTCOME_NOT_SERVICE; OUTCOME_HOST_PORT;
 *       -OUTCOME_NO_PORT: the address is a Service's, the port is not
 * maps  frontends4_v1, frontends6_v1 (read)
 *
 * The one place that knows that the two families have maps of their own.
 */
#ifndef WAGGLE_LIB_FRONTEND_LOOKUP_H
#define WAGGLE_LIB_FRONTEND_LOOKUP_H

#include "../maps.h"
#include "addr.h"

static __always_inline const struct frontend *frontend_find(const struct ip_addr *addr, __be16 port,
							    __u8 proto)
{
	if (addr_is_ipv4(addr)) {
		struct frontend4_key key = {.addr = addr->w[3], .port = port, .proto = proto};

		return bpf_map_lookup_elem(&frontends4_v1, &key);
	} else {
		struct frontend6_key key = {.addr = *addr, .port = port, .proto = proto};

		return bpf_map_lookup_elem(&frontends6_v1, &key);
	}
}

static __always_inline int frontend_lookup(const struct ip_addr *addr, __be16 port, __u8 proto,
					   const struct frontend **frontend)
{
	const struct frontend *found = frontend_find(addr, port, proto);

	if (found) {
		*frontend = found;
		return OUTCOME_CONTINUE;
	}
	found = frontend_find(addr, 0, 0);
	if (!found)
		return OUTCOME_NOT_SERVICE;
	if (found->flags & FRONTEND_FLAG_OWN_ADDRESS)
		return OUTCOME_HOST_PORT;
	return -OUTCOME_NO_PORT;
}

#endif
