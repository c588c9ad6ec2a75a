/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * conntrack.h: does the kernel's connection tracking know packets with these addresses?
 *
 * Of its default zone, in either direction. Where the kernel cannot be asked (Linux before
 * 5.18, or no conntrack when the programs were loaded) the answer is no, and the question
 * is not in the loaded program.
 */
#ifndef WAGGLE_LIB_CONNTRACK_H
#define WAGGLE_LIB_CONNTRACK_H

#include <bpf/bpf_core_read.h>

#include "packet.h"

/* The kernel's name for the options below: it is there if the question can be asked. */
struct bpf_ct_opts {
	__s32 netns_id;
} __attribute__((preserve_access_index));

/* The same as they were in Linux 5.18; later kernels take this size, too. */
struct conntrack_options {
	__s32 netns_id;
	__s32 error;
	__u8 proto;
	__u8 direction;
	__u8 zero[2];
};

struct nf_conn {
	unsigned long status;
} __attribute__((preserve_access_index));

extern struct nf_conn *CONTEXT_CT_LOOKUP(context *ctx, struct bpf_sock_tuple *tuple,
					 __u32 tuple_size, struct conntrack_options *options,
					 __u32 options_size) __weak __ksym;
extern void bpf_ct_release(struct nf_conn *ct) __weak __ksym;

/* In nf_conn.status (linux/netfilter/nf_conntrack_common.h): the destination is translated. */
#define CONNTRACK_DST_NAT (1 << 5)

/* What a look-up of a packet's tuple found. */
enum conntrack_answer {
	CONNTRACK_NONE,
	CONNTRACK_KNOWN,
	CONNTRACK_TRANSLATED, /* known, and its destination is translated */
};

/*
 * Fills in what the helpers for sockets and conntrack take for the tuple of packets that
 * answer those with this one; returns its size.
 */
static __always_inline __u32 sock_tuple_make_reply(struct bpf_sock_tuple *out,
						   const struct tuple *tuple, bool ipv4)
{
	if (ipv4) {
		out->ipv4.saddr = tuple->dst.w[3];
		out->ipv4.daddr = tuple->src.w[3];
		out->ipv4.sport = tuple->dport;
		out->ipv4.dport = tuple->sport;
		return sizeof(out->ipv4);
	}
	__builtin_memcpy(out->ipv6.saddr, tuple->dst.w, sizeof(out->ipv6.saddr));
	__builtin_memcpy(out->ipv6.daddr, tuple->src.w, sizeof(out->ipv6.daddr));
	out->ipv6.sport = tuple->dport;
	out->ipv6.dport = tuple->sport;
	return sizeof(out->ipv6);
}

/* A constant of the loaded program. */
static __always_inline bool conntrack_can_be_asked(void)
{
	return bpf_core_type_exists(struct bpf_ct_opts);
}

/*
 * A function of its own: inlined, clang asks twice whether the entry is there, and Linux 6.1 sees
 * a way past the release on which it is there at the first time alone.
 */
static __noinline enum conntrack_answer conntrack_ask(context *ctx, struct bpf_sock_tuple *tuple,
						      __u32 size, __u8 proto)
{
	struct conntrack_options options = {.netns_id = BPF_F_CURRENT_NETNS, .proto = proto};
	enum conntrack_answer answer;
	struct nf_conn *ct;

	if (!conntrack_can_be_asked())
		return CONNTRACK_NONE;
	ct = CONTEXT_CT_LOOKUP(ctx, tuple, size, &options, sizeof(options));
	if (!ct)
		return CONNTRACK_NONE;
	answer = ct->status & CONNTRACK_DST_NAT ? CONNTRACK_TRANSLATED : CONNTRACK_KNOWN;
	bpf_ct_release(ct);
	return answer;
}

#endif
