/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * stress.bpf.c: random operations on a flat table, from several CPUs at once, and what must hold.
 *
 * Client keys and backend keys are numbers below `keys`; a flow's payload says which two it
 * has, so whoever finds it can tell whether what he read is of one flow. `held` counts the
 * flows of each key: what it says when nothing runs is compared with the table.
 *
 * The table is the product's, into whose copy flat-table.test.ts puts calls of what watch.h has.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "lib/context_skb.h"

#include "lib/flow_store_flat.h"

struct report {
	__u64 found, missed, added, exists, taken, full, none, ended, lost, noted;
	__u64 wrong; /* a flow that is not what was asked for */
	__u64 twice; /* two live flows with one key */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct report);
} report SEC(".maps");

const volatile __u32 keys = 256;
const volatile bool ipv4 = true;
/* Of a hundred operations. */
const volatile __u32 add_share = 30;
const volatile __u32 end_share = 15;

static __always_inline struct report *report_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&report, &zero);
}

static __always_inline void address(struct ip_addr *a, __u32 side, __u32 key)
{
	a->w[0] = ipv4 ? 0 : bpf_htonl(0x20010db8);
	a->w[1] = ipv4 ? 0 : side;
	a->w[2] = ipv4 ? ADDR_MAPPED_PREFIX : key;
	a->w[3] = bpf_htonl(side << 24 | key >> 4);
}

static __always_inline void client_key(struct tuple *t, __u32 key)
{
	address(&t->src, 10, key);
	address(&t->dst, 20, 0);
	t->sport = bpf_htons(key & 15);
	t->dport = bpf_htons(80);
	t->proto = IPPROTO_TCP;
	__builtin_memset(t->zero, 0, sizeof(t->zero));
}

static __always_inline void translated(struct tuple *t, __u32 key)
{
	address(&t->src, 30, 0);
	address(&t->dst, 40, key);
	t->sport = bpf_htons(key & 15);
	t->dport = bpf_htons(8080);
	t->proto = IPPROTO_TCP;
	__builtin_memset(t->zero, 0, sizeof(t->zero));
}

/* Half of all operations are on eight keys. */
static __always_inline __u32 some_key(void)
{
	__u32 random = bpf_get_prandom_u32();

	return random & 1 ? random >> 1 & 7 : (random >> 1) % keys;
}

static __noinline void try_add(struct report *r, __u32 client, __u32 backend)
{
	struct flow_new new = {.backend = client | backend << 16};
	struct tuple key, to;
	int ret;

	new.place = flat_claim(ipv4);
	if (new.place == FLOW_PLACE_NONE) {
		__sync_fetch_and_add(&r->none, 1);
		return;
	}
	client_key(&key, client);
	translated(&to, backend);
	ret = flat_add(&key, &to, &new);
	if (ret)
		flat_give_back(new.place);
	switch (ret) {
	case 0:
		hold(client, false, 1);
		hold(backend, true, 1);
		__sync_fetch_and_add(&r->added, 1);
		break;
	case FLOW_EXISTS:
		__sync_fetch_and_add(&r->exists, 1);
		break;
	case FLOW_TAKEN:
		__sync_fetch_and_add(&r->taken, 1);
		break;
	default:
		__sync_fetch_and_add(&r->full, 1);
	}
}

/* Is there another live flow with this key, while this one is live? */
static __noinline bool has_twin(const struct tuple *key, const struct flow_half *half)
{
	const struct flat_record *r = flat_record_at(half->place);
	__u64 hash = flat_hash_of_tuple(key, FLAT_AS_IT_IS);
	__u64 control;

	if (!r || flat_index_contest(key, FLAT_AS_IT_IS, hash, half->place) != FLAT_CONTEST_EXISTS)
		return false;
	control = FLAT_READ(r->control);
	return flat_control_is_live(control) && flat_control_same_age(control, half->control);
}

static __noinline void look(struct report *r, __u32 number, bool reply, __u32 dice)
{
	struct tuple key, to, other;
	struct flow_half half = {};

	if (reply) {
		translated(&to, number);
		tuple_exchange(&key, &to);
	} else {
		client_key(&key, number);
	}
	if (!flat_index_find(&key, FLAT_AS_IT_IS, &to, &half)) {
		__sync_fetch_and_add(&r->missed, 1);
		return;
	}
	__sync_fetch_and_add(&r->found, 1);
	if (half.direction != (reply ? FLOW_REPLY : FLOW_FORWARD) ||
	    number != (reply ? half.backend >> 16 : half.backend & 0xffff)) {
		__sync_fetch_and_add(&r->wrong, 1);
		return;
	}
	if (dice & 4 && has_twin(&key, &half))
		__sync_fetch_and_add(&r->twice, 1);
	/* What it becomes is of the same flow. */
	if (reply) {
		client_key(&key, half.backend & 0xffff);
		tuple_exchange(&other, &key);
	} else {
		translated(&other, half.backend >> 16);
	}
	if (!addr_equal(&other.src, &to.src) || !addr_equal(&other.dst, &to.dst) ||
	    other.sport != to.sport || other.dport != to.dport) {
		__sync_fetch_and_add(&r->wrong, 1);
		return;
	}
	if (dice < end_share) {
		if (flat_end(half.place, half.control))
			__sync_fetch_and_add(&r->ended, 1);
		else
			__sync_fetch_and_add(&r->lost, 1);
	} else if (dice & 1) {
		if (flat_note(&half, half.sent | (dice & 2 ? FLOW_SENT_ON : FLOW_SENT)))
			__sync_fetch_and_add(&r->noted, 1);
	}
}

SEC("tc")
int stress(struct __sk_buff *skb)
{
	__u32 dice = bpf_get_prandom_u32() % 100;
	struct report *r = report_get();

	(void)skb;
	if (!r)
		return TC_ACT_UNSPEC;
	if (dice < add_share)
		try_add(r, some_key(), some_key());
	else
		look(r, some_key(), dice & 4, bpf_get_prandom_u32() % 100);
	return TC_ACT_UNSPEC;
}

/* Ends whatever flow the record in cb[0] holds. */
SEC("tc")
int end_one(struct __sk_buff *skb)
{
	__u32 place = skb->cb[0] | (ipv4 ? FLAT_PLACE_IPV4 : 0);
	struct flat_record *r = flat_record_at(place);
	__u64 control;

	if (!r)
		return 0;
	control = FLAT_READ(r->control);
	return flat_control_is_live(control) ? flat_end(place, control) : 0;
}

char _license[] SEC("license") = "GPL";
