/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * packet.h: what travels from step to step of a program that sees packets.
 *
 * Nobody keeps a pointer into the packet: a helper that changes it would end the
 * pointer's life. parse.h copies what later steps ask for.
 */
#ifndef WAGGLE_LIB_PACKET_H
#define WAGGLE_LIB_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>

#ifndef WAGGLE_LIB_CONTEXT_H
#error "the entry file includes context_skb.h or context_xdp.h first"
#endif

#include "../layout/flow.h"
#include "../layout/outcome.h"

/*
 * Bits of packet.tcp_flags, as on the wire (RFC 9293 3.1). What the first chunk of an SCTP
 * packet says of its association is said in these words, too: parse_transport.h.
 */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* Bits of packet.fragment, as in IPv4 (RFC 791); all 0 = a whole datagram. */
#define FRAGMENT_MORE	0x2000
#define FRAGMENT_OFFSET 0x1fff /* in units of 8 bytes */

struct packet {
	context *ctx;
	struct tuple tuple; /* as it arrived */
	struct tuple to;    /* what it becomes; set once its flow is known */
	next_hop next_hop;
	__u32 egress; /* ifindex it is redirected to; 0 = it goes on where it was going */
	__u32 l2;  /* offset of the IP header: ETH_HLEN, 0 on a device without Ethernet headers */
	__u32 l4;  /* offset of the TCP, UDP, SCTP or ICMP header; 0 in a later fragment */
	__u32 end; /* offset behind the IP packet; padding may follow */
	__u32 backend;	    /* index: the flow's; of a later fragment before that its first one's */
	__be32 fragment_id; /* of a fragment: IPv4 identification, or that of the IPv6 fragment
			       header */
	__u16 fragment;	    /* FRAGMENT_*, host order, for both families */
	__u16 payload; /* bytes behind the IP header; of an IPv6 fragment behind the fragment header
			*/
	__u16 mtu;     /* of the route, once it is known to be too small */
	__u16 ttl_word;	     /* 16 bits of the IP header that hold TTL or hop limit, as in memory */
	__sum16 ip_check;    /* IPv4 */
	__u8 ttl;	     /* TTL or hop limit */
	__u8 ipv4;	     /* 1 = IPv4, 0 = IPv6 */
	__u8 l4_size;	     /* of the TCP, UDP or SCTP header */
	__u8 tcp_flags;	     /* TCP_*; 0 for UDP */
	__u8 flow_flags;     /* enum flow_flag */
	__u8 flow_direction; /* enum flow_direction */
	__u8 defect; /* enum outcome: why it is dropped if it turns out to be a Service's; 0 = none
		      */
};

/* A fragment with the ports in it, which others follow. */
static __always_inline bool packet_is_first_fragment(const struct packet *p)
{
	return p->fragment & FRAGMENT_MORE && !(p->fragment & FRAGMENT_OFFSET);
}

/* A fragment without ports: fragment.h finds them. */
static __always_inline bool packet_is_later_fragment(const struct packet *p)
{
	return p->fragment & FRAGMENT_OFFSET;
}

static __always_inline bool packet_is_tcp(const struct packet *p)
{
	return p->tuple.proto == IPPROTO_TCP;
}

static __always_inline bool packet_is_sctp(const struct packet *p)
{
	return p->tuple.proto == IPPROTO_SCTP;
}

/* Of a TCP connection or an SCTP association: it says when that begins and ends, in tcp_flags. */
static __always_inline bool packet_is_of_connection(const struct packet *p)
{
	return p->tuple.proto != IPPROTO_UDP;
}

/* The protocols that are served: their headers begin with two ports. */
static __always_inline bool proto_is_served(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

/* ICMP over IPv4 or ICMPv6 over IPv6; its tuple has no ports. */
static __always_inline bool packet_is_icmp(const struct packet *p)
{
	return p->tuple.proto == (p->ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

/* A SYN that opens a connection, or an INIT an association: not the answer to one, and nothing that
 * ends one. */
static __always_inline bool packet_is_pure_syn(const struct packet *p)
{
	return (p->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
}

/* The tuple of a packet that travels the other way. */
static __always_inline void tuple_exchange(struct tuple *out, const struct tuple *in)
{
	out->src = in->dst;
	out->dst = in->src;
	out->sport = in->dport;
	out->dport = in->sport;
	out->proto = in->proto;
	__builtin_memset(out->zero, 0, sizeof(out->zero));
}

#endif
