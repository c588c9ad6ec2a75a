/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * select.h: which backend does a new flow get?
 *
 * in    a service index, whether the local list binds this client, the client's
 *       affinity key (its service field is filled in here), a hash of the connection
 *       if select_hashes_connection, else 0. The caller counts (below)
 * out   0 with *choice set; -OUTCOME_NO_BACKEND; -OUTCOME_NO_LOCAL_BACKEND;
 *       -OUTCOME_BROKEN_STATE
 * maps  services_v1, slots_v1, backends_v1 (read), svc_stats_v1, be_stats_v1,
 *       affinity_v1 (write)
 */
#ifndef WAGGLE_LIB_SELECT_H
#define WAGGLE_LIB_SELECT_H

#include "../maps.h"
#include "affinity.h"
#include "backend.h"
#include "choice.h"
#include "sched_least_conn.h"
#include "sched_maglev.h"
#include "sched_random.h"
#include "sched_rr.h"
#include "sched_source_hash.h"
#include "slot.h"

static __always_inline const struct service *service_get(__u32 index)
{
	return bpf_map_lookup_elem(&services_v1, &index);
}

/* Position in a list of count backends that begins at slot base. count is not 0. */
static __always_inline __u32 schedule(__u8 scheduler, __u32 base, __u32 count,
				      struct service_stats *stats,
				      const struct affinity_key *client, __u32 connection)
{
	switch (scheduler) {
	case SCHEDULER_RR:
		return sched_rr(stats, count);
	case SCHEDULER_SOURCE_HASH:
		return hash_position(sched_source_hash(client), count);
	case SCHEDULER_MAGLEV:
		return hash_position(connection, count);
	case SCHEDULER_LEAST_CONN:
		return sched_least_conn(base, count);
	default:
		return sched_random(count);
	}
}

/* Whether the caller has to hash the connection; for all other schedulers it need not. */
static __always_inline bool select_hashes_connection(const struct service *service)
{
	return service->scheduler == SCHEDULER_MAGLEV;
}

static __always_inline int select_backend(__u32 index, bool local, struct affinity_key *client,
					  __u32 connection, struct choice *choice)
{
	const struct service *service = service_get(index);
	struct service_stats *stats = bpf_map_lookup_elem(&svc_stats_v1, &index);
	const struct backend *backend;
	__u64 range;
	__u32 bound = 0;
	__u32 chosen;
	__u32 count;

	if (!service || !stats)
		return -OUTCOME_BROKEN_STATE;
	/* One load: base and count of the same list (bpf/layout/service.h). */
	range = *(volatile const __u64 *)(local ? &service->local : &service->cluster);
	count = range >> 32;
	if (!count) {
		return local && *(volatile const __u64 *)&service->cluster >> 32 ?
			       -OUTCOME_NO_LOCAL_BACKEND :
			       -OUTCOME_NO_BACKEND;
	}
	client->service = index;
	if (service->affinity_s)
		bound = affinity_find(client, service->affinity_s,
				      local ? BACKEND_IN_LOCAL : BACKEND_IN_CLUSTER);
	chosen = bound ?:
			 slot_get((__u32)range + schedule(service->scheduler, range, count, stats,
							  client, connection));
	backend = backend_get(chosen);
	if (!chosen || !backend)
		return -OUTCOME_BROKEN_STATE;
	choice->addr = backend->addr;
	choice->port = backend->port;
	choice->flags = backend->flags;
	choice->backend = chosen;
	choice->generation = backend->generation;
	if (service->affinity_s && !bound)
		affinity_remember(client, chosen, choice->generation);
	return OUTCOME_CONTINUE;
}

/* ret is what select_backend returned. */
static __always_inline void select_count_refused(__u32 index, int ret)
{
	struct service_stats *stats = bpf_map_lookup_elem(&svc_stats_v1, &index);

	if (stats && (ret == -OUTCOME_NO_BACKEND || ret == -OUTCOME_NO_LOCAL_BACKEND))
		stats->refused++;
}

/* Once the flow or connection to the chosen backend is there: another hook may have to try again.
 */
static __always_inline void select_count_opened(__u32 index, __u32 chosen)
{
	struct service_stats *stats = bpf_map_lookup_elem(&svc_stats_v1, &index);
	struct backend_stats *backend_stats = backend_stats_get(chosen);

	if (!stats || !backend_stats)
		return;
	stats->opened++;
	__sync_fetch_and_add(&backend_stats->opened, 1);
}

#endif
