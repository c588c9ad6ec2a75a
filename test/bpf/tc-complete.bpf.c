/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * tc-complete.bpf.c: stands behind waggle's programs in a test and compares the sum over
 * the packet that the kernel carries along (CHECKSUM_COMPLETE) with the packet.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define MAX_WORDS 128

enum verdict { NO_SUM, RIGHT, WRONG, TOO_LONG, VERDICTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VERDICTS);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

/* Ones' complement: 0 and 0xffff are one number. */
static __u32 fold(__u64 sum)
{
	return sum % 0xffff;
}

static __u32 judge(struct __sk_buff *skb)
{
	__u32 length = skb->len - ETH_HLEN;
	__s64 carried = bpf_csum_update(skb, 0);
	__u64 sum = 0;
	__u32 i;

	if (carried < 0)
		return NO_SUM;
	if (length > MAX_WORDS * 2)
		return TOO_LONG;
	for (i = 0; i < MAX_WORDS && i * 2 < length; i++) {
		__u32 offset = ETH_HLEN + i * 2;
		__u16 word = 0;

		if (i * 2 + 1 == length)
			bpf_skb_load_bytes(skb, offset, &word, 1);
		else
			bpf_skb_load_bytes(skb, offset, &word, 2);
		sum += word;
	}
	return fold((__u32)carried) == fold(sum) ? RIGHT : WRONG;
}

SEC("tc")
int observe(struct __sk_buff *skb)
{
	__u32 key = judge(skb);
	__u64 *count = bpf_map_lookup_elem(&verdicts, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
