/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * parse_transport.h: what does the TCP, UDP or SCTP header say?
 *
 * in    p->l4, p->tuple.proto; end, the offset behind the IP packet
 * out   0 with ports and TCP flags set, and p->defect when its lengths cannot be;
 *       OUTCOME_MALFORMED with p->defect set
 */
#ifndef WAGGLE_LIB_PARSE_TRANSPORT_H
#define WAGGLE_LIB_PARSE_TRANSPORT_H

#include <stddef.h>

#include "addr.h"
#include "packet.h"

/* The header of an SCTP packet and of the chunk behind it, which each has (RFC 9260 3). */
struct sctp_packet {
	__be16 source;
	__be16 dest;
	__be32 tag;
	__le32 check;
	__u8 chunk; /* enum sctp_chunk */
	__u8 flags;
	__be16 length;
};

#define SCTP_HEADER_SIZE offsetof(struct sctp_packet, chunk)

/* Types of chunks that begin or end an association (RFC 9260 3.2). */
enum sctp_chunk {
	SCTP_INIT = 1,
	SCTP_INIT_ACK = 2,
	SCTP_ABORT = 6,
	SCTP_SHUTDOWN = 7,
	SCTP_SHUTDOWN_ACK = 8,
	SCTP_SHUTDOWN_COMPLETE = 14,
};

/* The packet is read no further, and must not pass if its address is a Service's. */
static __always_inline int parse_defect(struct packet *p, enum outcome reason)
{
	p->defect = reason;
	return reason;
}

/*
 * A transport header that is not all there. A first fragment that has the ports but not
 * the rest would be translated in one piece and judged, or summed, by another (RFC 1858).
 */
static __noinline int parse_short_transport(struct packet *p, __u32 end)
{
	__be16 ports[2];

	if (!packet_is_first_fragment(p) || p->l4 + sizeof(ports) > end ||
	    context_load(p->ctx, p->l4, ports, sizeof(ports)))
		return parse_defect(p, OUTCOME_MALFORMED);
	p->tuple.sport = ports[0];
	p->tuple.dport = ports[1];
	p->defect = OUTCOME_BAD_FRAGMENT;
	return OUTCOME_CONTINUE;
}

static __always_inline int parse_tcp_header(struct packet *p, const struct tcphdr *tcp, __u32 end)
{
	if (tcp->doff * 4 < sizeof(*tcp))
		return parse_defect(p, OUTCOME_MALFORMED);
	p->tuple.sport = tcp->source;
	p->tuple.dport = tcp->dest;
	p->l4_size = tcp->doff * 4;
	p->tcp_flags = ((const __u8 *)tcp)[13];
	/* Of a first fragment its options may be in the next, where nobody looks. */
	if (p->l4 + p->l4_size > end)
		p->defect = packet_is_first_fragment(p) ? OUTCOME_BAD_FRAGMENT : OUTCOME_MALFORMED;
	return OUTCOME_CONTINUE;
}

/* Can a UDP header have this length? In IPv6 0 says that it is too large for the field (RFC 2675
 * 4).
 */
static __always_inline bool parse_udp_length_fits(const struct packet *p, __u32 length, __u32 end)
{
	if (length < sizeof(struct udphdr))
		return !length && !p->ipv4;
	return p->fragment || p->l4 + length <= end;
}

static __always_inline int parse_udp_header(struct packet *p, const struct udphdr *udp, __u32 end)
{
	p->tuple.sport = udp->source;
	p->tuple.dport = udp->dest;
	p->l4_size = sizeof(*udp);
	/* IPv6 has no header checksum, so UDP may not do without one (RFC 8200 8.1). */
	if ((!p->ipv4 && !udp->check) || !parse_udp_length_fits(p, bpf_ntohs(udp->len), end))
		p->defect = OUTCOME_MALFORMED;
	return OUTCOME_CONTINUE;
}

/*
 * A chunk in the words of TCP. The shutdown of one side is a FIN, as is the answer to it; what
 * ends an association at once is a RST. Chunks behind the first one are not looked at: INIT, its
 * answer and the end of a shutdown are alone in their packet (RFC 9260 6.10), and where another
 * one is missed the flow is only kept for longer.
 */
static __always_inline __u8 sctp_chunk_flags(__u8 chunk)
{
	switch (chunk) {
	case SCTP_INIT:
		return TCP_SYN;
	case SCTP_INIT_ACK:
		return TCP_SYN | TCP_ACK;
	case SCTP_ABORT:
	case SCTP_SHUTDOWN_COMPLETE:
		return TCP_RST;
	case SCTP_SHUTDOWN:
	case SCTP_SHUTDOWN_ACK:
		return TCP_FIN;
	default:
		return TCP_ACK;
	}
}

static __always_inline int parse_sctp_header(struct packet *p, const struct sctp_packet *sctp)
{
	p->tuple.sport = sctp->source;
	p->tuple.dport = sctp->dest;
	p->l4_size = SCTP_HEADER_SIZE;
	p->tcp_flags = sctp_chunk_flags(sctp->chunk);
	return OUTCOME_CONTINUE;
}

/*
 * The header is copied, not pointed at: one way of reading it for all packets, whatever
 * stands before it, halves the verifier's work.
 */
static __always_inline int parse_transport(struct packet *p, __u32 end)
{
	union {
		struct tcphdr tcp;
		struct udphdr udp;
		struct sctp_packet sctp;
	} copy = {};
	__u32 size = packet_is_tcp(p)  ? sizeof(copy.tcp) :
		     packet_is_sctp(p) ? sizeof(copy.sctp) :
					 sizeof(copy.udp);

	if (p->l4 + size > end)
		return parse_short_transport(p, end);
	if (context_load(p->ctx, p->l4, &copy, size))
		return parse_defect(p, OUTCOME_MALFORMED);
	if (packet_is_sctp(p))
		return parse_sctp_header(p, &copy.sctp);
	return packet_is_tcp(p) ? parse_tcp_header(p, &copy.tcp, end) :
				  parse_udp_header(p, &copy.udp, end);
}

#endif
