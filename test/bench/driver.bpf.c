/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * driver.bpf.c: gives a tc program another packet each time it runs.
 *
 * BPF_PROG_TEST_RUN repeats a program on one packet, which is then what the last run made
 * of it. `drive` puts the next of many frames in its place and tail-calls the program under
 * test; with `empty` instead of that it is what a run costs by itself.
 *
 * maps  drive_frames, drive_state, drive_targets
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * From the source MAC address on, so that the words of the copy lie as the IP headers do: a
 * program that reads across two stores of ours would wait for them. Enough for Ethernet,
 * IPv6 and TCP headers.
 */
#define FRAME_OFFSET 6
#define FRAME_WORDS  9
#define MAX_FRAMES   65536
#define TARGETS	     8

struct frame {
	__u64 words[FRAME_WORDS];
};

struct drive_state {
	__u32 next;
	__u32 count;  /* frames in use */
	__u32 target; /* index into drive_targets */
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_FRAMES);
	__type(key, __u32);
	__type(value, struct frame);
} drive_frames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct drive_state);
} drive_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} drive_targets SEC(".maps");

SEC("tc")
int drive(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct drive_state *state = bpf_map_lookup_elem(&drive_state, &zero);
	struct frame *to = (void *)(long)skb->data + FRAME_OFFSET;
	const struct frame *frame;
	__u32 index;
	int i;

	if (!state)
		return TC_ACT_SHOT;
	index = state->next;
	state->next = index + 1 < state->count ? index + 1 : 0;
	frame = bpf_map_lookup_elem(&drive_frames, &index);
	if (!frame || (void *)(to + 1) > (void *)(long)skb->data_end)
		return TC_ACT_SHOT;
#pragma unroll
	for (i = 0; i < FRAME_WORDS; i++)
		to->words[i] = frame->words[i];
	bpf_tail_call(skb, &drive_targets, state->target);
	return TC_ACT_SHOT;
}

SEC("tc")
int empty(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}

/* Ends datagrams where they arrive, for what is measured before them. */
SEC("tc")
int sink(struct __sk_buff *skb)
{
	bool ipv6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	__u32 offset = ETH_HLEN + (ipv6 ? offsetof(struct ipv6hdr, nexthdr) :
					  offsetof(struct iphdr, protocol));
	__u8 protocol;

	if (bpf_skb_load_bytes(skb, offset, &protocol, sizeof(protocol)))
		return TC_ACT_UNSPEC;
	return protocol == IPPROTO_UDP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
