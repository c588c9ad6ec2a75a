/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tc-gso NETNS ADDRESS PORT SIZE COUNT: sends COUNT datagrams of SIZE bytes in one call
 * (UDP_SEGMENT), so that they travel as one packet until somebody has to cut it, and
 * prints how many answers from the same address came within two seconds.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct timeval patience = {.tv_sec = 2};
	static char data[65536], answer[256];
	int netns, fd, size, count, answers = 0;
	struct addrinfo *to;

	if (argc != 6)
		errx(2, "usage: tc-gso NETNS ADDRESS PORT SIZE COUNT");
	size = atoi(argv[4]);
	count = atoi(argv[5]);
	netns = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		err(1, "%s", argv[1]);
	if (getaddrinfo(argv[2], argv[3], &hints, &to))
		errx(1, "%s", argv[2]);
	fd = socket(to->ai_family, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen))
		err(1, "connect");
	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		err(1, "setsockopt");
	memset(data, 1, sizeof(data));
	if (send(fd, data, size * count, 0) != size * count)
		err(1, "send");
	while (answers < count && recv(fd, answer, sizeof(answer), 0) > 0)
		answers++;
	printf("%d\n", answers);
	return 0;
}
