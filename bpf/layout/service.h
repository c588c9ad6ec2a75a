/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * service.h: what the control plane writes: frontends, services, slots, backends.
 *
 * frontend --service--> service --{base, count}--> slots --index--> backend
 *
 * One store of a service's 8-byte word moves all its frontends from one complete
 * list of backends to another.
 */
#ifndef WAGGLE_LAYOUT_SERVICE_H
#define WAGGLE_LAYOUT_SERVICE_H

#include "addr.h"

/* Where a frontend's address comes from; decides which traffic policy binds it. */
enum frontend_kind {
	FRONTEND_CLUSTER_IP = 1,
	FRONTEND_EXTERNAL_IP = 2,
	FRONTEND_LOAD_BALANCER = 3,
	FRONTEND_NODE_PORT = 4,
	/* Port 0: the address is a Service's, the dialled port is not one of its ports. */
	FRONTEND_ADDRESS = 5,
};

/* Bits of frontend.flags. */
enum frontend_flag {
	/* The address is also one of the node's own: an unknown port belongs to the host. */
	FRONTEND_FLAG_OWN_ADDRESS = 1,
	/* A loopback address: each network namespace has its own, this is the node's. Packets never
	 * reach it. */
	FRONTEND_FLAG_LOOPBACK = 2,
};

/* Key of frontends4: {address, port, protocol}; port and proto are 0 for FRONTEND_ADDRESS. */
struct frontend4_key {
	__be32 addr;
	__be16 port;
	__u8 proto; /* IPPROTO_* */
	__u8 zero;  /* a hole in a key makes look-ups miss */
};

/* Key of frontends6; the long key costs twice as much when cold, hence two maps. */
struct frontend6_key {
	struct ip_addr addr;
	__be16 port;
	__u8 proto;
	__u8 zero;
};

struct frontend {
	__u32 service; /* index into services; meaningless for FRONTEND_ADDRESS */
	__u8 kind;     /* enum frontend_kind */
	__u8 flags;    /* enum frontend_flag */
	__u16 zero;
};

/* How a new flow gets its backend: which slot of the list, one small header each in lib/. */
enum scheduler {
	SCHEDULER_RANDOM = 0,
	SCHEDULER_RR = 1,
	SCHEDULER_SOURCE_HASH = 2,
	SCHEDULER_MAGLEV = 3,
	SCHEDULER_LEAST_CONN = 4,
};

/* Bits of service.flags. */
enum service_flag {
	/* internalTrafficPolicy: Local */
	SERVICE_INTERNAL_LOCAL = 1,
	/* externalTrafficPolicy: Local */
	SERVICE_EXTERNAL_LOCAL = 2,
	/* Its load-balancer frontends let in only the sources in source_ranges. */
	SERVICE_SOURCE_RANGES = 4,
	/* An address of this node is among them. */
	SERVICE_SOURCE_NODE = 8,
	/* All addresses of this node's pods are. */
	SERVICE_SOURCE_PODS = 16,
};

/*
 * Key of source_ranges, a trie of prefixes. The prefix counts the bits of service and
 * addr together, so a range of one service is never another's: 32 + 96 + bits of an IPv4
 * network, 32 + bits of an IPv6 one. Service 0 stands for the pod networks of the cluster.
 */
struct source_range_key {
	__u32 prefix;  /* in bits, host order */
	__u32 service; /* index into services; 0 = pod networks */
	struct ip_addr addr;
};

/*
 * One Service port. cluster and local are each read with one 8-byte load and split
 * by shift: the low 32 bits are the first slot, the high 32 bits the count. A backend
 * may have several slots: as many as its weight says, or its share of a Maglev table.
 */
struct service {
	__u64 cluster;	  /* all usable backends */
	__u64 local;	  /* usable backends on this node */
	__u32 affinity_s; /* ClientIP affinity timeout in seconds, 0 = none */
	__u8 scheduler;	  /* enum scheduler */
	__u8 flags;	  /* enum service_flag */
	__u16 zero;
	__u64 spare;
};

/* Sixteen backend indexes: array elements are rounded up to 8 bytes. Slot s is words[s % 16] of
 * element s / 16. */
struct slot_block {
	__u32 words[16];
};

/* Bits of backend.flags. */
enum backend_flag {
	/* Runs on this node: handed to the stack, never source-translated. */
	BACKEND_LOCAL = 1,
	/* Is in its service's cluster list now (affinity may choose it). */
	BACKEND_IN_CLUSTER = 2,
	/* Is in its service's local list now. */
	BACKEND_IN_LOCAL = 4,
};

/*
 * One endpoint of one Service port; it belongs to that service alone. A removal
 * raises generation, so whoever remembered {index, generation} sees that it is gone.
 * An index is re-used only after a quarantine of minutes.
 */
struct backend {
	struct ip_addr addr;
	__be16 port;
	__u8 flags; /* enum backend_flag */
	__u8 zero;
	__u32 generation; /* raised at removal; never 0 for a backend in use */
	__u32 service;	  /* owner: index into services */
	__u32 weight;	  /* its share of new flows against its service's others, 1-100 */
};

/* Value of service_names: what operators call the Service port; not read by packets. */
struct service_name {
	char namespace[64];
	char name[64];
	char port[64]; /* name of the port (a DNS label), empty when unnamed */
	__u8 proto;    /* IPPROTO_* */
	__u8 family;   /* 4 or 6: each family of a Service port is a service of its own */
	__u8 zero[6];
};

/* Counters of a service: per CPU, written by the program that opens a flow. */
struct service_stats {
	__u64 opened;	 /* connections and UDP exchanges given a backend */
	__u64 refused;	 /* no usable backend */
	__u64 rr_cursor; /* round robin: next position on this CPU */
};

/* Counters of a backend: shared by all CPUs, changed atomically. */
struct backend_stats {
	__u64 opened;	/* flows given to this backend since it got its index */
	__u64 udp_live; /* connected UDP sockets of this node that point at it now */
	__u64 tcp_live; /* the same for TCP */
	__u64 spare;	/* one cache line holds all of it */
};

_Static_assert(sizeof(struct frontend4_key) == 8, "frontend4_key is 8 bytes");
_Static_assert(sizeof(struct frontend6_key) == 20, "frontend6_key is 20 bytes");
_Static_assert(sizeof(struct source_range_key) == 24, "source_range_key is 24 bytes");
_Static_assert(sizeof(struct frontend) == 8, "frontend is 8 bytes");
_Static_assert(sizeof(struct service) == 32, "service is 32 bytes");
_Static_assert(sizeof(struct slot_block) == 64, "slot_block is 64 bytes");
_Static_assert(sizeof(struct backend) == 32, "backend is 32 bytes");
_Static_assert(sizeof(struct backend_stats) == 32, "backend_stats is 32 bytes");
_Static_assert(sizeof(struct service_name) == 200, "service_name is 200 bytes");

#endif
