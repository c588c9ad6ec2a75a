/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * context_skb.h: how a tc program reads and writes its packet, and what it knows of it
 * besides the bytes.
 *
 * context_xdp.h has the same functions for XDP, and an entry file includes one of the two
 * before all else: so the steps that parse a packet, find its flow and translate it are the
 * same at both hooks. A step that only tc has uses the helpers for skbs itself.
 *
 * Packets are written by helpers alone: a program with direct writes makes the kernel copy
 * the headers of every cloned skb before it runs, and at egress each TCP segment is a clone.
 */
#ifndef WAGGLE_LIB_CONTEXT_H
#define WAGGLE_LIB_CONTEXT_H

#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

typedef struct __sk_buff context;

/* How a redirected packet finds its next hop: by the kernel, which asks for the neighbour. */
typedef struct bpf_redir_neigh next_hop;

/* The kernel's function that asks its connection tracking. */
#define CONTEXT_CT_LOOKUP bpf_skb_ct_lookup

#define VLAN_ID_MASK 0x0fff

/* Bytes, from the Ethernet header on where there is one. */
static __always_inline __u32 context_size(const context *ctx)
{
	return ctx->len;
}

static __always_inline __u32 context_ifindex(const context *ctx)
{
	return ctx->ifindex;
}

/* What the IP header claims to be (ETH_P_*, network order). */
static __always_inline __be16 context_protocol(const context *ctx)
{
	return ctx->protocol;
}

/* A priority tag (VLAN 0) is no VLAN. */
static __always_inline bool context_has_vlan(const context *ctx)
{
	return ctx->vlan_present && ctx->vlan_tci & VLAN_ID_MASK;
}

/*
 * Is it addressed to this machine's MAC? A frame for another one reaches us when a switch
 * floods it and the device listens to all (a capture does that): whom it is for answers it
 * too.
 */
static __always_inline bool context_is_for_host(const context *ctx)
{
	return ctx->pkt_type == PACKET_HOST;
}

/* Bytes of payload in each segment of a packet that is several; 0 = it is one. */
static __always_inline __u32 context_segment_size(const context *ctx)
{
	return ctx->gso_size;
}

/*
 * size bytes at offset, or NULL when the packet is shorter. Bytes that lie outside the
 * linear part are pulled into it, which ends the life of every earlier pointer.
 */
static __always_inline const void *context_bytes(context *ctx, __u32 offset, __u32 size)
{
	const void *data;

	/*
	 * Makes clang (14) load data and data_end anew. It keeps the ones of an earlier call as
	 * 32 bits otherwise, and the verifier no longer knows them for packet pointers.
	 */
	asm volatile("" : "+r"(ctx));
	data = (void *)(long)ctx->data;
	if (data + offset + size <= (void *)(long)ctx->data_end)
		return data + offset;
	if (offset + size > ctx->len || bpf_skb_pull_data(ctx, offset + size))
		return NULL;
	data = (void *)(long)ctx->data;
	if (data + offset + size <= (void *)(long)ctx->data_end)
		return data + offset;
	return NULL;
}

/* Copies size bytes at offset to `to`; not 0 when the packet is shorter. */
static __always_inline long context_load(context *ctx, __u32 offset, void *to, __u32 size)
{
	return bpf_skb_load_bytes(ctx, offset, to, size);
}

/* Writes size bytes at offset. Checksums are the caller's business. */
static __always_inline long context_store(context *ctx, __u32 offset, const void *from, __u32 size)
{
	return bpf_skb_store_bytes(ctx, offset, from, size, 0);
}

/*
 * Tells the transport checksum at offset of what changed: the addresses (addr_diff, see
 * csum.h), which it covers by the pseudo header, and the two ports. For a packet whose
 * checksum the device is to finish the field holds the pseudo header alone, so the two are
 * told apart. A UDP checksum of zero means "none" and stays.
 */
static __always_inline long context_update_sum(context *ctx, __u32 offset, bool udp,
					       __u32 addr_diff, __u32 old_ports, __u32 new_ports)
{
	__u64 flags = udp ? BPF_F_MARK_MANGLED_0 : 0;
	long err;

	err = bpf_l4_csum_replace(ctx, offset, 0, addr_diff, flags | BPF_F_PSEUDO_HDR);
	if (err || old_ports == new_ports)
		return err;
	return bpf_l4_csum_replace(ctx, offset, old_ports, new_ports, flags | sizeof(new_ports));
}

/*
 * Is the checksum at offset, whose field is zero, left to the device (CHECKSUM_PARTIAL)? No
 * helper tells, but one changes a field for a change of the data only when it is complete.
 */
static __always_inline bool context_sum_is_unfinished(context *ctx, __u32 offset)
{
	const __sum16 zero = 0;
	__sum16 changed = 0;

	if (bpf_l4_csum_replace(ctx, offset, 0, 1, 0) ||
	    context_load(ctx, offset, &changed, sizeof(changed)) || !changed)
		return true;
	context_store(ctx, offset, &zero, sizeof(zero));
	return false;
}

/*
 * IPv6 has no header checksum that would level out what changes, so a sum over the whole
 * packet that the device may have delivered (CHECKSUM_COMPLETE) has to be told of the
 * addresses: bpf_l4_csum_replace took them for levelled out as in IPv4 (BPF_F_IPV6 of
 * Linux 6.16 is the other way; this one works on all kernels). An error of
 * bpf_csum_update says that there is no such sum.
 */
static __always_inline void context_update_complete_sum(context *ctx, __u32 addr_diff)
{
	bpf_csum_update(ctx, addr_diff);
}

/*
 * What a route look-up found (BPF_FIB_LKUP_RET_*): false when the packet cannot go by it.
 * An unknown neighbour is no obstacle: the redirect asks for it. An IPv4 route may lead
 * through an IPv6 neighbour (RFC 5549), so the result's family counts.
 */
static __always_inline bool context_take_route(next_hop *next, const struct bpf_fib_lookup *fib,
					       long found)
{
	if (found != BPF_FIB_LKUP_RET_SUCCESS && found != BPF_FIB_LKUP_RET_NO_NEIGH)
		return false;
	next->nh_family = fib->family;
	__builtin_memcpy(next->ipv6_nh, fib->ipv6_dst, sizeof(next->ipv6_nh));
	return true;
}

/* Is it for this program to say, and to count, that the packet is refused? */
static __always_inline bool context_has_last_word(int refusal)
{
	(void)refusal;
	return true;
}

#endif
