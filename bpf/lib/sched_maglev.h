/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sched_maglev.h: one connection, one hash, one position, on every node.
 *
 * The list is a table that the control plane fills by the Maglev method (Eisenbud et al.,
 * NSDI 2016, 3.4): every node with the same backends has the same table, and when a
 * backend comes or goes nearly all other slots stay as they were. So a packet that
 * reaches another node, or one whose flow was forgotten, still goes to its backend.
 */
#ifndef WAGGLE_LIB_SCHED_MAGLEV_H
#define WAGGLE_LIB_SCHED_MAGLEV_H

#include "../layout/flow.h"
#include "hash.h"

/* What a packet's connection is known by: addresses, ports and protocol. */
static __always_inline __u32 sched_maglev_packet(const struct tuple *t)
{
	__u32 hash = 0;
	int i;

#pragma unroll
	for (i = 0; i < 4; i++) {
		hash = hash_add(hash, t->src.w[i]);
		hash = hash_add(hash, t->dst.w[i]);
	}
	hash = hash_add(hash, (__u32)t->sport << 16 | t->dport);
	return hash_end(hash_add(hash, t->proto));
}

/*
 * A socket has no port yet when it connects: its cookie stands for the connection. No
 * other node sees the socket, so only this one has to choose alike.
 */
static __always_inline __u32 sched_maglev_socket(__u64 cookie)
{
	return hash_end(hash_add(hash_add(0, (__u32)cookie), cookie >> 32));
}

#endif
