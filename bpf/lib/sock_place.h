/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_place.h: where is the mark of this socket?
 *
 * in    the socket, and its cookie as bpf_get_socket_cookie says it of the program's ctx
 * maps  sock_places_v1, sock_conn_v1 (read)
 *
 * In the place that its cookie names, where nothing has to be allocated or searched; in
 * its storage when another socket had that place. Never in both. Cookies are given out in
 * a row, so places are taken in a row, too, and sockets whose cookies are 65,536 apart meet.
 *
 * A place belongs to the socket whose cookie stands in it. That socket alone changes it,
 * in hooks that hold its lock or as its last act, and gives it back zeroed (sock_mark.h):
 * who reads his own cookie never sees another socket's mark.
 */
#ifndef WAGGLE_LIB_SOCK_PLACE_H
#define WAGGLE_LIB_SOCK_PLACE_H

#include "../maps.h"

static __always_inline struct sock_place *sock_place_of(__u64 cookie)
{
	__u32 index = cookie % SOCK_PLACES;

	return bpf_map_lookup_elem(&sock_places_v1, &index);
}

/* cookie 0: it is free. */
static __always_inline bool sock_place_is_held(const struct sock_place *place, __u64 cookie)
{
	return place && *(const volatile __u64 *)&place->cookie == cookie;
}

/* The mark of the socket, or NULL. Most sockets have no storage at all: asking is cheap then. */
static __always_inline struct sock_peer *sock_place_find(struct bpf_sock *sk, __u64 cookie)
{
	struct sock_place *place = sock_place_of(cookie);

	if (sock_place_is_held(place, cookie))
		return &place->mark;
	return bpf_sk_storage_get(&sock_conn_v1, sk, NULL, 0);
}

#endif
