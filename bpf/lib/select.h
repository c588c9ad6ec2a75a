/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * select.h: which backend does a new flow get?
 *
 * in    a service index, whether the local list binds this client, the client's
 *       affinity key (its service field is filled in here)
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

struct choice {
	struct ip_addr addr;
	__be16 port;
	__u8 flags; /* enum backend_flag */
	__u32 backend;
	__u32 generation;
};

static __always_inline const struct service *service_get(__u32 index)
{
	return bpf_map_lookup_elem(&services_v1, &index);
}

/* Backend index in a slot; 0 when the slot does not exist. */
static __always_inline __u32 slot_get(__u32 slot)
{
	__u32 block = slot / 16;
	const struct slot_block *words = bpf_map_lookup_elem(&slots_v1, &block);

	return words ? words->words[slot % 16] : 0;
}

/*
 * Position in a list of count backends. count is not 0. Round robin counts on each
 * CPU by itself, so no cache line is shared: n flows differ from even by one a CPU.
 */
static __always_inline __u32 schedule(__u8 scheduler, __u32 count, struct service_stats *stats)
{
	if (scheduler == SCHEDULER_RR)
		return stats->rr_cursor++ % count;
	return bpf_get_prandom_u32() % count;
}

static __always_inline int select_backend(__u32 index, bool local, struct affinity_key *client,
					  struct choice *choice)
{
	const struct service *service = service_get(index);
	struct service_stats *stats = bpf_map_lookup_elem(&svc_stats_v1, &index);
	struct backend_stats *backend_stats;
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
		stats->refused++;
		return local && *(volatile const __u64 *)&service->cluster >> 32 ?
			       -OUTCOME_NO_LOCAL_BACKEND :
			       -OUTCOME_NO_BACKEND;
	}
	client->service = index;
	if (service->affinity_s)
		bound = affinity_find(client, service->affinity_s,
				      local ? BACKEND_IN_LOCAL : BACKEND_IN_CLUSTER);
	chosen = bound ?: slot_get((__u32)range + schedule(service->scheduler, count, stats));
	backend = backend_get(chosen);
	backend_stats = backend_stats_get(chosen);
	if (!chosen || !backend || !backend_stats)
		return -OUTCOME_BROKEN_STATE;
	choice->addr = backend->addr;
	choice->port = backend->port;
	choice->flags = backend->flags;
	choice->backend = chosen;
	choice->generation = backend->generation;
	if (service->affinity_s && !bound)
		affinity_remember(client, chosen, choice->generation);
	stats->opened++;
	__sync_fetch_and_add(&backend_stats->opened, 1);
	return OUTCOME_CONTINUE;
}

#endif
