/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * reply.h: turns the packet at hand into one of our own and sends it back.
 *
 * What a reply says is up to reject.h, icmp_make.h and icmp_echo.h. Here are the parts
 * that they share: how often, the IP header, the way back. All of it is for rare packets
 * and in functions of its own, off the path of known flows. They take the skb beside the
 * packet, because the one in the packet is lost on the way into a global function (below).
 *
 * maps  reply_v1 (write), devices_v1 through route.h
 */
#ifndef WAGGLE_LIB_REPLY_H
#define WAGGLE_LIB_REPLY_H

#include <stddef.h>

#include "../maps.h"
#include "csum.h"
#include "packet.h"
#include "parse.h"
#include "route.h"

/* Resets and ICMP errors a second and CPU; 0 = none. Linux limits its own to 1,000 a second, too.
 */
const volatile __u32 cfg_reply_rate = 1000;

/* What may come at once: a tenth of a second's. */
#define REPLY_BURST_NS 100000000ULL

#define REPLY_TTL	   64
#define IPV4_DONT_FRAGMENT 0x4000
#define REPLY_IPV4_SIZE	   ((__u32)sizeof(struct iphdr))
#define REPLY_IPV6_SIZE	   ((__u32)sizeof(struct ipv6hdr))
/* Index in reply_state.words of what follows the IP header, whose end is in front of it. */
#define REPLY_L4 10

static __always_inline struct reply_state *reply_state_get(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&reply_v1, &key);
}

/* Takes a token. Tokens come evenly, so the time when all taken ones are paid for tells what is
 * left. */
static __always_inline bool reply_is_allowed(struct reply_state *state)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 due = state->due_ns > now ? state->due_ns : now;

	if (!cfg_reply_rate || due - now > REPLY_BURST_NS)
		return false;
	state->due_ns = due + 1000000000ULL / cfg_reply_rate;
	return true;
}

/* Can the packet's source be answered? Not an unspecified or a multicast address (RFC 1122 3.2.2,
 * RFC 4443 2.4e). */
static __always_inline bool reply_has_receiver(const struct packet *p)
{
	__u8 first =
		p->ipv4 ? bpf_ntohl(p->tuple.src.w[3]) >> 24 : bpf_ntohl(p->tuple.src.w[0]) >> 24;

	if (addr_is_zero(&p->tuple.src))
		return false;
	return p->ipv4 ? first && first < 224 : first != 0xff;
}

/* Size of the IP header of a reply: it has no options. */
static __always_inline __u32 reply_ip_size(const struct packet *p)
{
	return p->ipv4 ? REPLY_IPV4_SIZE : REPLY_IPV6_SIZE;
}

/* Takes out what lies between the fixed IP header and p->l4: options, extension headers. */
static __always_inline long reply_drop_options(struct __sk_buff *skb, const struct packet *p)
{
	__s32 options = p->l4 - p->l2 - reply_ip_size(p);

	return options ? bpf_skb_adjust_room(skb, -options, BPF_ADJ_ROOM_NET, 0) : 0;
}

/*
 * Is the packet's checksum left to the device (CHECKSUM_PARTIAL)? No helper tells, but one
 * changes a field for a change of the data only when it is complete. What is left to the
 * device it writes where the field was, whatever we put there, from all that lies behind
 * the TCP or UDP header's begin.
 *
 * in    *check is the field as it stands
 */
static __always_inline long reply_find_checksum(struct __sk_buff *skb, const struct packet *p,
						__sum16 *check, bool *unfinished)
{
	__u32 offset = p->l4 + (packet_is_tcp(p) ? offsetof(struct tcphdr, check) :
						   offsetof(struct udphdr, check));
	__sum16 changed;

	if (bpf_skb_load_bytes(skb, offset, check, sizeof(*check)) ||
	    bpf_l4_csum_replace(skb, offset, 0, 1, 0) ||
	    bpf_skb_load_bytes(skb, offset, &changed, sizeof(changed)))
		return -1;
	*unfinished = changed == *check;
	return *unfinished ? 0 : bpf_skb_store_bytes(skb, offset, check, sizeof(*check), 0);
}

/* The IP header from p->to, in front of state->words[REPLY_L4]; length of what follows it in bytes.
 */
static __always_inline void reply_make_ip(const struct packet *p, struct reply_state *state,
					  __u16 length)
{
	__u32 *w = state->words;

	if (p->ipv4) {
		w += REPLY_L4 - REPLY_IPV4_SIZE / 4;
		w[0] = bpf_htonl(0x45000000 | (REPLY_IPV4_SIZE + length));
		w[1] = bpf_htonl(IPV4_DONT_FRAGMENT);
		w[2] = bpf_htonl(REPLY_TTL << 24 | p->to.proto << 16);
		w[3] = p->to.src.w[3];
		w[4] = p->to.dst.w[3];
		w[2] |= bpf_htonl(
			bpf_ntohs(csum_finish(bpf_csum_diff(NULL, 0, w, REPLY_IPV4_SIZE, 0))));
	} else {
		w[0] = bpf_htonl(0x60000000);
		w[1] = bpf_htonl((__u32)length << 16 | p->to.proto << 8 | REPLY_TTL);
		__builtin_memcpy(w + 2, &p->to.src, sizeof(p->to.src));
		__builtin_memcpy(w + 6, &p->to.dst, sizeof(p->to.dst));
	}
}

/* Writes the IP header and `size` bytes from state->words[REPLY_L4] on to the packet's start. size
 * is a constant. */
static __always_inline long reply_store(struct __sk_buff *skb, const struct packet *p,
					struct reply_state *state, __u32 size)
{
	const __u32 *w = state->words;

	if (p->ipv4)
		return bpf_skb_store_bytes(skb, p->l2, w + REPLY_L4 - REPLY_IPV4_SIZE / 4,
					   REPLY_IPV4_SIZE + size, 0);
	return bpf_skb_store_bytes(skb, p->l2, w, REPLY_IPV6_SIZE + size, 0);
}

/*
 * Finds the way for the reply that the packet has become.
 *
 * in    p->to
 * out   0 with p->egress set; as route_find
 */
static __noinline int reply_route(struct __sk_buff *skb, struct packet *p)
{
	p->ttl = REPLY_TTL;
	return route_find_from(skb, p);
}

#endif
