/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_sendto.h: the backends that an unconnected UDP socket talks to, one for each
 * frontend it sent to, found by the request (frontend) and by the reply (backend).
 *
 * maps  sock_sendto_v1, udp_peers_v1 (read, write)
 *
 * Nearly every socket sends to one frontend: that peer lives in the socket's storage,
 * where it is cheap, private and freed with the socket. A datagram to another frontend
 * moves the peer to udp_peers_v1, under two keys, and takes its place. So of two
 * frontends that share a backend the one that was asked last is shown in the reply.
 * A socket without storage has no peers at all: all others pay for one look-up.
 */
#ifndef WAGGLE_LIB_SOCK_SENDTO_H
#define WAGGLE_LIB_SOCK_SENDTO_H

#include "sock_peer.h"

static __always_inline void udp_peer_key_make(struct udp_peer_key *key, __u64 cookie,
					      const struct ip_addr *addr, __be16 port, bool backend)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->cookie = cookie;
	key->addr = *addr;
	key->port = port;
	key->backend = backend;
}

/* Copies a peer, if there is one, out of the storage. A full map evicts the peer that was idle
 * longest. */
static __always_inline void udp_peer_keep(__u64 cookie, const struct sock_peer *peer)
{
	struct udp_peer_key key;

	if (!peer->backend)
		return;
	udp_peer_key_make(&key, cookie, &peer->frontend_addr, peer->frontend_port, false);
	bpf_map_update_elem(&udp_peers_v1, &key, peer, BPF_ANY);
	udp_peer_key_make(&key, cookie, &peer->backend_addr, peer->backend_port, true);
	bpf_map_update_elem(&udp_peers_v1, &key, peer, BPF_ANY);
}

static __always_inline const struct sock_peer *udp_peer_find(__u64 cookie,
							     const struct sock_call *call,
							     bool backend)
{
	struct udp_peer_key key;

	udp_peer_key_make(&key, cookie, &call->addr, call->port, backend);
	return bpf_map_lookup_elem(&udp_peers_v1, &key);
}

/* By request: the peer that this socket has for the frontend in the call, if it still serves. */
static __always_inline const struct sock_peer *sock_sendto_find(struct bpf_sock_addr *ctx,
								const struct sock_call *call,
								__u32 service)
{
	struct sock_peer *last = bpf_sk_storage_get(&sock_sendto_v1, ctx->sk, NULL, 0);
	const struct sock_peer *kept;
	struct sock_peer peer;
	__u64 cookie;

	if (!last)
		return NULL;
	if (sock_peer_has_frontend(last, call))
		return sock_peer_serves(last, service) ? last : NULL;
	cookie = bpf_get_socket_cookie(ctx);
	kept = udp_peer_find(cookie, call, false);
	if (!kept || !sock_peer_serves(kept, service))
		return NULL;
	peer = *kept; /* the next update may evict it */
	udp_peer_keep(cookie, last);
	*last = peer;
	return last;
}

/* By reply: the peer whose backend sent the datagram in the call. */
static __always_inline const struct sock_peer *sock_sendto_find_reply(struct bpf_sock_addr *ctx,
								      const struct sock_call *call)
{
	const struct sock_peer *peer = bpf_sk_storage_get(&sock_sendto_v1, ctx->sk, NULL, 0);

	if (!peer || sock_peer_has_backend(peer, call))
		return peer;
	return udp_peer_find(bpf_get_socket_cookie(ctx), call, true);
}

/* The frontend in the call got this backend. */
static __always_inline void sock_sendto_remember(struct bpf_sock_addr *ctx,
						 const struct sock_call *call, __u32 service,
						 const struct choice *choice)
{
	struct sock_peer *peer =
		bpf_sk_storage_get(&sock_sendto_v1, ctx->sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!peer)
		return;
	if (!sock_peer_has_frontend(peer, call))
		udp_peer_keep(bpf_get_socket_cookie(ctx), peer);
	sock_peer_make(peer, call, service, choice);
}

/*
 * The socket sends straight to the address in the call. If that is also a backend it
 * was given, replies from there must from now on show the backend's own address, until
 * the frontend is asked again.
 */
static __always_inline void sock_sendto_forget(struct bpf_sock_addr *ctx,
					       const struct sock_call *call)
{
	struct sock_peer *last = bpf_sk_storage_get(&sock_sendto_v1, ctx->sk, NULL, 0);
	struct udp_peer_key key;
	__u64 cookie;

	if (!last)
		return;
	cookie = bpf_get_socket_cookie(ctx);
	if (sock_peer_has_backend(last, call)) {
		udp_peer_keep(cookie, last);
		__builtin_memset(last, 0, sizeof(*last));
	}
	udp_peer_key_make(&key, cookie, &call->addr, call->port, true);
	bpf_map_delete_elem(&udp_peers_v1, &key);
}

#endif
