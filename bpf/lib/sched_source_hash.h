/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sched_source_hash.h: one client, one hash, one position. The list is a Maglev table (see
 * sched_maglev.h), so of the clients only those of a backend that goes choose anew.
 *
 * A client is a source address in packets and a network namespace at the socket layer,
 * as for affinity; nothing is remembered and nothing times out.
 */
#ifndef WAGGLE_LIB_SCHED_SOURCE_HASH_H
#define WAGGLE_LIB_SCHED_SOURCE_HASH_H

#include "../layout/flow.h"
#include "hash.h"

static __always_inline __u32 sched_source_hash(const struct affinity_key *client)
{
	__u32 hash = 0;
	int i;

#pragma unroll
	for (i = 0; i < 4; i++)
		hash = hash_add(hash, client->client.w[i]);
	return hash_end(hash);
}

#endif
