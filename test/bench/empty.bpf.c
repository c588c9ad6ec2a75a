/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* empty.bpf.c: a tc program that does nothing: what a run costs by itself. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <linux/pkt_cls.h>

SEC("tc")
int empty(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
