/*
 * tc-path-mtu ADDRESS PORT BYTES: a UDP application that does its own path MTU discovery.
 *
 * Sends datagrams of BYTES that may not be fragmented until the kernel refuses one
 * (EMSGSIZE), then one of the size that it names as the path's, and prints what happened:
 * `EMSGSIZE MTU ANSWER`, `arrived ANSWER` when one of BYTES is answered, or `nothing`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char payload[65536];

/* Text of the answer within ms, whatever errors the socket is told meanwhile. */
static const char *answer(int fd, int ms)
{
	static char text[64];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	socklen_t size = sizeof(int);
	ssize_t n;
	int error;

	for (; ms > 0; ms -= 10) {
		if (poll(&p, 1, 10) != 1)
			continue;
		n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
		if (n >= 0) {
			text[n] = 0;
			return text;
		}
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	int fd, one, mtu, bytes, tries, six;
	const char *text;

	if (argc != 4)
		return 2;
	six = inet_pton(AF_INET6, argv[1], &v6.sin6_addr) == 1;
	if (!six && inet_pton(AF_INET, argv[1], &v4.sin_addr) != 1)
		return 2;
	v4.sin_port = v6.sin6_port = htons(atoi(argv[2]));
	bytes = atoi(argv[3]);
	fd = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
	one = six ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
	if (setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &one,
		       sizeof(one)) ||
	    connect(fd, six ? (void *)&v6 : (void *)&v4, six ? sizeof(v6) : sizeof(v4))) {
		perror("connect");
		return 1;
	}
	for (tries = 0; tries < 20; tries++) {
		if (send(fd, payload, bytes, 0) < 0) {
			socklen_t size = sizeof(one);

			if (errno != EMSGSIZE) {
				perror("send");
				return 1;
			}
			if (getsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU : IP_MTU, &one,
				       &size)) {
				perror("getsockopt");
				return 1;
			}
			mtu = one;
			/* What earlier ones were told may come late, and the next call gets it. */
			for (tries = 0; tries < 20; tries++) {
				size = sizeof(one);
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &one, &size);
				if (send(fd, payload, mtu - (six ? 48 : 28), 0) > 0)
					break;
			}
			text = answer(fd, 3000);
			printf("EMSGSIZE %d %s\n", mtu, text ? text : "unanswered");
			return 0;
		}
		text = answer(fd, 100);
		if (text) {
			printf("arrived %s\n", text);
			return 0;
		}
	}
	printf("nothing\n");
	return 0;
}
