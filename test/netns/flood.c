/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood tcp|udp ADDRESS PORT COUNT RATE: sends COUNT SYNs or datagrams, RATE a second, each
 * from another forged source: 198.18.0.0/15 or 2001:db8:bad::/64, any port. The sequence
 * is the same in every run. Prints how many were sent.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t state = 88172645463325252ull;

static uint32_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

/* Ones' complement sum of 16-bit words as they lie in memory. */
static uint32_t sum_words(const void *data, size_t length)
{
	const uint16_t *words = data;
	uint32_t sum = 0;

	for (size_t i = 0; i < length / 2; i++)
		sum += words[i];
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* A SYN or an empty datagram; returns its length. `pseudo` is the sum of both addresses. */
static size_t make_transport(void *at, int tcp, uint16_t port, uint32_t pseudo)
{
	size_t length = tcp ? sizeof(struct tcphdr) : sizeof(struct udphdr);
	struct tcphdr *th = at;
	struct udphdr *uh = at;
	uint16_t source = htons(1024 + next_random() % 60000);

	memset(at, 0, length);
	pseudo += htons(length) + htons(tcp ? IPPROTO_TCP : IPPROTO_UDP);
	if (tcp) {
		th->source = source;
		th->dest = port;
		th->seq = next_random();
		th->doff = 5;
		th->syn = 1;
		th->window = htons(64240);
		th->check = fold(pseudo + sum_words(th, length));
	} else {
		uh->source = source;
		uh->dest = port;
		uh->len = htons(length);
		uh->check = fold(pseudo + sum_words(uh, length));
	}
	return length;
}

static size_t make_ipv4(void *at, const struct in_addr *to, int tcp, uint16_t port)
{
	struct iphdr *ip = at;
	size_t length;

	memset(ip, 0, sizeof(*ip));
	ip->saddr = htonl(0xc6120000u | (next_random() & 0x1ffff));
	ip->daddr = to->s_addr;
	length = sizeof(*ip) + make_transport(ip + 1, tcp, port, sum_words(&ip->saddr, 8));
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP;
	ip->tot_len = htons(length);
	return length;
}

static size_t make_ipv6(void *at, const struct in6_addr *to, int tcp, uint16_t port)
{
	struct ip6_hdr *ip = at;
	size_t length;

	memset(ip, 0, sizeof(*ip));
	inet_pton(AF_INET6, "2001:db8:bad::", &ip->ip6_src);
	ip->ip6_src.s6_addr32[3] = htonl(1 + (next_random() & 0xffffff));
	ip->ip6_dst = *to;
	length = make_transport(ip + 1, tcp, port, sum_words(&ip->ip6_src, 32));
	ip->ip6_flow = htonl(6u << 28);
	ip->ip6_hlim = 64;
	ip->ip6_nxt = tcp ? IPPROTO_TCP : IPPROTO_UDP;
	ip->ip6_plen = htons(length);
	return length + sizeof(*ip);
}

int main(int argc, char **argv)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	char packet[128] __attribute__((aligned(8)));
	long count, rate, sent = 0;
	int tcp, six, fd;

	if (argc != 6)
		errx(2, "usage: flood tcp|udp ADDRESS PORT COUNT RATE");
	tcp = strcmp(argv[1], "tcp") == 0;
	six = inet_pton(AF_INET6, argv[2], &v6.sin6_addr) == 1;
	if (!six && inet_pton(AF_INET, argv[2], &v4.sin_addr) != 1)
		errx(2, "not an address: %s", argv[2]);
	count = atol(argv[4]);
	rate = atol(argv[5]);
	/* IPPROTO_RAW: the header is ours. */
	fd = socket(six ? AF_INET6 : AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (fd < 0)
		err(1, "socket");
	for (long i = 0; i < count; i++) {
		uint16_t port = htons(atoi(argv[3]));
		size_t length = six ? make_ipv6(packet, &v6.sin6_addr, tcp, port) :
				      make_ipv4(packet, &v4.sin_addr, tcp, port);

		if (sendto(fd, packet, length, 0, six ? (void *)&v6 : (void *)&v4,
			   six ? sizeof(v6) : sizeof(v4)) == (ssize_t)length)
			sent++;
		if (i % 50 == 49) {
			struct timespec pause = { .tv_nsec = 50 * (1000000000L / rate) };

			nanosleep(&pause, NULL);
		}
	}
	printf("%ld\n", sent);
	return 0;
}
