/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * maps.h: every map, its key, its value and who writes it; the flows themselves are in
 * maps_flow_hash.h or maps_flow_flat.h.
 *
 * A name has at most 15 characters, the layout version included; a changed layout
 * takes a new version. All maps are pinned below the
 * pin directory under these names; the loader sets max_entries before load.
 */
#ifndef WAGGLE_MAPS_H
#define WAGGLE_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "layout/filter.h"
#include "layout/flow.h"
#include "layout/fragment.h"
#include "layout/icmp.h"
#include "layout/outcome.h"
#include "layout/reply.h"
#include "layout/route.h"
#include "layout/service.h"

/* Written by the control plane when a frontend comes or goes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct frontend4_key);
	__type(value, struct frontend);
} frontends4_v1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct frontend6_key);
	__type(value, struct frontend);
} frontends6_v1 SEC(".maps");

/* Written by the control plane: who may use a service's load-balancer frontends, and who is a pod.
 * Values say nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct source_range_key);
	__type(value, __u32);
} src_ranges_v1 SEC(".maps");

/* Memory-mapped by the control plane; index 0 is never a service. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct service);
} services_v1 SEC(".maps");

/* Memory-mapped; max_entries is the number of slots / 16. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct slot_block);
} slots_v1 SEC(".maps");

/* Memory-mapped; index 0 is never a backend. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, struct backend);
} backends_v1 SEC(".maps");

/* Written by the control plane for operators; no program reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct service_name);
} svc_names_v1 SEC(".maps");

/* Written by programs, read by the control plane. As large as services_v1. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct service_stats);
} svc_stats_v1 SEC(".maps");

/* Memory-mapped; as large as backends_v1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, struct backend_stats);
} be_stats_v1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HOOK_COUNT *OUTCOME_COUNT);
	__type(key, __u32);
	__type(value, struct outcome_stats);
} outcomes_v1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
} affinity_v1 SEC(".maps");

/* Written by programs, read by the control plane. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_stats);
} flow_stats_v1 SEC(".maps");

/* Memory-mapped. One entry; see lib/filter.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter);
} filter_v1 SEC(".maps");

/* First fragments of the last seconds: what later ones are part of. Nothing else is known of a
 * flood of ids. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct fragment_key);
	__type(value, struct fragment);
} fragments_v1 SEC(".maps");

/* Copies of later fragments that came before their first one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct fragment_key);
	__type(value, struct held_fragment);
} held_frags_v1 SEC(".maps");

/* Where a copy is made before it is stored: it does not fit on the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct held_fragment);
} held_buf_v1 SEC(".maps");

/* Where a quote is looked at: it does not fit on the stack. Programs on packets with an skb do not
 * interrupt one another on a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct icmp_quote);
} icmp_quote_v1 SEC(".maps");

/* Keyed by ifindex; written by the control plane. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct device);
} devices_v1 SEC(".maps");

/* Each CPU's own; see lib/route_recent.h. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTES_RECENT);
	__type(key, __u32);
	__type(value, struct route);
} routes_v1 SEC(".maps");

/* One entry: each CPU's own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reply_state);
} reply_v1 SEC(".maps");

/* A power of two. */
#define SOCK_PLACES 65536

/* Connected sockets, by their cookies; see lib/sock_place.h. Nobody maps it: that is for its
 * values to begin at a cache line. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SOCK_PLACES);
	__type(key, __u32);
	__type(value, struct sock_place);
} sock_places_v1 SEC(".maps");

/* Connected sockets that got no place; freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sock_peer);
} sock_conn_v1 SEC(".maps");

/* The last frontend that an unconnected UDP socket sent to. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sock_peer);
} sock_sendto_v1 SEC(".maps");

/* Further frontends of unconnected UDP sockets, found by request and by reply. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct udp_peer_key);
	__type(value, struct sock_peer);
} udp_peers_v1 SEC(".maps");

#endif
