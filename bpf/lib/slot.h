/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * slot.h: which backend is in this slot?
 *
 * maps  slots_v1 (read)
 */
#ifndef WAGGLE_LIB_SLOT_H
#define WAGGLE_LIB_SLOT_H

#include "../maps.h"

/* Backend index in a slot; 0 when the slot does not exist. */
static __always_inline __u32 slot_get(__u32 slot)
{
	__u32 block = slot / 16;
	const struct slot_block *words = bpf_map_lookup_elem(&slots_v1, &block);

	return words ? words->words[slot % 16] : 0;
}

#endif
