/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flow.h: what the programs remember: packet flows, sockets, affinity.
 */
#ifndef WAGGLE_LAYOUT_FLOW_H
#define WAGGLE_LAYOUT_FLOW_H

#include "addr.h"

/* A packet's addresses as it arrives. */
struct tuple {
	struct ip_addr src;
	struct ip_addr dst;
	__be16 sport;
	__be16 dport;
	__u8 proto; /* IPPROTO_* */
	__u8 zero[3];
};

/* Which half of a flow a key stands for. */
enum flow_direction {
	FLOW_FORWARD = 1, /* client to backend */
	FLOW_REPLY = 2,	  /* backend to client */
};

/* What one direction of a flow has sent so far, as bits of flow.sent and flow.heard. */
enum flow_sent {
	FLOW_SENT = 1,
	/* The client went on after a reply: it exists, and the flow is confirmed. */
	FLOW_SENT_ON = 2,
	FLOW_SENT_FIN = 4,
	/* Taken back by a later segment of the same direction: a reset that was obeyed is the last.
	 */
	FLOW_SENT_RST = 8,
};

/* How far a flow has come: follows from what both directions have sent (lib/flow_state.h). */
enum flow_state {
	FLOW_OPENING = 0,     /* unconfirmed */
	FLOW_ESTABLISHED = 1, /* confirmed */
	FLOW_HALF_CLOSED = 2, /* confirmed, FIN of one direction */
	FLOW_CLOSED = 3,      /* FIN of both, or RST */
};

/* Bits of flow.flags, equal in both halves. */
enum flow_flag {
	/* The backend runs on this node: packets go through its stack. */
	FLOW_LOCAL_BACKEND = 1,
	/* The source was translated to an address of this node. */
	FLOW_SNAT = 2,
	/* A connection of this node's own, or one that it masquerades, with another source port
	 * than it began with: all its packets go through the stack. No backend, no service. */
	FLOW_OF_NODE = 4,
};

/*
 * One half of a flow: what the packet's tuple becomes. The other half's key is
 * `to` with source and destination exchanged, so each half finds the other; a half
 * whose other half is missing counts as no state.
 */
struct flow {
	struct tuple to;
	__u64 seen_ns;	  /* CLOCK_MONOTONIC of the last packet of this half, to the second */
	__u32 backend;	  /* index into backends */
	__u32 generation; /* the backend's when the flow was opened */
	__u32 service;	  /* index into services */
	__u32 slot;	  /* its place in flow_slots; equal in both halves */
	__u8 direction;	  /* enum flow_direction */
	__u8 flags;	  /* enum flow_flag */
	__u8 sent;	  /* enum flow_sent: by packets of this half */
	__u8 heard;	  /* enum flow_sent: by those of the other; written there */
	__u32 zero;
};

/* A place for one flow. */
struct flow_slot {
	struct tuple key; /* forward key of the flow that holds it, if that flow says so, too */
	__u32 claimed;	  /* flow_hand.next behind the look that took it, 32 bits; 0 = never */
	__u32 zero;
};

/* The one value of flow_hand. */
struct flow_hand {
	__u64 next;    /* slots that were looked at so far */
	__u64 swept;   /* slots that the agent has had looked at */
	__u64 crowded; /* 1 = the last flow found no free slot: another one had to go */
};

/* Per CPU, written by the programs. */
struct flow_stats {
	__u64 evicted; /* unconfirmed or closed flows ended before their time: their slot was needed
			*/
	__u64 snat_flows;  /* flows that asked for a source port */
	__u64 snat_tries;  /* ports that were tried for them */
	__u64 snat_due_ns; /* CLOCK_MONOTONIC: when all tries so far are paid for (lib/snat.h) */
};

/* Whom a session affinity binds: a network namespace (socket layer) or an address (packets). */
struct affinity_key {
	struct ip_addr client; /* a namespace cookie stands in the first two words, the others 0 */
	__u32 service;	       /* index into services */
	__u32 by_cookie;       /* 1 = client is a namespace cookie */
};

struct affinity {
	__u64 seen_ns; /* CLOCK_MONOTONIC of the last use */
	__u32 backend;
	__u32 generation;
};

/* What a socket that was given a backend remembers: in its place (sock_place) or its storage. */
struct sock_peer {
	struct ip_addr frontend_addr;
	struct ip_addr backend_addr;
	__be16 frontend_port;
	__be16 backend_port;
	__u32 backend;
	__u32 generation;
	__u32 service;
	__u8 proto;   /* IPPROTO_* */
	__u8 counted; /* 1 = raised backend_stats.udp_live or tcp_live */
	__u8 zero[6];
};

/* The place of a connected socket's mark: a cache line. */
struct sock_place {
	__u64 cookie;	       /* of the socket whose mark is here; 0 = free */
	struct sock_peer mark; /* all zero where free */
};

/* Key of udp_peers: an unconnected UDP socket and the frontend, or the backend, it talks to. */
struct udp_peer_key {
	__u64 cookie; /* of the socket */
	struct ip_addr addr;
	__be16 port;
	__u8 backend; /* 1 = addr:port is a backend's (reply), 0 = a frontend's (request) */
	__u8 zero[5];
};

/* Bits of device.takes_frames: what XDP may send by a device. Others it drops, or the program is
 * not there. */
enum device_takes {
	DEVICE_TAKES_TX = 1,	   /* XDP_TX: what came by it goes back */
	DEVICE_TAKES_REDIRECT = 2, /* bpf_redirect, whatever it came by */
};

/* How XDP is on a device, or why not. Read by people alone. */
enum device_xdp {
	DEVICE_XDP_OFF = 0,
	DEVICE_XDP_NATIVE = 1,
	DEVICE_XDP_GENERIC = 2,
	DEVICE_XDP_NO_ETHERNET = 3,
	DEVICE_XDP_VLANS = 4,
	DEVICE_XDP_PORTS = 5,
	DEVICE_XDP_FOREIGN = 6,
	DEVICE_XDP_UNSUPPORTED = 7,
	DEVICE_XDP_CANNOT_SEND = 8,
	DEVICE_XDP_REFUSED = 9,
};

/* What the packet programs need to know of a device of this node. */
struct device {
	struct ip_addr addr4; /* source address for flows that leave by it; all zero = none */
	struct ip_addr addr6;
	__u8 mac[6];	   /* what frames for this node are addressed to */
	__u8 takes_frames; /* enum device_takes */
	__u8 xdp;	   /* enum device_xdp */
};

_Static_assert(sizeof(struct tuple) == 40, "tuple is 40 bytes");
_Static_assert(sizeof(struct flow) == 72, "flow is 72 bytes");
_Static_assert(sizeof(struct flow_slot) == 48, "flow_slot is 48 bytes");
_Static_assert(sizeof(struct affinity_key) == 24, "affinity_key is 24 bytes");
_Static_assert(sizeof(struct sock_peer) == 56, "sock_peer is 56 bytes");
_Static_assert(sizeof(struct sock_place) == 64, "sock_place is 64 bytes");
_Static_assert(sizeof(struct udp_peer_key) == 32, "udp_peer_key is 32 bytes");

#endif
