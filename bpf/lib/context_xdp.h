/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * context_xdp.h: what context_skb.h is for tc, for XDP: how a program reads and writes its
 * frame. There is no skb yet: no metadata, and nobody to ask for a neighbour.
 *
 * All of it lies in the first buffer, where headers always are. A frame that goes on in
 * further buffers looks cut short, and is left to the stack.
 */
#ifndef WAGGLE_LIB_CONTEXT_H
#define WAGGLE_LIB_CONTEXT_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "csum.h"
#include "refusal.h"

typedef struct xdp_md context;

/* How a frame finds its next hop: by MAC addresses that the kernel knows already. */
typedef struct {
	__u8 to[ETH_ALEN]; /* in the order of the Ethernet header */
	__u8 from[ETH_ALEN];
	bool known;
	bool back; /* by XDP_TX: xdp_leave.h */
} next_hop;

/* The kernel's function that asks its connection tracking. */
#define CONTEXT_CT_LOOKUP bpf_xdp_ct_lookup

/* Offsets beyond are no headers of a packet that XDP serves. */
#define CONTEXT_REACH 0x1ff

/*
 * size bytes at offset, or NULL when the first buffer is shorter.
 *
 * Both asm lines are for clang (14): it keeps data of an earlier call as 32 bits, and
 * compares another sum of data and offset than it uses, and the verifier follows neither.
 */
static __always_inline void *context_bytes(context *ctx, __u32 offset, __u32 size)
{
	void *bytes;

	if (offset > CONTEXT_REACH)
		return NULL;
	asm volatile("" : "+r"(ctx));
	bytes = (void *)(long)ctx->data + offset;
	asm volatile("" : "+r"(bytes));
	return bytes + size <= (void *)(long)ctx->data_end ? bytes : NULL;
}

/* Of the first buffer. The verifier wants pointers subtracted as 64 bits, so clang is told of them.
 */
static __always_inline __u32 context_size(const context *ctx)
{
	long begin = ctx->data;
	long size = ctx->data_end;

	asm volatile("" : "+r"(begin), "+r"(size));
	size -= begin;
	asm volatile("" : "+r"(size));
	return size;
}

static __always_inline __u32 context_ifindex(const context *ctx)
{
	return ctx->ingress_ifindex;
}

static __always_inline __be16 context_protocol(context *ctx)
{
	const struct ethhdr *eth = context_bytes(ctx, 0, sizeof(*eth));

	return eth ? eth->h_proto : 0;
}

/* A tag is in the frame, where context_protocol sees it. The agent keeps XDP off devices below VLAN
 * devices: hardware takes the tag out of a frame before XDP sees it. */
static __always_inline bool context_has_vlan(const context *ctx)
{
	(void)ctx;
	return false;
}

/* What GRO put together has a checksum that is left to the device: xdp_leave.h. */
static __always_inline __u32 context_segment_size(const context *ctx)
{
	(void)ctx;
	return 0;
}

/* By a helper: where this is done in a loop, pointers would multiply what the verifier has to see.
 */
static __always_inline long context_load(context *ctx, __u32 offset, void *to, __u32 size)
{
	return bpf_xdp_load_bytes(ctx, offset, to, size);
}

/* size is a constant. */
static __always_inline long context_store(context *ctx, __u32 offset, const void *from, __u32 size)
{
	void *bytes = context_bytes(ctx, offset, size);

	if (!bytes)
		return -1;
	__builtin_memcpy(bytes, from, size);
	return 0;
}

static __always_inline long context_update_sum(context *ctx, __u32 offset, bool udp,
					       __u32 addr_diff, __u32 old_ports, __u32 new_ports)
{
	__sum16 *check = context_bytes(ctx, offset, sizeof(*check));
	__sum16 changed;

	if (!check)
		return -1;
	if (udp && !*check)
		return 0;
	changed = csum_replace(*check, csum_add(addr_diff, csum_add(~old_ports, new_ports)));
	*check = udp && !changed ? (__sum16)0xffff : changed;
	return 0;
}

/* XDP leaves those to tc: xdp_leave.h. */
static __always_inline bool context_sum_is_unfinished(context *ctx, __u32 offset)
{
	(void)ctx;
	(void)offset;
	return false;
}

/* The device's sum over the whole frame is dropped by whoever changes it at XDP. */
static __always_inline void context_update_complete_sum(context *ctx, __u32 addr_diff)
{
	(void)ctx;
	(void)addr_diff;
}

/* An unknown neighbour is no obstacle here either: the flow is opened, and tc sends the packet. */
static __always_inline bool context_take_route(next_hop *next, const struct bpf_fib_lookup *fib,
					       long found)
{
	if (found != BPF_FIB_LKUP_RET_SUCCESS && found != BPF_FIB_LKUP_RET_NO_NEIGH)
		return false;
	next->known = found == BPF_FIB_LKUP_RET_SUCCESS;
	__builtin_memcpy(next->to, fib->dmac, sizeof(next->to));
	__builtin_memcpy(next->from, fib->smac, sizeof(next->from));
	return true;
}

/* A packet that is refused with an answer comes again at tc, which makes it. */
static __always_inline bool context_has_last_word(int refusal)
{
	return !refusal_is_answered(refusal);
}

#endif
