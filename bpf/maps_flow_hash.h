/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * maps_flow_hash.h: the maps of lib/flow_store_hash.h. All are written by programs.
 */
#ifndef WAGGLE_MAPS_FLOW_HASH_H
#define WAGGLE_MAPS_FLOW_HASH_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "layout/flow.h"

/* Two entries a flow, one for each half; see lib/flow.h. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct tuple);
	__type(value, struct flow);
} flows_v1 SEC(".maps");

/* The forward key of every flow, by flow.slot. A power of two, half the entries of flows_v1; see
 * lib/flow_slot.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct flow_slot);
} flow_slots_v1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_hand);
} flow_hand_v1 SEC(".maps");

#endif
