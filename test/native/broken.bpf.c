/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a packet without asking how long it is: the verifier refuses. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("tc") int unchecked(struct __sk_buff *skb)
{
	return *(__u8 *)(long)skb->data;
}
