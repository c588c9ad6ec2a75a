/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * snat_ports.h: which source ports may a flow get, and in which order are they tried?
 *
 * Two ranges are used first. When ports are scarce there, the third one is used beside
 * them: it is where the node's own processes get their ports, so what is tried there more
 * often belongs to somebody. Pure but for chance.
 */
#ifndef WAGGLE_LIB_SNAT_PORTS_H
#define WAGGLE_LIB_SNAT_PORTS_H

#include "packet.h"

/*
 * Host order, both ends included; max = min - 1 makes a range empty, and the first two are
 * not both empty. The defaults leave out node ports (30000-32767) and, at first, the usual
 * ip_local_port_range (32768-60999).
 */
const volatile __u16 cfg_snat_low_min = 1024;
const volatile __u16 cfg_snat_low_max = 29999;
const volatile __u16 cfg_snat_high_min = 61000;
const volatile __u16 cfg_snat_high_max = 65535;
const volatile __u16 cfg_snat_last_min = 32768;
const volatile __u16 cfg_snat_last_max = 60999;

/*
 * Rounds of tries. The first is in the first two ranges alone: with three quarters of them
 * taken, one flow in 10,000 goes on. All rounds together fail one flow in 170 where one
 * port of a hundred is free, and one in six million where three are; the sender's next SYN
 * tries others. Only a flow that gets no port pays for all of them.
 */
#define SNAT_TRIES_A_ROUND 32
#define SNAT_ROUNDS	   16

/* A prime above every range's size: multiplying by it mixes the positions and keeps them apart. */
#define SNAT_MIX 2654435761ULL

static __always_inline __u32 snat_range_size(__u16 min, __u16 max)
{
	return (__u32)max + 1 - min;
}

/* The port at a position of the ranges taken together, in network order. */
static __always_inline __be16 snat_port_at(__u64 position, bool all)
{
	__u32 low = snat_range_size(cfg_snat_low_min, cfg_snat_low_max);
	__u32 high = snat_range_size(cfg_snat_high_min, cfg_snat_high_max);
	__u32 last = all ? snat_range_size(cfg_snat_last_min, cfg_snat_last_max) : 0;
	__u32 i = position % (low + high + last);

	if (i < low)
		return bpf_htons(cfg_snat_low_min + i);
	i -= low;
	return bpf_htons(i < high ? cfg_snat_high_min + i : cfg_snat_last_min + (i - high));
}

static __always_inline bool snat_port_is_ours(__be16 port)
{
	__u16 host = bpf_ntohs(port);

	return (host >= cfg_snat_low_min && host <= cfg_snat_low_max) ||
	       (host >= cfg_snat_high_min && host <= cfg_snat_high_max) ||
	       (host >= cfg_snat_last_min && host <= cfg_snat_last_max);
}

/*
 * The port that is tried first. All ports of one client lead to different ones, and each
 * always to the same: the backend may still hold the connection that this client had from
 * this port in TIME_WAIT, and lets a new one pass only if sequence numbers or timestamps
 * grew. Those of another port, or another client, need not be greater; Linux 6.18 begins
 * timestamps anywhere. Seen with random ports: a client that used its 28,000 ports again
 * within a minute was held up for a second in one connection of seven.
 */
static __always_inline __be16 snat_port_of_client(const struct tuple *tuple)
{
	const __be32 *w = tuple->src.w;

	/* The checksum of SCTP covers ports and no addresses: what keeps its port keeps it as it
	 * is. */
	if (tuple->proto == IPPROTO_SCTP && snat_port_is_ours(tuple->sport))
		return tuple->sport;
	return snat_port_at(
		((__u64)(w[0] ^ w[1] ^ w[2] ^ w[3]) + bpf_ntohs(tuple->sport)) * SNAT_MIX, false);
}

#endif
