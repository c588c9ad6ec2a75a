/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flows_flat.bpf.c: the programs of flows.bpf.c on the flat flow table.
 */
#include "lib/context_skb.h"

#include "lib/flow_store_flat.h"

#include "flows.bpf.c"
