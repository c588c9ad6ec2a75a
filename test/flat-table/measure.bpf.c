/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * measure.bpf.c: one step of a flow a run, through bpf/lib/flow.h: a packet of a known flow, of
 * none, a new flow. Each run takes another flow, in mixed order. On the table that the compiler
 * includes first; else on the hash map.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "lib/context_skb.h"

#include "lib/addr.h"
#include "lib/flow.h"

/* A power of two. */
const volatile __u32 flows = 1024;
const volatile bool ipv4 = true;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[2]); /* runs so far; runs that did not do what they should */
} progress SEC(".maps");

/* The tuples of another flow; false at the end of the world. */
static __always_inline __u64 *next(struct packet *p)
{
	__u32 zero = 0, number;
	__u64 *state = bpf_map_lookup_elem(&progress, &zero);

	if (!state)
		return 0;
	number = (__u32)state[0]++ * 2654435761U & (flows - 1);
	p->ipv4 = ipv4;
	p->tcp_flags = TCP_ACK;
	p->tuple.src.w[0] = ipv4 ? 0 : bpf_htonl(0x20010db8);
	p->tuple.src.w[2] = ipv4 ? ADDR_MAPPED_PREFIX : 7;
	p->tuple.src.w[3] = bpf_htonl(0xc6120000 + (number & 0xfff));
	p->tuple.dst.w[0] = p->tuple.src.w[0];
	p->tuple.dst.w[2] = p->tuple.src.w[2];
	p->tuple.dst.w[3] = bpf_htonl(0x0a600001);
	p->tuple.sport = number >> 4;
	p->tuple.dport = bpf_htons(80);
	p->tuple.proto = IPPROTO_TCP;
	p->to = p->tuple;
	p->to.dst.w[3] = bpf_htonl(0x0a000201);
	return state;
}

#define STEP(name, step)                                                                           \
	SEC("tc")                                                                                  \
	int name(struct __sk_buff *skb)                                                            \
	{                                                                                          \
		struct packet p = {};                                                              \
		__u64 *state = next(&p);                                                           \
                                                                                                   \
		(void)skb;                                                                         \
		if (state && step(&p))                                                             \
			state[1]++;                                                                \
		return TC_ACT_UNSPEC;                                                              \
	}

/* What a step costs that does nothing. */
static __always_inline int nothing(struct packet *p)
{
	return !p->tuple.proto;
}

static __always_inline int known_step(struct packet *p)
{
	return flow_find(p, FLOW_SIDE_INGRESS);
}

/* A packet of no flow. */
static __always_inline int miss_step(struct packet *p)
{
	p->tuple.dport = bpf_htons(81);
	return flow_find(p, FLOW_SIDE_INGRESS) != FLOW_NONE;
}

static __always_inline int new_step(struct packet *p)
{
	struct flow_new new = {.backend = 1, .flags = FLOW_SNAT};

	new.place = flow_store_claim(p->ipv4);
	if (new.place == FLOW_PLACE_NONE)
		return 1;
	return flow_half_for_replies(p) || flow_add(p, &new);
}

STEP(base, nothing)
STEP(known, known_step)
STEP(fresh, new_step)
STEP(miss, miss_step)

char _license[] SEC("license") = "GPL";
