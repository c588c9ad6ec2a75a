/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * fragment_hold.h: later fragments that arrive before their first one.
 *
 * Nothing tells whose they are, and a tc program cannot make a packet wait. So a copy is
 * stored, and when the first fragment turns out to be a Service's, it goes round once
 * more (clone, to the ingress of the same device) with the copies behind it: from then
 * on they are in order. That is bounded: a datagram has sixteen places, all together
 * have held_frags_v1, and who does not send a first fragment in time only pushes out others
 * that came before their first.
 *
 * The packet itself is dropped when its address is a Service's alone, and goes on when
 * it is the node's own: it may be for the host, whose reassembly must miss nothing. The
 * copy is then one too many, and is forgotten.
 *
 * maps  held_frags_v1, held_buf_v1 (read, write), fragments_v1, devices_v1 (read)
 */
#ifndef WAGGLE_LIB_FRAGMENT_HOLD_H
#define WAGGLE_LIB_FRAGMENT_HOLD_H

#include "bound.h"
#include "fragment.h"
#include "frontend_lookup.h"

/* What waits for longer is no disorder: the network re-orders within milliseconds. */
#define FRAGMENT_HOLD_NS (2 * NSEC_PER_SEC)
/* Of one datagram: 24 kB in fragments of 1,500. */
#define FRAGMENT_HOLD_SLOTS 16

static __always_inline bool held_is_fresh(const struct held_fragment *held)
{
	return clock_coarse_ns() - held->seen_ns < FRAGMENT_HOLD_NS;
}

/* Stores a copy of packet p; false when it is too large or all places are taken. */
static __always_inline bool fragment_store(const struct packet *p, struct fragment_key *key)
{
	const struct held_fragment *there;
	struct held_fragment *copy;
	__u32 size = p->ctx->len;
	__u32 zero = 0;
	int i;

	copy = bpf_map_lookup_elem(&held_buf_v1, &zero);
	if (!copy || !size_is_valid(&size, HELD_FRAME_MAX) ||
	    bpf_skb_load_bytes(p->ctx, 0, copy->frame, size))
		return false;
	copy->seen_ns = clock_coarse_ns();
	copy->size = size;
	for (i = 0; i < FRAGMENT_HOLD_SLOTS; i++) {
		key->slot = i;
		there = bpf_map_lookup_elem(&held_frags_v1, key);
		if (there && held_is_fresh(there))
			continue;
		if (!bpf_map_update_elem(&held_frags_v1, key, copy, there ? BPF_ANY : BPF_NOEXIST))
			return true;
	}
	return false;
}

/* An address of this node on the device by which the packet came. */
static __always_inline bool fragment_is_for_node(const struct packet *p)
{
	__u32 ifindex = p->ctx->ifindex;
	const struct device *device = bpf_map_lookup_elem(&devices_v1, &ifindex);

	return device && addr_equal(&p->tuple.dst, p->ipv4 ? &device->addr4 : &device->addr6);
}

/* A later fragment of which nothing is known yet. */
static __always_inline int fragment_hold(struct packet *p, struct fragment_key *key)
{
	const struct frontend *address = frontend_find(&p->tuple.dst, 0, 0);
	bool for_node =
		address ? address->flags & FRONTEND_FLAG_OWN_ADDRESS : fragment_is_for_node(p);
	const struct fragment *first;

	if (!address && !for_node)
		return OUTCOME_FRAGMENT;
	if (!fragment_store(p, key))
		return for_node ? OUTCOME_FRAGMENT : -OUTCOME_FRAGMENT;
	/* The first one may have come while the copy was made, and not have seen it. */
	key->slot = 0;
	first = fragment_get(key);
	if (first)
		return fragment_join(p, first);
	return for_node ? OUTCOME_FRAGMENT_HELD : -OUTCOME_FRAGMENT_HELD;
}

/* At ingress: out as fragment_join; OUTCOME_FRAGMENT_HELD or its negative. */
static __noinline int fragment_find_or_hold(struct packet *p)
{
	const struct fragment *first;
	struct fragment_key key;

	fragment_key_make(&key, p);
	first = fragment_get(&key);
	return first ? fragment_join(p, first) : fragment_hold(p, &key);
}

/* Turns the packet into a copy that waited and sends it after the others. */
static __always_inline void fragment_send_held(const struct packet *p,
					       const struct fragment_key *key)
{
	struct held_fragment *held = bpf_map_lookup_elem(&held_frags_v1, key);
	__u32 size;

	if (!held)
		return;
	size = held->size;
	if (held_is_fresh(held) && size_is_valid(&size, HELD_FRAME_MAX) &&
	    !bpf_skb_change_tail(p->ctx, size, 0) &&
	    !bpf_skb_store_bytes(p->ctx, 0, held->frame, size,
				 BPF_F_RECOMPUTE_CSUM | BPF_F_INVALIDATE_HASH))
		bpf_clone_redirect(p->ctx, p->ctx->ifindex, BPF_F_INGRESS);
	bpf_map_delete_elem(&held_frags_v1, key);
}

/*
 * Do fragments wait for first fragment p, which has a flow? Then it goes round again with
 * them behind it, and this skb, which was turned into each of them, is done with.
 *
 * out   0: none; -OUTCOME_FRAGMENT_RELEASED
 */
static __noinline int fragment_release(struct packet *p)
{
	struct fragment_key key;
	int i;

	fragment_key_make(&key, p);
	if (!bpf_map_lookup_elem(&held_frags_v1, &key))
		return OUTCOME_CONTINUE;
	bpf_clone_redirect(p->ctx, p->ctx->ifindex, BPF_F_INGRESS);
	for (i = 0; i < FRAGMENT_HOLD_SLOTS; i++) {
		key.slot = i;
		fragment_send_held(p, &key);
	}
	return -OUTCOME_FRAGMENT_RELEASED;
}

/*
 * Notes for the later ones what first fragment p is part of.
 *
 * in    ret, what became of it: 0 = a Service's; OUTCOME_KERNEL_FLOW: that, but the stack's
 * out   ret; -OUTCOME_FRAGMENT_RELEASED
 */
static __always_inline int fragment_settle(struct packet *p, int ret)
{
	if (!ret) {
		fragment_remember(p, false);
		return fragment_release(p);
	}
	/* Spares the host's own fragments being held. */
	if (ret > 0 && fragment_is_for_node(p)) {
		fragment_remember(p, true);
	} else if (ret == OUTCOME_KERNEL_FLOW) {
		fragment_remember(p, true);
		return fragment_release(p) ?: ret;
	}
	return ret;
}

#endif
