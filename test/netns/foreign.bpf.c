/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Programs of somebody else: they count and let everything pass. The tests attach them
 * beside ours and look whether they go on running.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} foreign_runs SEC(".maps");

static __always_inline void count(void)
{
	__u32 key = 0;
	__u64 *runs = bpf_map_lookup_elem(&foreign_runs, &key);

	if (runs)
		__sync_fetch_and_add(runs, 1);
}

SEC("cgroup/connect4")
int foreign_connect(struct bpf_sock_addr *ctx)
{
	count();
	return 1;
}

SEC("tc")
int foreign_tc(struct __sk_buff *skb)
{
	count();
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int foreign_xdp(struct xdp_md *ctx)
{
	(void)ctx;
	count();
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
