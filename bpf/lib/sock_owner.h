/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sock_owner.h: does somebody close this socket, so that a program sees its end?
 *
 * sock_release runs for sockets that a process has. Those that the kernel made for itself
 * connect through the same hooks, but end in silence: a subflow of MPTCP, a mount of NFS
 * whose server is a Service.
 */
#ifndef WAGGLE_LIB_SOCK_OWNER_H
#define WAGGLE_LIB_SOCK_OWNER_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The field of the kernel's struct that is read here; libbpf finds its place. */
struct sock {
	unsigned int sk_kern_sock : 1;
} __attribute__((preserve_access_index));

/* Of TCP sockets; there is no way to ask others, and the kernel has hardly any that connect. */
static __always_inline bool sock_owner_is_kernel(struct bpf_sock *sk)
{
	/* A struct tcp_sock begins with its struct sock. */
	struct sock *tcp = (struct sock *)bpf_skc_to_tcp_sock(sk);

	return tcp && BPF_CORE_READ_BITFIELD(tcp, sk_kern_sock);
}

#endif
