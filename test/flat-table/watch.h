/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * watch.h: what flat-table.test.ts has the table call: waits where another CPU may come between,
 * and the count of the flows that there are.
 */
#ifndef FLAT_TABLE_WATCH_H
#define FLAT_TABLE_WATCH_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "layout/flat.h"

#define MAX_KEYS 4096

/* Flows of each key: clients' first, then backends'. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * MAX_KEYS);
	__type(key, __u32);
	__type(value, __u64);
} held SEC(".maps");

/* One time in sixteen, about a microsecond. */
static __noinline void pause_sometimes(void)
{
	int i;

	if (bpf_get_prandom_u32() & 15)
		return;
	for (i = 0; i < 30; i++)
		bpf_ktime_get_ns();
}

static __always_inline void hold(__u32 key, bool backend, __s64 by)
{
	__u32 at = key + (backend ? MAX_KEYS : 0);
	__u64 *count = bpf_map_lookup_elem(&held, &at);

	if (count)
		__sync_fetch_and_add(count, by);
}

static __always_inline void ended(const struct flat_record *r)
{
	hold(r->backend & 0xffff, false, -1);
	hold(r->backend >> 16, true, -1);
}

#endif
