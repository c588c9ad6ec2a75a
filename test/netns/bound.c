/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bound tcp|udp ADDRESS FIRST LAST: one socket on each port of the address, bound and not yet
 * connected. Reads one command a line, answers with one line:
 *
 *   connect FIRST LAST ADDRESS PORT   the sockets of these ports: "connected N"
 *   ask PORT COUNT                    asks the echo service that it is connected to, COUNT times,
 *                                     and prints the source port that each answer names, or "-"
 */
#include <arpa/inet.h>
#include <err.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define REQUEST "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"

static int sockets[65536];

static struct addrinfo *address_of(const char *host, int port, int type)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = type};
	struct addrinfo *found;
	char text[8];
	int error;

	snprintf(text, sizeof(text), "%d", port);
	error = getaddrinfo(host, text, &hints, &found);
	if (error)
		errx(1, "%s: %s", host, gai_strerror(error));
	return found;
}

static void bind_port(const char *host, int port, int type)
{
	struct addrinfo *own = address_of(host, port, type);
	/* No call waits for longer, connect() included. */
	struct timeval patience = {.tv_sec = 5};
	int fd = socket(own->ai_family, type, 0);

	if (fd < 0 || bind(fd, own->ai_addr, own->ai_addrlen))
		err(1, "bind %d", port);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	sockets[port] = fd;
	freeaddrinfo(own);
}

static bool connect_port(int port, const char *host, int to, int type)
{
	struct addrinfo *peer = address_of(host, to, type);
	bool connected = !connect(sockets[port], peer->ai_addr, peer->ai_addrlen);

	if (!connected)
		warn("connect from %d", port);
	freeaddrinfo(peer);
	return connected;
}

static void ask(int port)
{
	const char *found;
	char text[4096];
	ssize_t n;

	if (write(sockets[port], REQUEST, strlen(REQUEST)) < 0)
		warn("write");
	n = read(sockets[port], text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	found = strstr(text, "\"peerPort\":");
	if (found)
		printf(" %d", atoi(found + strlen("\"peerPort\":")));
	else
		printf(" -");
}

int main(int argc, char **argv)
{
	char line[128], host[64];
	int type, first, last, to, count;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5)
		errx(2, "usage: bound tcp|udp ADDRESS FIRST LAST");
	type = strcmp(argv[1], "udp") ? SOCK_STREAM : SOCK_DGRAM;
	for (int port = atoi(argv[3]); port <= atoi(argv[4]); port++)
		bind_port(argv[2], port, type);
	puts("bound");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "connect %d %d %63s %d", &first, &last, host, &to) == 4) {
			count = 0;
			for (int port = first; port <= last; port++)
				count += connect_port(port, host, to, type);
			printf("connected %d\n", count);
		} else if (sscanf(line, "ask %d %d", &first, &count) == 2) {
			for (int i = 0; i < count; i++)
				ask(first);
			puts("");
		}
	}
	return 0;
}
