/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * outcome.h: every way out of a program, one name each. The same enum is the index
 * of the counters, the label of the metric and the word in `waggle show programs`.
 */
#ifndef WAGGLE_LAYOUT_OUTCOME_H
#define WAGGLE_LAYOUT_OUTCOME_H

#include <linux/types.h>

/*
 * A step returns 0 (go on), an outcome as a positive number (leave: all is well) or
 * as a negative one (leave: something is missing or wrong). Only finish() gives
 * verdicts and counts.
 */
enum outcome {
	OUTCOME_CONTINUE = 0,
	/* Not for a frontend and of no known flow: left alone. */
	OUTCOME_NOT_SERVICE = 1,
	/* Not TCP, UDP or SCTP over IPv4 or IPv6: left alone. */
	OUTCOME_NOT_HANDLED = 2,
	/* A later fragment of no Service's datagram: left alone. Of one that has lost its flow:
	 * dropped. */
	OUTCOME_FRAGMENT = 3,
	/* Socket layer: address rewritten. */
	OUTCOME_TRANSLATED = 4,
	/* Packet layer: handed to this node's stack for a backend here. */
	OUTCOME_DELIVERED = 5,
	/* Packet layer: redirected to a backend on another node. */
	OUTCOME_FORWARDED = 6,
	/* Packet layer: reply on its way back to the client. */
	OUTCOME_REPLIED = 7,
	/* Middle of a TCP connection or an SCTP association that no flow knows: left to the stack.
	 */
	OUTCOME_UNKNOWN_FLOW = 8,
	/* Unknown port of a Service address that is also the node's own: left to the host. */
	OUTCOME_HOST_PORT = 9,
	/* Unknown port of a Service address. */
	OUTCOME_NO_PORT = 10,
	/* Service without a usable backend anywhere. */
	OUTCOME_NO_BACKEND = 11,
	/* Local traffic policy and no usable backend on this node. */
	OUTCOME_NO_LOCAL_BACKEND = 12,
	/* Packet cut short or with impossible lengths: left alone unless it is a Service's. */
	OUTCOME_MALFORMED = 13,
	/* No free source port towards this backend in the bounded tries. */
	OUTCOME_SNAT_EXHAUSTED = 14,
	/* The flow table is full. */
	OUTCOME_FLOWS_FULL = 15,
	/* No route to the backend or back to the client. */
	OUTCOME_NO_ROUTE = 16,
	/* The egress device has no address of the flow's family. */
	OUTCOME_NO_SOURCE_ADDRESS = 17,
	/* TTL or hop limit used up. */
	OUTCOME_TTL_EXCEEDED = 18,
	/* A helper refused to change the packet. */
	OUTCOME_REWRITE_FAILED = 19,
	/* A datagram of a socket that is connected to a removed backend. */
	OUTCOME_STALE_SOCKET = 20,
	/* A map that the loader must have filled has no such entry. */
	OUTCOME_BROKEN_STATE = 21,
	/* Larger than the device that it would leave by takes. */
	OUTCOME_TOO_BIG = 22,
	/* Load-balancer address whose source ranges leave the client out. */
	OUTCOME_SOURCE_DENIED = 23,
	/* A fragment that overlaps the first one; a first one without its whole transport header,
	 * or of SCTP with a port that would have to change. */
	OUTCOME_BAD_FRAGMENT = 24,
	/* A later fragment that came before its first one: a copy waits for it. */
	OUTCOME_FRAGMENT_HELD = 25,
	/* A first fragment behind which the ones that waited for it are put back. */
	OUTCOME_FRAGMENT_RELEASED = 26,
	/* IPv4 source route, or an IPv6 routing header with stops left. */
	OUTCOME_SOURCE_ROUTE = 27,
	/* More IPv6 extension headers than are followed. */
	OUTCOME_EXTENSION_HEADERS = 28,
	/* A new flow from an address that cannot be its sender's. */
	OUTCOME_MARTIAN = 29,
	/* An ICMP error about a packet of a flow, translated with what it quotes. */
	OUTCOME_ICMP_TRANSLATED = 30,
	/* Echo request to a Service address, answered by us. */
	OUTCOME_PING_ANSWERED = 31,
	/* The same, not answered: it is off, or its source cannot be answered. */
	OUTCOME_PING_IGNORED = 32,
	/* To be answered with a reset or an ICMP error, but this CPU has sent enough of them. */
	OUTCOME_REPLY_LIMITED = 33,
	/* The node's own packet, or one that it masquerades: a flow had its source port, it leaves
	 * from another one. */
	OUTCOME_PORT_MOVED = 34,
	/* XDP: a Service's packet that needs tc, or a backend on this node: passes unchanged. */
	OUTCOME_LEFT_TO_TC = 35,
	/* A packet to a frontend of a flow that the kernel's NAT translates: left to the stack. */
	OUTCOME_KERNEL_FLOW = 36,
	/* No free source port in the first tries, and this CPU has made all others that it may
	 * make. */
	OUTCOME_SNAT_LIMITED = 37,
	OUTCOME_COUNT = 38,
};

/* Index of the program in the counters. */
enum hook {
	HOOK_CONNECT = 0,
	HOOK_SENDMSG = 1,
	HOOK_RECVMSG = 2,
	HOOK_GETPEERNAME = 3,
	HOOK_SOCK_EGRESS = 4,
	HOOK_TC_INGRESS = 5,
	HOOK_TC_EGRESS = 6,
	HOOK_XDP = 7,
	HOOK_COUNT = 8,
};

/* Value of outcomes, a per-CPU array indexed by hook * OUTCOME_COUNT + outcome. */
struct outcome_stats {
	__u64 packets; /* calls at the socket layer */
	__u64 bytes;   /* 0 at the socket layer */
};

#endif
