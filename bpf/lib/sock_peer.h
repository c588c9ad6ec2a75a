/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_peer.h: what is common to everything a socket remembers (struct sock_peer).
 */
#ifndef WAGGLE_LIB_SOCK_PEER_H
#define WAGGLE_LIB_SOCK_PEER_H

#include "../maps.h"
#include "addr.h"
#include "backend.h"
#include "choice.h"
#include "sock_call.h"

/* The call dialled a frontend of service and got this backend. */
static __always_inline void sock_peer_make(struct sock_peer *peer, const struct sock_call *call,
					   __u32 service, const struct choice *choice)
{
	__builtin_memset(peer, 0, sizeof(*peer));
	peer->frontend_addr = call->addr;
	peer->frontend_port = call->port;
	peer->backend_addr = choice->addr;
	peer->backend_port = choice->port;
	peer->backend = choice->backend;
	peer->generation = choice->generation;
	peer->service = service;
	peer->proto = call->proto;
}

static __always_inline bool sock_peer_has_frontend(const struct sock_peer *peer,
						   const struct sock_call *call)
{
	return peer->frontend_port == call->port && addr_equal(&peer->frontend_addr, &call->addr);
}

static __always_inline bool sock_peer_has_backend(const struct sock_peer *peer,
						  const struct sock_call *call)
{
	return peer->backend_port == call->port && addr_equal(&peer->backend_addr, &call->addr);
}

/* The frontend still belongs to the same service, and the backend was not removed. */
static __always_inline bool sock_peer_serves(const struct sock_peer *peer, __u32 service)
{
	return peer->service == service && backend_is_current(peer->backend, peer->generation);
}

#endif
