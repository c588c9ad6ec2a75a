/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_mark.h: the mark on a connected socket, and the count of the sockets that are
 * connected to a backend, UDP and TCP apart: UDP ones are ended when it goes, and both
 * are its load (sched_least_conn.h).
 *
 * maps  sock_places_v1, sock_conn_v1 (read, write; sock_place.h), be_stats_v1 (write)
 *
 * A mark may outlive its meaning: connect(AF_UNSPEC) runs no hook, sendto() on a
 * connected socket goes elsewhere, and a connect() may still fail after ours. Whoever
 * acts on a mark compares its backend with the address at hand. The kernel holds the
 * socket's lock around the hooks, so a mark is never changed twice at a time.
 */
#ifndef WAGGLE_LIB_SOCK_MARK_H
#define WAGGLE_LIB_SOCK_MARK_H

#include "sock_owner.h"
#include "sock_peer.h"
#include "sock_place.h"

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

/* An empty mark for a socket that has none: in its place if that is free. */
static __always_inline struct sock_peer *sock_mark_make(struct bpf_sock *sk, __u64 cookie,
							bool released)
{
	struct sock_place *place = sock_place_of(cookie);

	/* Two sockets of one place may connect at the same time. */
	if (released && sock_place_is_held(place, 0) &&
	    __sync_val_compare_and_swap(&place->cookie, 0, cookie) == 0)
		return &place->mark;
	return bpf_sk_storage_get(&sock_conn_v1, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/*
 * Without memory for a mark the socket is connected all the same, only unmarked and
 * uncounted. A socket that nobody releases must not take what is given back by its release.
 */
static __always_inline void sock_mark_set(struct bpf_sock *sk, __u64 cookie,
					  const struct sock_call *call, __u32 service,
					  const struct choice *choice)
{
	struct sock_peer *mark = sock_place_find(sk, cookie);
	bool released = !sock_owner_is_kernel(sk);

	if (!mark)
		mark = sock_mark_make(sk, cookie, released);
	if (!mark)
		return;
	sock_mark_uncount(mark);
	sock_peer_make(mark, call, service, choice);
	if (released)
		sock_mark_count(mark);
}

/* Takes the mark off its place; NULL, or the mark in the socket's storage. */
static __always_inline struct sock_peer *sock_mark_take(struct bpf_sock *sk, __u64 cookie)
{
	struct sock_place *place = sock_place_of(cookie);

	if (!sock_place_is_held(place, cookie))
		return bpf_sk_storage_get(&sock_conn_v1, sk, NULL, 0);
	sock_mark_uncount(&place->mark);
	__builtin_memset(&place->mark, 0, sizeof(place->mark));
	/* No plain store: who finds the place free must find it empty. */
	__sync_lock_test_and_set(&place->cookie, 0);
	return NULL;
}

/* The socket connects to something that is no frontend. */
static __always_inline void sock_mark_remove(struct bpf_sock *sk, __u64 cookie)
{
	struct sock_peer *mark = sock_mark_take(sk, cookie);

	if (!mark)
		return;
	sock_mark_uncount(mark);
	bpf_sk_storage_delete(&sock_conn_v1, sk);
}

/* The socket is closed for the last time; its storage is freed with it. */
static __always_inline void sock_mark_release(struct bpf_sock *sk, __u64 cookie)
{
	struct sock_peer *mark = sock_mark_take(sk, cookie);

	if (mark)
		sock_mark_uncount(mark);
}

/* The mark, when it is about the address in the call. */
static __always_inline const struct sock_peer *sock_mark_find(struct bpf_sock *sk, __u64 cookie,
							      const struct sock_call *call)
{
	const struct sock_peer *mark = sock_place_find(sk, cookie);

	return mark && sock_peer_has_backend(mark, call) ? mark : NULL;
}

#endif
