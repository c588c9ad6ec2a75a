/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * stress.bpf.c: random operations on a flat table, from several CPUs at once, and what must hold.
 *
 * Client keys and backend keys are numbers below `keys`; a flow's payload says which two it
 * has, so whoever finds it can tell whether what he read is of one flow. `held` counts the
 * flows of each key: what it says when nothing runs is compared with the table.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* One time in sixteen, about a microsecond. */
static __noinline void pause_sometimes(void)
{
	int i;

	if (bpf_get_prandom_u32() & 15)
		return;
	for (i = 0; i < 30; i++)
		bpf_ktime_get_ns();
}

#define FLAT_PAUSE() pause_sometimes()

#include "table.h"

#define MAX_KEYS 4096

struct report {
	__u64 found, missed, added, exists, taken, busy, full, none, ended, lost, noted;
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

/* Flows of each key: clients' first, then backends'. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * MAX_KEYS);
	__type(key, __u32);
	__type(value, __u64);
} held SEC(".maps");

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

static __always_inline void hold(__u32 key, bool backend, __s64 by)
{
	__u32 at = key + (backend ? MAX_KEYS : 0);
	__u64 *count = bpf_map_lookup_elem(&held, &at);

	if (count)
		__sync_fetch_and_add(count, by);
}

static void flat_ended(const struct flat_record *r)
{
	hold(r->backend & 0xffff, false, -1);
	hold(r->backend >> 16, true, -1);
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
	struct tuple key, to;
	__u32 record;
	int ret;

	record = flat_claim(ipv4);
	if (!record) {
		__sync_fetch_and_add(&r->none, 1);
		return;
	}
	client_key(&key, client);
	translated(&to, backend);
	ret = flat_add(&key, &to, record, client | backend << 16);
	if (ret)
		flat_give_back(record, ipv4);
	switch (ret) {
	case 0:
		hold(client, false, 1);
		hold(backend, true, 1);
		__sync_fetch_and_add(&r->added, 1);
		break;
	case FLAT_EXISTS:
		__sync_fetch_and_add(&r->exists, 1);
		break;
	case FLAT_TAKEN:
		__sync_fetch_and_add(&r->taken, 1);
		break;
	case FLAT_BUSY:
		__sync_fetch_and_add(&r->busy, 1);
		break;
	default:
		__sync_fetch_and_add(&r->full, 1);
	}
}

/* Is there another live flow with this key, while this one is live? */
static __noinline bool has_twin(const struct tuple *key, const struct flat_hit *hit)
{
	const struct flat_record *r = flat_record_at(hit->record, ipv4);
	struct flat_place place = {};
	__u64 control;

	flat_place_of(key, ipv4, &place);
	if (!r ||
	    flat_index_contest(key, place.home, place.step, place.tag, hit->record) != FLAT_EXISTS)
		return false;
	control = FLAT_READ(r->control);
	return flat_control_is_live(control) && flat_control_same_age(control, hit->control);
}

static __noinline void look(struct report *r, __u32 number, bool reply, __u32 dice)
{
	struct tuple key, to, other;
	struct flat_hit hit = {};

	if (reply) {
		translated(&to, number);
		tuple_exchange(&key, &to);
	} else {
		client_key(&key, number);
	}
	if (!flat_index_find(&key, &to, &hit)) {
		__sync_fetch_and_add(&r->missed, 1);
		return;
	}
	__sync_fetch_and_add(&r->found, 1);
	if (hit.direction != (reply ? FLOW_REPLY : FLOW_FORWARD) ||
	    number != (reply ? hit.backend >> 16 : hit.backend & 0xffff)) {
		__sync_fetch_and_add(&r->wrong, 1);
		return;
	}
	if (dice & 4 && has_twin(&key, &hit))
		__sync_fetch_and_add(&r->twice, 1);
	/* What it becomes is of the same flow. */
	if (reply) {
		client_key(&key, hit.backend & 0xffff);
		tuple_exchange(&other, &key);
	} else {
		translated(&other, hit.backend >> 16);
	}
	if (!addr_equal(&other.src, &to.src) || !addr_equal(&other.dst, &to.dst) ||
	    other.sport != to.sport || other.dport != to.dport) {
		__sync_fetch_and_add(&r->wrong, 1);
		return;
	}
	if (dice < end_share) {
		if (flat_end(hit.record, ipv4, hit.control))
			__sync_fetch_and_add(&r->ended, 1);
		else
			__sync_fetch_and_add(&r->lost, 1);
	} else if (dice & 1) {
		if (flat_note(&hit, ipv4, hit.sent | (dice & 2 ? FLOW_SENT_ON : FLOW_SENT)))
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
	__u32 record = skb->cb[0];
	struct flat_record *r = flat_record_at(record, ipv4);
	__u64 control;

	if (!r)
		return 0;
	control = FLAT_READ(r->control);
	return flat_control_is_live(control) ? flat_end(record, ipv4, control) : 0;
}

char _license[] SEC("license") = "GPL";
