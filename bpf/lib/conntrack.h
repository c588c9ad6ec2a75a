/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * conntrack.h: does the kernel's connection tracking know packets with these addresses, and
 * does it translate them?
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

/* Fields of the kernel's entry that are read here; libbpf finds their places. */
union nf_inet_addr {
	__u32 all[4]; /* network order; an IPv4 address is the first word */
};
union nf_conntrack_man_proto {
	__be16 all; /* port */
};
struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
} __attribute__((preserve_access_index));
struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
} __attribute__((preserve_access_index));
struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
} __attribute__((preserve_access_index));
struct ip_ct_tcp {
	__u8 state;
} __attribute__((preserve_access_index));
union nf_conntrack_proto {
	struct ip_ct_tcp tcp;
} __attribute__((preserve_access_index));
struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
	union nf_conntrack_proto proto;
} __attribute__((preserve_access_index));

extern struct nf_conn *CONTEXT_CT_LOOKUP(context *ctx, struct bpf_sock_tuple *tuple,
					 __u32 tuple_size, struct conntrack_options *options,
					 __u32 options_size) __weak __ksym;
extern void bpf_ct_release(struct nf_conn *ct) __weak __ksym;

/* Indexes of nf_conn.tuplehash: packets as who opened the connection sends them, and the replies
 * to what became of them. */
#define CONNTRACK_ORIGINAL 0
#define CONNTRACK_REPLY	   1

/* ip_ct_tcp.state (linux/netfilter/nf_conntrack_tcp.h): beyond it a side has sent FIN or RST. */
#define CONNTRACK_TCP_ESTABLISHED 3
#define CONNTRACK_TCP_SYN_SENT2	  9 /* both sides have sent a SYN */

/* Are packets that the kernel's NAT translates left to it? Set by the loader. */
const volatile __u8 cfg_adopt_conntrack = 0;

/* Fills in what the helpers for sockets and conntrack take for this tuple; returns its size. */
static __always_inline __u32 sock_tuple_make(struct bpf_sock_tuple *out, const struct tuple *tuple,
					     bool ipv4)
{
	if (ipv4) {
		out->ipv4.saddr = tuple->src.w[3];
		out->ipv4.daddr = tuple->dst.w[3];
		out->ipv4.sport = tuple->sport;
		out->ipv4.dport = tuple->dport;
		return sizeof(out->ipv4);
	}
	__builtin_memcpy(out->ipv6.saddr, tuple->src.w, sizeof(out->ipv6.saddr));
	__builtin_memcpy(out->ipv6.daddr, tuple->dst.w, sizeof(out->ipv6.daddr));
	out->ipv6.sport = tuple->sport;
	out->ipv6.dport = tuple->dport;
	return sizeof(out->ipv6);
}

/* The same for packets that answer those with this tuple. */
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
 * Is there an entry with this tuple? A function of its own: inlined, clang asks twice whether
 * the entry is there, and Linux 6.1 sees a way past the release on which it is there at the
 * first time alone.
 */
static __noinline bool conntrack_knows(context *ctx, struct bpf_sock_tuple *tuple, __u32 size,
				       __u8 proto)
{
	struct conntrack_options options = {.netns_id = BPF_F_CURRENT_NETNS, .proto = proto};
	struct nf_conn *ct;

	if (!conntrack_can_be_asked())
		return false;
	ct = CONTEXT_CT_LOOKUP(ctx, tuple, size, &options, sizeof(options));
	if (!ct)
		return false;
	bpf_ct_release(ct);
	return true;
}

/* Whether a side of one of an entry's tuples is not this address and port. */
#define CONNTRACK_DIFFERS(side, addr, port, ipv4)                                                  \
	((ipv4) ? ((side).u3.all[0] ^ (addr).w[3]) | ((side).u.all ^ (port)) :                     \
		  ((side).u3.all[0] ^ (addr).w[0]) | ((side).u3.all[1] ^ (addr).w[1]) |            \
			  ((side).u3.all[2] ^ (addr).w[2]) | ((side).u3.all[3] ^ (addr).w[3]) |    \
			  ((side).u.all ^ (port)))

/*
 * Does the kernel's NAT (netfilter's, or that of IPVS) translate the destination of packets
 * with this tuple, because their flow began there? Then who answers is not who was asked. For
 * a SYN it does only while neither side has ended that connection, as with flows of ours.
 *
 * A global function: verified once, not once for each way to it. It is given the tuple alone,
 * because what a pointer leads to is plain bytes to the verifier afterwards.
 */
__noinline int conntrack_translates(context *ctx, const struct tuple *of, __u32 ipv4)
{
	struct conntrack_options options = {.netns_id = BPF_F_CURRENT_NETNS};
	struct bpf_sock_tuple tuple = {};
	__u32 original, reply, size;
	struct nf_conn *ct;
	__u8 state;

	if (!conntrack_can_be_asked() || !of)
		return false;
	options.proto = of->proto;
	size = sock_tuple_make(&tuple, of, ipv4);
	ct = CONTEXT_CT_LOOKUP(ctx, &tuple, size, &options, sizeof(options));
	if (!ct)
		return false;
	original = CONNTRACK_DIFFERS(ct->tuplehash[CONNTRACK_ORIGINAL].tuple.src, of->dst,
				     of->dport, ipv4);
	reply = CONNTRACK_DIFFERS(ct->tuplehash[CONNTRACK_REPLY].tuple.src, of->dst, of->dport,
				  ipv4);
	state = ct->proto.tcp.state;
	bpf_ct_release(ct);
	if (of->proto == IPPROTO_TCP && state > CONNTRACK_TCP_ESTABLISHED &&
	    state != CONNTRACK_TCP_SYN_SENT2)
		return false;
	return (options.direction == CONNTRACK_ORIGINAL ? reply : original) != 0;
}

#endif
