/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * parse_transport.h: what does the TCP or UDP header say?
 *
 * in    p->l4, p->tuple.proto; end, the offset behind the IP packet
 * out   0 with ports and TCP flags set, and p->defect when its lengths cannot be;
 *       OUTCOME_MALFORMED with p->defect set
 */
#ifndef WAGGLE_LIB_PARSE_TRANSPORT_H
#define WAGGLE_LIB_PARSE_TRANSPORT_H

#include "addr.h"
#include "packet.h"

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
 * The header is copied, not pointed at: one way of reading it for all packets, whatever
 * stands before it, halves the verifier's work.
 */
static __always_inline int parse_transport(struct packet *p, __u32 end)
{
	union {
		struct tcphdr tcp;
		struct udphdr udp;
	} copy = {};
	__u32 size = packet_is_tcp(p) ? sizeof(copy.tcp) : sizeof(copy.udp);

	if (p->l4 + size > end)
		return parse_short_transport(p, end);
	if (packet_is_tcp(p) ? context_load(p->ctx, p->l4, &copy, sizeof(copy.tcp)) :
			       context_load(p->ctx, p->l4, &copy, sizeof(copy.udp)))
		return parse_defect(p, OUTCOME_MALFORMED);
	return packet_is_tcp(p) ? parse_tcp_header(p, &copy.tcp, end) :
				  parse_udp_header(p, &copy.udp, end);
}

#endif
