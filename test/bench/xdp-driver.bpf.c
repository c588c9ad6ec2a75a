/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * xdp-driver.bpf.c: what the XDP benchmark needs besides the programs under test.
 *
 * generate   run on live frames: each becomes the next of many, and goes to a device
 * send_only  at a device: gives a frame the MACs of the next hop and sends it, no more
 * discard    at a device: ends a frame
 *
 * maps  frames, generator
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

/* Enough for Ethernet, IPv6, UDP and a payload of 18 bytes. */
#define FRAME_WORDS 10
#define MAX_FRAMES  65536

struct frame {
	__u64 words[FRAME_WORDS];
};

struct generator {
	__u32 next;
	__u32 count; /* frames in use */
	__u32 ifindex;
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_FRAMES);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generator);
} generator SEC(".maps");

/* Where send_only sends to. */
const volatile __u32 cfg_ifindex = 0;
const volatile __u8 cfg_macs[2 * ETH_ALEN] = {};

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	struct frame *to = (void *)(long)ctx->data;
	const struct frame *frame;
	struct generator *state;
	__u32 index = 0;
	int i;

	state = bpf_map_lookup_elem(&generator, &index);
	if (!state)
		return XDP_ABORTED;
	index = state->next;
	state->next = index + 1 < state->count ? index + 1 : 0;
	frame = bpf_map_lookup_elem(&frames, &index);
	if (!frame || (void *)(to + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
#pragma unroll
	for (i = 0; i < FRAME_WORDS; i++)
		to->words[i] = frame->words[i];
	return bpf_redirect(state->ifindex, 0);
}

SEC("xdp")
int send_only(struct xdp_md *ctx)
{
	__u8 *macs = (void *)(long)ctx->data;
	int i;

	if ((void *)(macs + 2 * ETH_ALEN) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
#pragma unroll
	for (i = 0; i < 2 * ETH_ALEN; i++)
		macs[i] = cfg_macs[i];
	return bpf_redirect(cfg_ifindex, 0);
}

SEC("xdp")
int discard(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
