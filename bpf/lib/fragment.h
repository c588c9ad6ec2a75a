/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * fragment.h: which flow is this later fragment of?
 *
 * Only the first fragment has ports. What it said is remembered under {source,
 * destination, id, protocol}, and later ones get its ports: then they are packets of
 * its flow like any other. One that comes before its first is held (fragment_hold.h).
 *
 * maps  fragments_v1 (read, write)
 */
#ifndef WAGGLE_LIB_FRAGMENT_H
#define WAGGLE_LIB_FRAGMENT_H

#include "../maps.h"
#include "affinity.h"
#include "clock.h"
#include "packet.h"

/* As long as Linux waits for the rest of a datagram (net.ipv4.ipfrag_time). */
#define FRAGMENT_TIMEOUT_NS (30 * NSEC_PER_SEC)

static __always_inline void fragment_key_make(struct fragment_key *key, const struct packet *p)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->src = p->tuple.src;
	key->dst = p->tuple.dst;
	key->id = p->fragment_id;
	key->proto = p->ipv4 ? p->tuple.proto : 0;
}

/* What is known of the datagram, or NULL. */
static __always_inline const struct fragment *fragment_get(const struct fragment_key *key)
{
	const struct fragment *first = bpf_map_lookup_elem(&fragments_v1, key);

	if (!first || clock_coarse_ns() - first->seen_ns > FRAGMENT_TIMEOUT_NS)
		return NULL;
	return first;
}

/*
 * Makes later fragment p one of the flow that `first` is of.
 *
 * out   0 with the tuple complete; OUTCOME_FRAGMENT: no Service's
 */
static __always_inline int fragment_join(struct packet *p, const struct fragment *first)
{
	if (first->ignore)
		return OUTCOME_FRAGMENT;
	p->tuple.sport = first->sport;
	p->tuple.dport = first->dport;
	p->tuple.proto = first->proto;
	p->backend = first->backend;
	/* It would replace what the first one was judged by (RFC 1858 4). */
	if ((p->fragment & FRAGMENT_OFFSET) * 8 < first->size)
		p->defect = OUTCOME_BAD_FRAGMENT;
	return OUTCOME_CONTINUE;
}

/*
 * Notes what first fragment p is part of; ignore: no Service's. A write that fails means
 * that its later fragments count as unknown. A function of its own: whole datagrams do without
 * what it has on the stack.
 */
static __noinline void fragment_remember(const struct packet *p, bool ignore)
{
	struct fragment first = {
		.seen_ns = clock_coarse_ns(),
		.sport = p->tuple.sport,
		.dport = p->tuple.dport,
		.size = p->payload,
		.proto = p->tuple.proto,
		.ignore = ignore,
		.backend = p->backend,
	};
	struct fragment_key key;

	fragment_key_make(&key, p);
	bpf_map_update_elem(&fragments_v1, &key, &first, BPF_ANY);
}

/* At egress: fragments leave in order, since this node made them or put them in order. */
static __noinline int fragment_find(struct packet *p)
{
	const struct fragment *first;
	struct fragment_key key;

	fragment_key_make(&key, p);
	first = fragment_get(&key);
	return first ? fragment_join(p, first) : OUTCOME_FRAGMENT;
}

#endif
