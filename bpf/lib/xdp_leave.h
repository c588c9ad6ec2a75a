/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * xdp_leave.h: which packets does XDP leave to tc?
 *
 * Whatever needs more than a changed header and a known neighbour. They pass as they
 * came, tc finds the flow that XDP opened, or none, and serves them: the flow table is one.
 *
 * maps  devices_v1 (read)
 */
#ifndef WAGGLE_LIB_XDP_LEAVE_H
#define WAGGLE_LIB_XDP_LEAVE_H

#include <stddef.h>

#include "../maps.h"
#include "csum.h"
#include "packet.h"
#include "parse_transport.h"

static __always_inline const struct device *xdp_device(__u32 ifindex)
{
	return bpf_map_lookup_elem(&devices_v1, &ifindex);
}

/* Is the frame addressed to the MAC of the device by which it came? */
static __always_inline bool xdp_is_for_host(context *ctx)
{
	const struct device *device = xdp_device(context_ifindex(ctx));
	const __u8 *mac = context_bytes(ctx, 0, ETH_ALEN);
	__u32 differs = 0;
	int i;

	if (!device || !mac)
		return false;
#pragma unroll
	for (i = 0; i < ETH_ALEN; i += 2)
		differs |= *(const __u16 *)(mac + i) ^ *(const __u16 *)(device->mac + i);
	return !differs;
}

/*
 * A whole TCP segment, datagram or SCTP packet directly behind a plain IP header, with a TTL to
 * spare. ICMP, fragments, IPv4 options, IPv6 extension headers and all defects are rare, and tc's
 * steps for them are many.
 */
static __always_inline bool xdp_is_plain(const struct packet *p)
{
	__u32 header = p->ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	return !p->defect && !p->fragment && p->l4 == p->l2 + header && p->ttl > 1 &&
	       !packet_is_icmp(p);
}

/*
 * Does the checksum field hold the pseudo header alone? Then the rest is left to a device
 * that will not see it: XDP has no place for that note (CHECKSUM_PARTIAL), and a redirected
 * frame would arrive broken. Such packets come from sockets behind a veth or a virtual
 * machine's device, and from GRO where XDP is generic. One honest checksum in 65,535 looks
 * the same; tc does right by both.
 */
static __always_inline bool xdp_internet_sum_is_unfinished(const struct packet *p)
{
	__u32 offset = p->l4 + (packet_is_tcp(p) ? offsetof(struct tcphdr, check) :
						   offsetof(struct udphdr, check));
	const __sum16 *check = context_bytes(p->ctx, offset, sizeof(*check));
	__u32 sum = csum_pseudo(&p->tuple, p->end - p->l4);

	return !check || !csum_finish(csum_add(sum, (__u16) ~*check));
}

/* One of SCTP is zero until the device sums it up. */
static __always_inline bool xdp_sctp_sum_is_unfinished(const struct packet *p)
{
	const __le32 *check =
		context_bytes(p->ctx, p->l4 + offsetof(struct sctp_packet, check), sizeof(*check));

	return !check || !*check;
}

static __always_inline bool xdp_sum_is_unfinished(const struct packet *p)
{
	return packet_is_sctp(p) ? xdp_sctp_sum_is_unfinished(p) :
				   xdp_internet_sum_is_unfinished(p);
}

/*
 * in    a packet that is to leave by p->egress
 * out   0 with p->next_hop.back set; OUTCOME_LEFT_TO_TC
 *
 * A device takes frames from XDP only if it is ready for it, and says nothing of those
 * that it drops: the agent knows which are. Back out of the device by which it came is the
 * cheapest way; a veth is not to be trusted with it (its peer is woken up only if it has a
 * program, too; Linux 6.18), but takes redirects of its own.
 */
static __always_inline int xdp_leave(struct packet *p)
{
	const struct device *device;

	if (!p->next_hop.known || xdp_sum_is_unfinished(p))
		return OUTCOME_LEFT_TO_TC;
	device = xdp_device(p->egress);
	if (!device)
		return OUTCOME_LEFT_TO_TC;
	p->next_hop.back =
		p->egress == context_ifindex(p->ctx) && device->takes_frames & DEVICE_TAKES_TX;
	return p->next_hop.back || device->takes_frames & DEVICE_TAKES_REDIRECT ?
		       OUTCOME_CONTINUE :
		       OUTCOME_LEFT_TO_TC;
}

#endif
