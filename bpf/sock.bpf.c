/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock.bpf.c: the socket layer. A process that dials a frontend is given a backend
 * when it connects, or sends its first datagram; from then on its packets go there
 * without us. What it reads back (sender of a datagram, name of the peer) shows the
 * frontend.
 *
 * Attached to a cgroup: connect, sendmsg, recvmsg, getpeername, each for IPv4 and
 * IPv6 sockets, and sock_release.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "lib/frontend_lookup.h"
#include "lib/sock_call.h"
#include "lib/sock_finish.h"
#include "lib/sock_mark.h"
#include "lib/sock_select.h"
#include "lib/sock_sendto.h"

static __always_inline int connect(struct bpf_sock_addr *ctx, bool ipv6)
{
	const struct frontend *frontend;
	struct sock_call call;
	struct choice choice = {};
	int ret;

	ret = sock_call_read(ctx, ipv6, &call);
	if (ret)
		return ret;
	ret = frontend_lookup(&call.addr, call.port, call.proto, &frontend);
	if (!ret)
		ret = sock_select(ctx, ipv6, frontend, &choice);
	/* A refused connect() leaves the socket where it was. */
	if (ret && !request_is_refused(ret))
		sock_mark_remove(ctx->sk, bpf_get_socket_cookie(ctx));
	if (ret)
		return ret;
	sock_mark_set(ctx->sk, bpf_get_socket_cookie(ctx), &call, frontend->service, &choice);
	sock_call_write(ctx, ipv6, &choice.addr, choice.port);
	return OUTCOME_TRANSLATED;
}

static __always_inline int sendmsg(struct bpf_sock_addr *ctx, bool ipv6)
{
	const struct frontend *frontend;
	const struct sock_peer *peer;
	struct sock_call call;
	struct choice choice = {};
	int ret;

	ret = sock_call_read(ctx, ipv6, &call);
	if (ret)
		return ret;
	ret = frontend_lookup(&call.addr, call.port, call.proto, &frontend);
	if (ret > 0)
		sock_sendto_forget(ctx, &call);
	if (ret)
		return ret;
	peer = sock_sendto_find(ctx, &call, frontend->service);
	if (peer) {
		sock_call_write(ctx, ipv6, &peer->backend_addr, peer->backend_port);
		return OUTCOME_TRANSLATED;
	}
	ret = sock_select(ctx, ipv6, frontend, &choice);
	if (ret)
		return ret;
	sock_sendto_remember(ctx, &call, frontend->service, &choice);
	sock_call_write(ctx, ipv6, &choice.addr, choice.port);
	return OUTCOME_TRANSLATED;
}

static __always_inline int recvmsg(struct bpf_sock_addr *ctx, bool ipv6)
{
	const struct sock_peer *peer;
	struct sock_call call;
	int ret;

	ret = sock_call_read(ctx, ipv6, &call);
	if (ret)
		return ret;
	peer = sock_mark_find(ctx->sk, bpf_get_socket_cookie(ctx), &call);
	if (!peer)
		peer = sock_sendto_find_reply(ctx, &call);
	if (!peer)
		return OUTCOME_NOT_SERVICE;
	sock_call_write(ctx, ipv6, &peer->frontend_addr, peer->frontend_port);
	return OUTCOME_TRANSLATED;
}

static __always_inline int getpeername(struct bpf_sock_addr *ctx, bool ipv6)
{
	const struct sock_peer *peer;
	struct sock_call call;
	int ret;

	ret = sock_call_read(ctx, ipv6, &call);
	if (ret)
		return ret;
	peer = sock_mark_find(ctx->sk, bpf_get_socket_cookie(ctx), &call);
	if (!peer)
		return OUTCOME_NOT_SERVICE;
	sock_call_write(ctx, ipv6, &peer->frontend_addr, peer->frontend_port);
	return OUTCOME_TRANSLATED;
}

SEC("cgroup/connect4")
int sock_connect4(struct bpf_sock_addr *ctx)
{
	return finish_request(HOOK_CONNECT, connect(ctx, false));
}

SEC("cgroup/connect6")
int sock_connect6(struct bpf_sock_addr *ctx)
{
	return finish_request(HOOK_CONNECT, connect(ctx, true));
}

SEC("cgroup/sendmsg4")
int sock_sendmsg4(struct bpf_sock_addr *ctx)
{
	return finish_request(HOOK_SENDMSG, sendmsg(ctx, false));
}

SEC("cgroup/sendmsg6")
int sock_sendmsg6(struct bpf_sock_addr *ctx)
{
	return finish_request(HOOK_SENDMSG, sendmsg(ctx, true));
}

SEC("cgroup/recvmsg4")
int sock_recvmsg4(struct bpf_sock_addr *ctx)
{
	return finish_report(HOOK_RECVMSG, recvmsg(ctx, false));
}

SEC("cgroup/recvmsg6")
int sock_recvmsg6(struct bpf_sock_addr *ctx)
{
	return finish_report(HOOK_RECVMSG, recvmsg(ctx, true));
}

SEC("cgroup/getpeername4")
int sock_getpeer4(struct bpf_sock_addr *ctx)
{
	return finish_report(HOOK_GETPEERNAME, getpeername(ctx, false));
}

SEC("cgroup/getpeername6")
int sock_getpeer6(struct bpf_sock_addr *ctx)
{
	return finish_report(HOOK_GETPEERNAME, getpeername(ctx, true));
}

/* Not counted: it runs for every socket of the node and only ends what connect began. */
SEC("cgroup/sock_release")
int sock_release(struct bpf_sock *sk)
{
	sock_mark_release(sk, bpf_get_socket_cookie(sk));
	return SOCK_PASS;
}

char _license[] SEC("license") = "GPL";
