/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tc-sctp KIND NETNS serve ADDRESS PORT
 * tc-sctp KIND NETNS call ADDRESS PORT SOURCE SPORT BYTES
 *
 * Both ends of an SCTP association. KIND kernel: sockets of the kernel's SCTP; the server sends
 * the address and port of who called, then what it is sent. KIND raw, where the kernel has no
 * SCTP: packets made here; an INIT is answered by an INIT ACK that holds the same, and both ends
 * look at the checksum. The caller prints what the server saw and whether all came back.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define INIT	 1
#define INIT_ACK 2

struct sctp {
	uint16_t source, dest;
	uint32_t tag, check;
	uint8_t type, flags;
	uint16_t length;
	uint32_t words[4];
	char text[64];
};

static uint32_t crc32c(const void *data, size_t size)
{
	const uint8_t *byte = data;
	uint32_t crc = ~0u;

	for (size_t i = 0; i < size; i++) {
		crc ^= byte[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static struct addrinfo *resolve(const char *address, const char *port, int type, int protocol)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;

	if (getaddrinfo(address, port, &hints, &found))
		errx(1, "%s", address);
	found->ai_socktype = type;
	found->ai_protocol = protocol;
	return found;
}

static int bound(const char *address, const char *port, int type)
{
	struct addrinfo *at = resolve(address, port, type, IPPROTO_SCTP);
	struct timeval patience = {.tv_sec = 20};
	int one = 1, fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		err(1, "socket");
	if (type == SOCK_RAW)
		((struct sockaddr_in *)at->ai_addr)->sin_port = 0;
	if (bind(fd, at->ai_addr, at->ai_addrlen))
		err(1, "bind %s %s", address, port);
	return fd;
}

static void name(const struct sockaddr_storage *peer, uint16_t port, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN];

	getnameinfo((const struct sockaddr *)peer, sizeof(*peer), address, sizeof(address), NULL, 0,
		    NI_NUMERICHOST);
	snprintf(text, size, "%s %u", address, port);
}

static void serve_kernel(int fd)
{
	static char data[65536];
	struct sockaddr_storage peer;
	char text[64];

	if (listen(fd, 16))
		err(1, "listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		socklen_t length = sizeof(peer);
		int one = accept(fd, (struct sockaddr *)&peer, &length);
		ssize_t got;

		if (one < 0)
			continue;
		name(&peer, ntohs(((struct sockaddr_in *)&peer)->sin_port), text, sizeof(text));
		send(one, text, sizeof(text), MSG_NOSIGNAL);
		while ((got = recv(one, data, sizeof(data), 0)) > 0)
			send(one, data, got, MSG_NOSIGNAL);
		close(one);
	}
}

static void call_kernel(int fd, const struct addrinfo *to, size_t bytes)
{
	static char data[1 << 20], back[1 << 20];
	size_t sent = 0, got = 0;
	char text[64] = "";
	ssize_t part;

	if (connect(fd, to->ai_addr, to->ai_addrlen))
		err(1, "connect");
	if (recv(fd, text, sizeof(text), 0) != sizeof(text))
		err(1, "recv");
	for (size_t i = 0; i < bytes; i++)
		data[i] = i * 7 ^ i >> 8;
	while (got < bytes) {
		/* No more under way than the other side takes before it answers. */
		while (sent < bytes && sent - got < 32768) {
			size_t next = bytes - sent < 8192 ? bytes - sent : 8192;

			if (send(fd, data + sent, next, MSG_NOSIGNAL) != (ssize_t)next)
				err(1, "send");
			sent += next;
		}
		part = recv(fd, back + got, sizeof(back) - got, 0);
		if (part <= 0)
			err(1, "recv after %zu bytes", got);
		got += part;
	}
	printf("%s %s\n", text, memcmp(data, back, bytes) ? "different" : "equal");
}

/* A packet of this type with a right checksum for this port; false: the next one. */
static int raw_receive(int fd, struct sctp *packet, uint16_t port, uint8_t type,
		       struct sockaddr_storage *peer)
{
	static uint8_t data[65536];
	socklen_t length = sizeof(*peer);
	ssize_t size = recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)peer, &length);
	size_t header = peer->ss_family == AF_INET ? (data[0] & 15) * 4 : 0;
	uint32_t check;

	if (size < 0)
		err(1, "recv");
	if ((size_t)size - header != sizeof(*packet))
		return 0;
	memcpy(packet, data + header, sizeof(*packet));
	if (packet->type != type || packet->dest != htons(port))
		return 0;
	check = packet->check;
	packet->check = 0;
	if (crc32c(packet, sizeof(*packet)) != check)
		errx(1, "wrong checksum");
	return 1;
}

static void raw_send(int fd, struct sctp *packet, struct sockaddr_storage *peer, socklen_t length)
{
	((struct sockaddr_in *)peer)->sin_port = 0;
	packet->length = htons(sizeof(*packet) - 12);
	packet->check = 0;
	packet->check = crc32c(packet, sizeof(*packet));
	if (sendto(fd, packet, sizeof(*packet), 0, (struct sockaddr *)peer, length) < 0)
		err(1, "sendto");
}

static void serve_raw(int fd, uint16_t port)
{
	struct sockaddr_storage peer;
	struct timeval ever = {};
	struct sctp packet;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever));
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct sctp answer = {.type = INIT_ACK};

		if (!raw_receive(fd, &packet, port, INIT, &peer))
			continue;
		answer.source = packet.dest;
		answer.dest = packet.source;
		answer.tag = packet.words[0];
		name(&peer, ntohs(packet.source), answer.text, sizeof(answer.text));
		raw_send(fd, &answer, &peer,
			 peer.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
						     sizeof(struct sockaddr_in6));
	}
}

static void call_raw(int fd, const struct addrinfo *to, uint16_t port, uint16_t sport)
{
	struct sctp packet = {
		.type = INIT, .source = htons(sport), .dest = htons(port), .words = {0x12345678}};
	struct sockaddr_storage frontend = {}, peer;
	char want[64], got[64];

	memcpy(&frontend, to->ai_addr, to->ai_addrlen);
	((struct sockaddr_in *)&frontend)->sin_port = 0;
	/* So that an ICMP error is told. */
	if (connect(fd, (struct sockaddr *)&frontend, to->ai_addrlen))
		err(1, "connect");
	name(&frontend, port, want, sizeof(want));
	raw_send(fd, &packet, &frontend, to->ai_addrlen);
	while (!raw_receive(fd, &packet, sport, INIT_ACK, &peer))
		;
	name(&peer, ntohs(packet.source), got, sizeof(got));
	printf("%s %s\n", packet.text,
	       !strcmp(want, got) && packet.tag == 0x12345678 ? "equal" : got);
}

int main(int argc, char **argv)
{
	int raw, netns, fd;

	if (argc < 6)
		errx(2, "see the source");
	raw = !strcmp(argv[1], "raw");
	netns = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		err(1, "%s", argv[2]);
	if (!strcmp(argv[3], "serve")) {
		struct timeval ever = {};

		fd = bound(argv[4], argv[5], raw ? SOCK_RAW : SOCK_STREAM);
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever));
		if (raw)
			serve_raw(fd, atoi(argv[5]));
		serve_kernel(fd);
	}
	if (argc != 9)
		errx(2, "see the source");
	alarm(30);
	fd = bound(argv[6], argv[7], raw ? SOCK_RAW : SOCK_STREAM);
	if (raw)
		call_raw(fd, resolve(argv[4], argv[5], SOCK_RAW, IPPROTO_SCTP), atoi(argv[5]),
			 atoi(argv[7]));
	else
		call_kernel(fd, resolve(argv[4], argv[5], SOCK_STREAM, IPPROTO_SCTP),
			    atoi(argv[8]));
	return 0;
}
