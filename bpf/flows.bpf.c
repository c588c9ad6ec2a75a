/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flows.bpf.c: ends flows whose time is over, at the agent's request, so that what is
 * shown and counted is true. New flows collect them, too; the agent does not
 * do it itself, since milliseconds lie between its look at a flow and its end of it.
 *
 * Attached nowhere: the agent runs it with BPF_PROG_TEST_RUN, on bytes that nobody looks
 * at. Each run looks at the next SWEEP_PLACES places.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "lib/context_skb.h"

#include "lib/flow_store_hash.h"

#define SWEEP_PLACES 64

SEC("tc")
int flow_sweep(struct __sk_buff *skb)
{
	struct flow_hand *hand = flow_store_hand();
	__u32 places = flow_store_places();
	__u64 from;
	int i;

	(void)skb;
	if (!hand || !places)
		return TC_ACT_UNSPEC;
	from = __sync_fetch_and_add(&hand->swept, SWEEP_PLACES);
	for (i = 0; i < SWEEP_PLACES; i++)
		flow_store_sweep((from + i) & (places - 1));
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
