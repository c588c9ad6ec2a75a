/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_store_flat.h: flows as records in arrays of our own (flat_table.h); flow_store.h says
 * what is asked of it. Needs compare-and-swap in BPF (Linux 5.12).
 *
 * What a packet finds is a copy. A record's place is the flow's place for the hand.
 *
 * maps  flat_hand_v1 (read, write); the table's
 */
#ifndef WAGGLE_LIB_FLOW_STORE_OF_THIS_OBJECT
#define WAGGLE_LIB_FLOW_STORE_OF_THIS_OBJECT

#include "flat_add.h"
#include "flat_place.h"
#include "flat_table.h"
#include "flow_store.h"

static __always_inline bool flow_store_has(const struct tuple *key)
{
	struct flow_half half = {};

	return flat_index_find(key, FLAT_AS_IT_IS, NULL, &half);
}

/* out   true with *to, *half; false: there is no flow */
static __always_inline bool flow_store_find(const struct tuple *key, struct tuple *to,
					    struct flow_half *half)
{
	/* Linux 6.1 wants to see it written before a global function has it. */
	__builtin_memset(half, 0, sizeof(*half));
	return flat_index_find(key, FLAT_AS_IT_IS, to, half);
}

static __always_inline bool flow_store_backend_is_current(const struct flow_half *half)
{
	return flat_backend_is_current(half->backend, half->generation);
}

/* Of either direction. */
static __always_inline __s64 flow_store_idle_ns(const struct flow_half *half)
{
	return flat_control_idle_ns(half->control);
}

/* Of a packet of the client. */
static __always_inline bool flow_store_is_over(__u8 proto, const struct flow_half *half)
{
	return flat_is_over(half->control, proto, half->backend, half->generation);
}

/* out   false: it has ended meanwhile */
static __always_inline bool flow_store_note(const struct flow_half *half, __u8 sent)
{
	return flat_note(half, sent);
}

/* If it is as it was found: a packet that came meanwhile keeps it. */
static __always_inline void flow_store_end(const struct tuple *key, const struct flow_half *half)
{
	(void)key;
	flat_end(half->place, half->control);
}

/*
 * in    to: what the packets become whose replies are asked about
 * out   enum flow_direction of who would take them for its own; 0: nobody
 */
static __always_inline int flow_store_stays(const struct tuple *to)
{
	struct flow_half half = {};

	if (!flat_index_find(to, FLAT_EXCHANGED, NULL, &half))
		return 0;
	if (half.direction != FLOW_REPLY || !flow_store_is_over(to->proto, &half))
		return half.direction;
	return flat_end(half.place, half.control) ? 0 : FLOW_REPLY;
}

static __always_inline __u32 flow_store_claim(bool ipv4)
{
	return flat_claim(ipv4);
}

static __always_inline void flow_store_give_back(__u32 place)
{
	flat_give_back(place);
}

static __always_inline int flow_store_add(const struct tuple *from, const struct tuple *to,
					  const struct flow_new *new)
{
	return flat_add(from, to, new);
}

static __always_inline struct flow_hand *flow_store_hand(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&flat_hand_v1, &zero);
}

/* Of each family. */
static __always_inline __u32 flow_store_places(void)
{
	return flat_records();
}

static __always_inline void flow_store_sweep(__u32 place)
{
	flat_sweep(1 + place);
	flat_sweep((1 + place) | FLAT_PLACE_IPV4);
}

#endif
