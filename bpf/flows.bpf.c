/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flows.bpf.c: ends flows whose time is over, at the agent's request, so that what is
 * shown and counted is true. New flows collect them, too; see lib/flow_slot.h for why
 * the agent does not do it itself.
 *
 * Attached nowhere: the agent runs it with BPF_PROG_TEST_RUN, on bytes that nobody looks
 * at. Each run looks at the next SWEEP_SLOTS slots.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "lib/context_skb.h"
#include "lib/flow_slot.h"

#define SWEEP_SLOTS 64

SEC("tc")
int flow_sweep(struct __sk_buff *skb)
{
	__u32 slots = ((const struct bpf_map *)&flow_slots_v1)->max_entries;
	__u32 zero = 0;
	struct flow_hand *hand = bpf_map_lookup_elem(&flow_hand_v1, &zero);
	__u64 from;
	int i;

	(void)skb;
	if (!hand || !slots)
		return TC_ACT_UNSPEC;
	from = __sync_fetch_and_add(&hand->swept, SWEEP_SLOTS);
	for (i = 0; i < SWEEP_SLOTS; i++)
		flow_slot_sweep((from + i) & (slots - 1));
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
