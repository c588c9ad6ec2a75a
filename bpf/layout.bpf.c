/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * layout.bpf.c: no program, only types. `make gen` reads the BTF of this object and
 * writes src/ebpf/generated/ and bpf/layouts.lock from it.
 */
#include "maps.h"
#include "maps_flow_flat.h"
#include "maps_flow_hash.h"

/* An enum reaches BTF only through a variable of its type; a new enum is added here. */
struct layout_enums {
	enum outcome outcome;
	enum hook hook;
	enum frontend_kind frontend_kind;
	enum frontend_flag frontend_flag;
	enum scheduler scheduler;
	enum service_flag service_flag;
	enum backend_flag backend_flag;
	enum flow_direction flow_direction;
	enum flow_sent flow_sent;
	enum flow_state flow_state;
	enum flow_flag flow_flag;
	enum flat_record_state flat_record_state;
	enum flat_control flat_control;
	enum device_takes device_takes;
	enum device_xdp device_xdp;
};

const volatile struct layout_enums layout_enums;

char _license[] SEC("license") = "GPL";
