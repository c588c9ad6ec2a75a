/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * maps_flow_flat.h: the maps of lib/flow_store_flat.h. But for the secret all are written by
 * programs; the control plane reads them through their memory.
 */
#ifndef WAGGLE_MAPS_FLOW_FLAT_H
#define WAGGLE_MAPS_FLOW_FLAT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "layout/flat.h"
#include "layout/flow.h"

/* Makes the index unguessable: random, written once by the control plane before programs run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flat_secret);
} flat_secret_v1 SEC(".maps");

/* Buckets: a power of two, one for each record of one family. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct flat_bucket);
} flat_index_v1 SEC(".maps");

/* A power of two and one more: record 0 is never used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65537);
	__type(key, __u32);
	__type(value, struct flat_record4);
} flat_recs4_v1 SEC(".maps");

/* As many as flat_recs4_v1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65537);
	__type(key, __u32);
	__type(value, struct flat_record6);
} flat_recs6_v1 SEC(".maps");

/* [0] IPv6, [1] IPv4. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct flow_hand);
} flat_hand_v1 SEC(".maps");

#endif
