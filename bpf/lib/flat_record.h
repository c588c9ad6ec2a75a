/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat_record.h: reads and writes one record of the flat flow table.
 *
 * Records of the two families have one beginning and keys of their own sizes; only this
 * header knows. ipv4 is what addr_is_ipv4() says of the flow's addresses.
 *
 * Nobody waits for who still looks at a record before it is taken again. So a reader
 * looks at the control word before and behind what it copies: of one age and live both
 * times, what stands between is that flow's (the keys are written before a record is
 * live, and not while it is).
 *
 * maps  flat_recs4_v1, flat_recs6_v1 (read, write)
 */
#ifndef WAGGLE_LIB_FLAT_RECORD_H
#define WAGGLE_LIB_FLAT_RECORD_H

#include <stdbool.h>

#include "../maps_flow_flat.h"
#include "addr.h"
#include "clock.h"
#include "packet.h"

/* A place of flow_hand.h is a record's number, and says whether it is one for IPv4. */
#define FLAT_PLACE_IPV4 0x40000000U

#define FLAT_READ(x) (*(const volatile __typeof__(x) *)&(x))
/* Full barriers: on arm64, too, whatever was written before is there before the new value is. */
#define FLAT_SWAP(at, old, new) __sync_val_compare_and_swap(at, old, new)
#define FLAT_PUT(at, new)	__sync_lock_test_and_set(at, new)

#define FLAT_CONTROL_STATE    7ULL
#define FLAT_CONTROL_SENT     0xfULL
#define FLAT_CONTROL_CLAIMED  0x3fULL
#define FLAT_CONTROL_AGE      (0x7fffULL << FLAT_CONTROL_AGE_AT)
#define FLAT_CONTROL_AGE_STEP (1ULL << FLAT_CONTROL_AGE_AT)

static __always_inline enum flat_record_state flat_control_state(__u64 control)
{
	return control & FLAT_CONTROL_STATE;
}

static __always_inline bool flat_control_is_live(__u64 control)
{
	return flat_control_state(control) == FLAT_RECORD_LIVE;
}

/* Whether two looks at a record met the same flow. */
static __always_inline bool flat_control_same_age(__u64 a, __u64 b)
{
	return !((a ^ b) & FLAT_CONTROL_AGE);
}

static __always_inline __u64 flat_control_with(__u64 control, enum flat_record_state state)
{
	return (control & ~FLAT_CONTROL_STATE) | state;
}

/* enum flow_sent of one direction. */
static __always_inline __u8 flat_control_sent(__u64 control, __u32 at)
{
	return control >> at & FLAT_CONTROL_SENT;
}

static __always_inline __u32 flat_control_now(void)
{
	return clock_coarse_ns() >> FLAT_CONTROL_TICK_BITS;
}

/* Nanoseconds since the last packet; signed: another CPU may have seen a later tick than this one.
 */
static __always_inline __s64 flat_control_idle_ns(__u64 control)
{
	__s32 ticks = flat_control_now() - (__u32)(control >> FLAT_CONTROL_SEEN_AT);

	return (__s64)ticks << FLAT_CONTROL_TICK_BITS;
}

/* Whether the processor does loads in the order of the program, as x86 does; set by the loader. */
const volatile bool cfg_loads_in_order = false;

/*
 * The pointer, not to be followed before value is there. Elsewhere, as on arm64, loads are in
 * order only behind a dependency, and BPF has no barrier for them below Linux 6.15; where they
 * are anyway, a dependency would keep two cache misses apart.
 */
static __always_inline const void *flat_behind(const void *pointer, __u64 value)
{
	if (cfg_loads_in_order)
		asm volatile("" : "+r"(pointer) : "r"(value) : "memory");
	else
		asm volatile("%1 &= 0\n\t%0 += %1" : "+r"(pointer), "+r"(value) : : "memory");
	return pointer;
}

static __always_inline struct flat_record *flat_record_ipv4(__u32 record)
{
	return bpf_map_lookup_elem(&flat_recs4_v1, &record);
}

static __always_inline struct flat_record *flat_record_ipv6(__u32 record)
{
	return bpf_map_lookup_elem(&flat_recs6_v1, &record);
}

static __always_inline bool flat_place_is_ipv4(__u32 place)
{
	return place & FLAT_PLACE_IPV4;
}

static __always_inline __u32 flat_place_record(__u32 place)
{
	return place & ~FLAT_PLACE_IPV4;
}

/*
 * What both families have of a record. Keys are reached by the functions above, with a
 * constant for ipv4 behind: the verifier does not keep in mind which one a pointer is of.
 */
static __always_inline struct flat_record *flat_record_at(__u32 place)
{
	return flat_place_is_ipv4(place) ? flat_record_ipv4(flat_place_record(place)) :
					   flat_record_ipv6(place);
}

/* What packets of one direction become: the other key, exchanged. Returns all that was read, in one
 * word, for flat_behind(). */
static __always_inline __u32 flat_record_to(const struct flat_record *r, bool ipv4, __u8 direction,
					    struct tuple *to)
{
	__u32 read = 0;
	int i;

	if (ipv4) {
		const struct flat_record4 *r4 = (const void *)r;
		const struct flat_key4 *k = direction == FLOW_FORWARD ? &r4->backend : &r4->client;

		addr_from_ipv4(&to->src, k->dst);
		addr_from_ipv4(&to->dst, k->src);
		to->sport = k->dport;
		to->dport = k->sport;
		read = k->src | k->dst | k->sport | k->dport;
	} else {
		const struct flat_record6 *r6 = (const void *)r;
		const struct flat_key6 *k = direction == FLOW_FORWARD ? &r6->backend : &r6->client;

		for (i = 0; i < 4; i++) {
			to->src.w[i] = k->dst.w[i];
			to->dst.w[i] = k->src.w[i];
			read |= k->dst.w[i] | k->src.w[i];
		}
		to->sport = k->dport;
		to->dport = k->sport;
		read |= k->sport | k->dport;
	}
	to->proto = r->proto;
	return read;
}

static __always_inline void flat_record_write(struct flat_record *r, bool ipv4,
					      const struct tuple *client, const struct tuple *to)
{
	r->proto = client->proto;
	if (ipv4) {
		struct flat_record4 *r4 = (void *)r;

		r4->client.src = client->src.w[3];
		r4->client.dst = client->dst.w[3];
		r4->client.sport = client->sport;
		r4->client.dport = client->dport;
		r4->backend.src = to->dst.w[3];
		r4->backend.dst = to->src.w[3];
		r4->backend.sport = to->dport;
		r4->backend.dport = to->sport;
	} else {
		struct flat_record6 *r6 = (void *)r;

		r6->client.src = client->src;
		r6->client.dst = client->dst;
		r6->client.sport = client->sport;
		r6->client.dport = client->dport;
		r6->backend.src = to->dst;
		r6->backend.dst = to->src;
		r6->backend.sport = to->dport;
		r6->backend.dport = to->sport;
	}
}

/* As what a tuple is meant. A number of bytes, so that nobody has to branch on it: the verifier
 * would go both ways through all that follows. */
enum flat_as {
	FLAT_AS_IT_IS = 0,
	FLAT_EXCHANGED = sizeof(struct ip_addr), /* of packets that go the other way */
};

/* The source address of a tuple that is meant as enum flat_as says; with the other one of
 * the two, its destination. */
static __always_inline const __be32 *flat_as_src(const struct tuple *key, __u32 as)
{
	asm volatile("" : "+r"(as));
	return (const void *)key + (as & FLAT_EXCHANGED);
}

static __always_inline const __be32 *flat_as_dst(const struct tuple *key, __u32 as)
{
	return flat_as_src(key, as ^ FLAT_EXCHANGED);
}

/* Both ports, as they stand side by side in a packet. */
static __always_inline __u32 flat_as_ports(const struct tuple *key, __u32 as)
{
	__u32 ports = key->sport | (__u32)key->dport << 16;

	as &= FLAT_EXCHANGED;
	return ports >> as | ports << as;
}

/* How one key of a record differs from a tuple: 0 = not at all. as: enum flat_as. */
static __always_inline __u32 flat_record_differs(const struct flat_record *r, bool ipv4,
						 __u8 direction, const struct tuple *key, __u32 as)
{
	const __be32 *src = flat_as_src(key, as);
	const __be32 *dst = flat_as_dst(key, as);
	__u32 differs = r->proto ^ key->proto;
	__u32 ports = flat_as_ports(key, as);
	int i;

	if (ipv4) {
		const struct flat_record4 *r4 = (const void *)r;
		const struct flat_key4 *k = direction == FLOW_FORWARD ? &r4->client : &r4->backend;

		differs |= (k->src ^ src[3]) | (k->dst ^ dst[3]);
		return differs | ((k->sport | (__u32)k->dport << 16) ^ ports);
	} else {
		const struct flat_record6 *r6 = (const void *)r;
		const struct flat_key6 *k = direction == FLOW_FORWARD ? &r6->client : &r6->backend;

		for (i = 0; i < 4; i++)
			differs |= k->src.w[i] ^ src[i];
		for (i = 0; i < 4; i++)
			differs |= k->dst.w[i] ^ dst[i];
		return differs | ((k->sport | (__u32)k->dport << 16) ^ ports);
	}
}

#endif
