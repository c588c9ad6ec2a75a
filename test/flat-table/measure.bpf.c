/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * measure.bpf.c: one step of a flow a run, on the product's table (bpf/lib/flow.h) and on the flat
 * one: a packet of a known flow, of none, a new flow. Each run takes another flow, in mixed order.
 */
#include "table.h"

#include <linux/pkt_cls.h>

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

static void flat_ended(const struct flat_record *r)
{
	(void)r;
}

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

static __always_inline int hash_known_step(struct packet *p)
{
	return flow_find(p, FLOW_SIDE_INGRESS);
}

/* A packet of no flow. */
static __always_inline int hash_miss_step(struct packet *p)
{
	p->tuple.dport = bpf_htons(81);
	return flow_find(p, FLOW_SIDE_INGRESS) != FLOW_NONE;
}

static __always_inline int flat_miss_step(struct packet *p)
{
	struct flat_hit hit = {};

	p->tuple.dport = bpf_htons(81);
	return flat_index_find(&p->tuple, &p->to, &hit);
}

static __always_inline int hash_new_step(struct packet *p)
{
	struct flow_new new = {.backend = 1, .flags = FLOW_SNAT};

	new.slot = flow_slot_claim();
	if (new.slot == FLOW_SLOT_NONE)
		return 1;
	return flow_half_for_replies(p) || flow_add(p, &new);
}

static __always_inline int flat_known_step(struct packet *p)
{
	struct flat_hit hit = {};
	__u8 sent;

	if (!flat_index_find(&p->tuple, &p->to, &hit))
		return 1;
	sent = flow_sent_with(p, hit.direction, hit.sent, hit.heard);
	if ((sent != hit.sent || flat_control_idle_ns(hit.control) >= (__s64)NSEC_PER_SEC) &&
	    !flat_note(&hit, p->ipv4, sent))
		return 1;
	p->flow_flags = hit.flags;
	return 0;
}

static __always_inline int flat_new_step(struct packet *p)
{
	__u32 record = flat_claim(p->ipv4);

	if (!record)
		return 1;
	if (!flat_add(&p->tuple, &p->to, record, 1))
		return 0;
	flat_give_back(record, p->ipv4);
	return 1;
}

STEP(base, nothing)
STEP(hash_known, hash_known_step)
STEP(hash_new, hash_new_step)
STEP(hash_miss, hash_miss_step)
STEP(flat_known, flat_known_step)
STEP(flat_new, flat_new_step)
STEP(flat_miss, flat_miss_step)

char _license[] SEC("license") = "GPL";
