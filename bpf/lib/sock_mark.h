/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_mark.h: the mark on a connected socket, and the count of the sockets that are
 * connected to a backend, UDP and TCP apart: UDP ones are ended when it goes, and both
 * are its load (sched_least_conn.h).
 *
 * maps  sock_conn_v1 (read, write), be_stats_v1 (write)
 *
 * A mark may outlive its meaning: connect(AF_UNSPEC) runs no hook, sendto() on a
 * connected socket goes elsewhere, and a connect() may still fail after ours. Whoever
 * acts on a mark compares its backend with the address at hand. The kernel holds the
 * socket's lock around the hooks, so a mark is never changed twice at a time.
 */
#ifndef WAGGLE_LIB_SOCK_MARK_H
#define WAGGLE_LIB_SOCK_MARK_H

#include "sock_peer.h"

static __always_inline __u64 *sock_mark_counter(const struct sock_peer *mark)
{
	struct backend_stats *stats = backend_stats_get(mark->backend);

	if (!stats)
		return NULL;
	return mark->proto == IPPROTO_UDP ? &stats->udp_live : &stats->tcp_live;
}

/* Lowers the live count that the mark once raised. */
static __always_inline void sock_mark_uncount(struct sock_peer *mark)
{
	__u64 *live;

	if (!mark->counted)
		return;
	live = sock_mark_counter(mark);
	if (live)
		__sync_fetch_and_sub(live, 1);
	mark->counted = 0;
}

static __always_inline void sock_mark_count(struct sock_peer *mark)
{
	__u64 *live = sock_mark_counter(mark);

	if (!live)
		return;
	__sync_fetch_and_add(live, 1);
	mark->counted = 1;
}

/* Without memory for a mark the socket is connected all the same, only unmarked and uncounted. */
static __always_inline void sock_mark_set(struct bpf_sock *sk, const struct sock_call *call,
					  __u32 service, const struct choice *choice)
{
	struct sock_peer *mark =
		bpf_sk_storage_get(&sock_conn_v1, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!mark)
		return;
	sock_mark_uncount(mark);
	sock_peer_make(mark, call, service, choice);
	sock_mark_count(mark);
}

/* The socket connects to something that is no frontend. */
static __always_inline void sock_mark_remove(struct bpf_sock *sk)
{
	struct sock_peer *mark = bpf_sk_storage_get(&sock_conn_v1, sk, NULL, 0);

	if (!mark)
		return;
	sock_mark_uncount(mark);
	bpf_sk_storage_delete(&sock_conn_v1, sk);
}

/* The socket is closed for the last time; its mark is freed with it. */
static __always_inline void sock_mark_release(struct bpf_sock *sk)
{
	struct sock_peer *mark = bpf_sk_storage_get(&sock_conn_v1, sk, NULL, 0);

	if (mark)
		sock_mark_uncount(mark);
}

/* The mark, when it is about the address in the call. */
static __always_inline const struct sock_peer *sock_mark_find(struct bpf_sock *sk,
							      const struct sock_call *call)
{
	const struct sock_peer *mark = bpf_sk_storage_get(&sock_conn_v1, sk, NULL, 0);

	return mark && sock_peer_has_backend(mark, call) ? mark : NULL;
}

#endif
