/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow_store.h: what flow.h asks of whoever keeps the flows, and what it is told.
 *
 * There are two stores: flow_store_hash.h, in a hash map of the kernel, and
 * flow_store_flat.h, in a table of our own. An entry file has the one that it includes first,
 * else the hash map. A store has these; half is one direction of a flow:
 *
 *   struct flow_half    half of a flow as a packet found it: direction, flags, sent, heard (as in
 *                       struct flow), backend, and what else the store has to know of it
 *   flow_store_find     the flow of a packet with this tuple, and what the packet becomes
 *   flow_store_has      whether there is one
 *   flow_store_backend_is_current  whether the flow's backend is there still
 *   flow_store_idle_ns  how long no packet was noted: of this direction, or of either
 *   flow_store_is_over  whether no packet of either came for as long as it may be silent
 *   flow_store_note     a packet of that flow has something to tell, or is the first for a second
 *   flow_store_end      ends a flow that was found
 *   flow_store_stays    whose would the replies be? A flow whose time is over is ended, and asked
 *                       no more
 *   flow_store_claim    a place for a new flow, or FLOW_PLACE_NONE
 *   flow_store_give_back  a place that no flow came to need
 *   flow_store_add      stores a new flow under both its tuples, or under none
 *   flow_store_hand     whose `swept` the sweep goes on with (flows.bpf.c)
 *   flow_store_places   how many places there are
 *   flow_store_sweep    ends the flow in one of them if its time is over
 *
 * What it must keep: a tuple is of one flow at most. A flow is found by both its tuples
 * until it ends. A confirmed flow ends by its time alone, whatever arrives. Room is made
 * by those who need it (flow_hand.h), whoever else is running.
 */
#ifndef WAGGLE_LIB_FLOW_STORE_H
#define WAGGLE_LIB_FLOW_STORE_H

#include "../layout/flow.h"
#include "../layout/outcome.h"

/* What flow.h and stores return besides outcomes; never an exit of a program. */
enum flow_result {
	FLOW_NONE = OUTCOME_COUNT, /* no flow has this tuple */
	FLOW_TAKEN,		   /* another flow's replies look like this one's would */
	FLOW_EXISTS,		   /* another CPU has opened this flow already */
};

/* What a new flow is stored with besides its tuples. */
struct flow_new {
	__u32 backend;
	__u32 generation;
	__u32 service; /* index into services */
	__u32 place;   /* claimed for it (flow_hand.h) */
	__u8 flags;    /* enum flow_flag */
};

#endif
