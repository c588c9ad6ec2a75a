/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * xdp_flat.bpf.c: the programs of xdp.bpf.c on the flat flow table.
 */
#include "lib/context_xdp.h"

#include "lib/flow_store_flat.h"

#include "xdp.bpf.c"
