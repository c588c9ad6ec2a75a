/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * affinity.h: which backend did this client of this service have last?
 *
 * A client is a network namespace at the socket layer (a pod is one, the host another)
 * and a source address in packets; the caller makes the key. An affinity ends when it
 * was not used for the service's timeout, or when its backend left the list in use.
 *
 * maps  affinity_v1 (read, write)
 */
#ifndef WAGGLE_LIB_AFFINITY_H
#define WAGGLE_LIB_AFFINITY_H

#include "../maps.h"
#include "backend.h"
#include "clock.h"

static __always_inline void affinity_key_from_cookie(struct affinity_key *key, __u64 cookie)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->client.w[0] = (__be32)(cookie >> 32);
	key->client.w[1] = (__be32)cookie;
	key->by_cookie = 1;
}

static __always_inline void affinity_key_from_addr(struct affinity_key *key,
						   const struct ip_addr *client)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->client = *client;
}

/* The backend index that the client had, or 0. list is the BACKEND_IN_* bit it must still have. */
static __always_inline __u32 affinity_find(const struct affinity_key *key, __u32 timeout_s,
					   __u8 list)
{
	struct affinity *last = bpf_map_lookup_elem(&affinity_v1, key);
	__u64 now = bpf_ktime_get_ns();
	const struct backend *backend;

	if (!last || now - last->seen_ns >= (__u64)timeout_s * NSEC_PER_SEC)
		return 0;
	backend = backend_get(last->backend);
	if (!backend || backend->generation != last->generation || !(backend->flags & list))
		return 0;
	last->seen_ns = now;
	return last->backend;
}

static __always_inline void affinity_remember(const struct affinity_key *key, __u32 index,
					      __u32 generation)
{
	struct affinity value = {
		.seen_ns = bpf_ktime_get_ns(),
		.backend = index,
		.generation = generation,
	};

	bpf_map_update_elem(&affinity_v1, key, &value, BPF_ANY);
}

#endif
