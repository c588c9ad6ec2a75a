/* SPDX-License-Identifier: Apache-2.0 */
/* One of each thing that the addon's tests load. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 cfg_answer SEC(".rodata.config") = 1;
const volatile __u8 cfg_flag SEC(".rodata.config") = 0;

struct cell {
	__u32 stored;
	__u32 seen;
	__u32 more;	/* 12 bytes: elements are 16 apart in memory */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1000);
	__type(key, __u32);
	__type(value, struct cell);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

/* libbpf would pin this one by itself. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, __u32);
	__type(value, __u32);
} waggle_autopin SEC(".maps");

SEC("tc") int answer(struct __sk_buff *skb)
{
	__u32 key = 0;

	if (cfg_flag && bpf_map_lookup_elem(&waggle_autopin, &key))
		skb->mark = cfg_flag;
	return cfg_answer;
}

/* Copies cells[1].stored, which user space writes through memory, to cells[1].seen. */
SEC("tc") int copy_cell(struct __sk_buff *skb)
{
	__u32 key = 1;
	struct cell *cell = bpf_map_lookup_elem(&cells, &key);

	if (!cell)
		return 0;
	cell->seen = cell->stored;
	return cell->stored + skb->mark;
}

SEC("tc") int put_word(struct __sk_buff *skb)
{
	__u32 key = skb->mark;
	__u64 value = skb->len;

	return bpf_map_update_elem(&words, &key, &value, BPF_ANY) ? 1 : 0;
}

SEC("tc") int count(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 one = 1, *runs = bpf_map_lookup_elem(&words, &key);

	if (runs)
		*runs += 1;
	else
		bpf_map_update_elem(&words, &key, &one, BPF_ANY);
	return skb->mark;
}

/* A record of 8 bytes, then one of 3. */
SEC("tc") int emit(struct __sk_buff *skb)
{
	__u64 first = 0x1122334455667700 + skb->mark;
	char second[3] = { 'a', 'b', 'c' };

	bpf_ringbuf_output(&events, &first, sizeof(first), 0);
	return bpf_ringbuf_output(&events, second, sizeof(second), 0) ? 1 : 0;
}

SEC("xdp") int grow(struct xdp_md *ctx)
{
	return bpf_xdp_adjust_head(ctx, -16) ? XDP_DROP : XDP_PASS;
}

SEC("cgroup/connect4") int refuse(struct bpf_sock_addr *ctx)
{
	return ctx->user_port == 0;
}

SEC("cgroup/connect4") int allow(struct bpf_sock_addr *ctx)
{
	return ctx->user_port != 0;
}
