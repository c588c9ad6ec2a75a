/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * backend.h: a backend by its index, and whether a remembered one is still there.
 *
 * maps  backends_v1 (read), be_stats_v1 (write)
 */
#ifndef WAGGLE_LIB_BACKEND_H
#define WAGGLE_LIB_BACKEND_H

#include <stdbool.h>

#include "../maps.h"

static __always_inline const struct backend *backend_get(__u32 index)
{
	return bpf_map_lookup_elem(&backends_v1, &index);
}

/* False once the control plane has removed the backend that {index, generation} named. */
static __always_inline bool backend_is_current(__u32 index, __u32 generation)
{
	const struct backend *backend = backend_get(index);

	return backend && backend->generation == generation;
}

static __always_inline struct backend_stats *backend_stats_get(__u32 index)
{
	return bpf_map_lookup_elem(&be_stats_v1, &index);
}

#endif
