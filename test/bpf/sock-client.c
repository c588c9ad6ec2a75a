/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock-client: real sockets for the socket layer's tests, one system call per line.
 *
 *   sock-client run NETNS CGROUP            reads commands, answers each with a line
 *   sock-client serve NETNS ADDR PORT ...   TCP and UDP echo; answers name ADDR first
 *
 * Both enter the network namespace NETNS and end when standard input does. Answers are
 * "ok ..." or "err ERRNO". Sockets have small numbers that the test chooses.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SOCKETS 256

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void die(const char *what)
{
	fprintf(stderr, "sock-client: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void enter_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	close(fd);
}

static void enter_cgroup(const char *path)
{
	char file[4096];
	int fd;

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die(file);
	close(fd);
}

/* The family follows from the text: a.b.c.d is AF_INET, whatever the socket. */
static socklen_t parse(union address *a, const char *text, const char *port)
{
	memset(a, 0, sizeof(*a));
	if (strchr(text, ':')) {
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons(atoi(port));
		if (inet_pton(AF_INET6, text, &a->v6.sin6_addr) != 1)
			die(text);
		return sizeof(a->v6);
	}
	a->v4.sin_family = AF_INET;
	a->v4.sin_port = htons(atoi(port));
	if (inet_pton(AF_INET, text, &a->v4.sin_addr) != 1)
		die(text);
	return sizeof(a->v4);
}

static void format(const union address *a, char *text, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (a->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a->v6.sin6_addr, ip, sizeof(ip));
		snprintf(text, size, "[%s]:%d", ip, ntohs(a->v6.sin6_port));
	} else {
		inet_ntop(AF_INET, &a->v4.sin_addr, ip, sizeof(ip));
		snprintf(text, size, "%s:%d", ip, ntohs(a->v4.sin_port));
	}
}

/* kind is tcp4, tcp6, udp4, udp6, icmp4 or mptcp4. Blocking calls give up after two seconds. */
static int open_socket(const char *kind)
{
	struct timeval limit = {.tv_sec = 2};
	int family = kind[3] == '6' ? AF_INET6 : AF_INET;
	int type = kind[0] == 't' || kind[0] == 'm' ? SOCK_STREAM : SOCK_DGRAM;
	int protocol = kind[0] == 'i' ? IPPROTO_ICMP : kind[0] == 'm' ? IPPROTO_MPTCP : 0;
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit))))
		die("setsockopt");
	return fd;
}

/* --- serve ------------------------------------------------------------------ */

static int add_listener(const char *kind, const char *ip, const char *port)
{
	union address a;
	socklen_t size = parse(&a, ip, port);
	int one = 1;
	int fd = socket(a.any.sa_family, kind[0] == 't' ? SOCK_STREAM : SOCK_DGRAM, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, &a.any, size))
		die(ip);
	if (kind[0] == 't' && listen(fd, 4096))
		die("listen");
	return fd;
}

struct endpoint {
	char name[64];
	enum {
		LISTENER,
		DATAGRAM,
		CONNECTION
	} kind;
};

static struct pollfd polled[4096];
static struct endpoint endpoints[4096];
static int used;

static void add(int fd, const char *name, int kind)
{
	if (used == 4096) {
		close(fd);
		return;
	}
	polled[used] = (struct pollfd){.fd = fd, .events = POLLIN};
	snprintf(endpoints[used].name, sizeof(endpoints[used].name), "%s", name);
	endpoints[used++].kind = kind;
}

/* "NAME TEXT" for each datagram, and for each read of a connection; "NAME" on accept. */
static void answer(int i)
{
	char in[1024], out[1200];
	union address from;
	socklen_t size = sizeof(from);
	ssize_t n;
	int fd;

	switch (endpoints[i].kind) {
	case LISTENER:
		fd = accept4(polled[i].fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return;
		n = snprintf(out, sizeof(out), "%s", endpoints[i].name);
		if (write(fd, out, n) == n)
			add(fd, endpoints[i].name, CONNECTION);
		else
			close(fd);
		return;
	case DATAGRAM:
		n = recvfrom(polled[i].fd, in, sizeof(in) - 1, 0, &from.any, &size);
		if (n < 0)
			return;
		in[n] = 0;
		n = snprintf(out, sizeof(out), "%s %s", endpoints[i].name, in);
		sendto(polled[i].fd, out, n, 0, &from.any, size);
		return;
	case CONNECTION:
		n = read(polled[i].fd, in, sizeof(in) - 1);
		if (n > 0) {
			in[n] = 0;
			n = snprintf(out, sizeof(out), "%s %s", endpoints[i].name, in);
			if (write(polled[i].fd, out, n) == n)
				return;
		}
		close(polled[i].fd);
		used--;
		polled[i] = polled[used];
		endpoints[i] = endpoints[used];
	}
}

static void serve(int count, char **args)
{
	char rest[64];
	int i;

	add(0, "stdin", DATAGRAM);
	for (i = 0; i + 1 < count; i += 2) {
		add(add_listener("tcp", args[i], args[i + 1]), args[i], LISTENER);
		add(add_listener("udp", args[i], args[i + 1]), args[i], DATAGRAM);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		if (poll(polled, used, -1) < 0)
			die("poll");
		if (polled[0].revents && read(0, rest, sizeof(rest)) <= 0)
			return;
		for (i = used - 1; i > 0; i--)
			if (polled[i].revents)
				answer(i);
	}
}

/* --- run -------------------------------------------------------------------- */

static int sockets[MAX_SOCKETS];

/* Opens, connects and closes `count` sockets; the answer counts the outcomes. */
static void storm(const char *kind, const char *ip, const char *port, int count)
{
	int connected = 0, refused = 0, other = 0;
	union address a;
	socklen_t size = parse(&a, ip, port);

	while (count-- > 0) {
		int fd = open_socket(kind);

		if (fd < 0)
			die("socket");
		if (connect(fd, &a.any, size) == 0)
			connected++;
		else if (errno == ECONNREFUSED)
			refused++;
		else
			other++;
		close(fd);
	}
	printf("ok connected=%d refused=%d other=%d\n", connected, refused, other);
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size))
		die("SO_COOKIE");
	return cookie;
}

/*
 * Pairs of sockets whose cookies differ by a multiple of PLACES, so that both have the
 * same place. Cookies count up, so the partners come when PLACES more are given out; other
 * processes take some of them, hence the tries.
 */
#define PLACES 65536
#define PAIRS  200

static int pairs[2][PAIRS];
static union address pair_address[2];
static socklen_t pair_address_size[2];
static atomic_int at_pair;

static void make_pairs(const char *kind)
{
	static int partner_of[PLACES];
	long tries = 40L * PLACES;
	int missing = PAIRS;

	memset(partner_of, 0xff, sizeof(partner_of));
	for (int i = 0; i < PAIRS; i++) {
		pairs[0][i] = open_socket(kind);
		partner_of[cookie_of(pairs[0][i]) % PLACES] = i;
	}
	while (missing && tries--) {
		int fd = open_socket(kind);
		int *partner = &partner_of[cookie_of(fd) % PLACES];

		if (*partner < 0) {
			close(fd);
			continue;
		}
		pairs[1][*partner] = fd;
		*partner = -1;
		missing--;
	}
	printf("ok pairs=%d\n", PAIRS - missing);
}

static void *run_side(void *side)
{
	int me = side != NULL;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(me, &set);
	/* With one CPU the two take turns, which is no race, and no failure either. */
	sched_setaffinity(0, sizeof(set), &set);
	for (int i = 0; i < PAIRS; i++) {
		/* Each waits until both are at pair i. */
		atomic_fetch_add(&at_pair, 1);
		while (atomic_load(&at_pair) < 2 * (i + 1))
			sched_yield();
		if (pair_address_size[me] == 0)
			close(pairs[me][i]);
		else if (connect(pairs[me][i], &pair_address[me].any, pair_address_size[me]))
			die("connect");
	}
	return NULL;
}

/* One thread for the first of each pair, one for the second. Without addresses they close. */
static void race_pairs(char *const ip[2], const char *port)
{
	pthread_t thread[2];

	atomic_store(&at_pair, 0);
	for (int side = 0; side < 2; side++)
		pair_address_size[side] = port ? parse(&pair_address[side], ip[side], port) : 0;
	for (int side = 0; side < 2; side++)
		if (pthread_create(&thread[side], NULL, run_side, side ? &at_pair : NULL))
			die("pthread_create");
	for (int side = 0; side < 2; side++)
		pthread_join(thread[side], NULL);
	printf("ok\n");
}

/* How many of the pairs' sockets say that their peer is what they dialled. */
static void count_pairs(void)
{
	int right = 0;

	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < PAIRS; i++) {
			union address a;
			socklen_t size = sizeof(a);

			if (!getpeername(pairs[side][i], &a.any, &size) &&
			    a.v4.sin_addr.s_addr == pair_address[side].v4.sin_addr.s_addr)
				right++;
		}
	}
	printf("ok right=%d\n", right);
}

static ssize_t send_as(const char *how, int fd, char *text)
{
	struct iovec part = {.iov_base = text, .iov_len = strlen(text)};
	struct mmsghdr many = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};

	if (!strcmp(how, "write"))
		return write(fd, text, strlen(text));
	if (!strcmp(how, "sendmsg"))
		return sendmsg(fd, &many.msg_hdr, 0);
	if (!strcmp(how, "sendmmsg"))
		return sendmmsg(fd, &many, 1, 0);
	return send(fd, text, strlen(text), 0);
}

/* A child that holds copies of every socket and ends at once. */
static int fork_and_exit(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	return child < 0 || waitpid(child, NULL, 0) < 0 ? -1 : 0;
}

static void reply(ssize_t ret)
{
	if (ret < 0)
		printf("err %s\n", strerrorname_np(errno));
	else
		printf("ok\n");
}

static void reply_recv(int fd)
{
	char data[2048], from[80];
	union address a = {0};
	socklen_t size = sizeof(a);
	ssize_t n = recvfrom(fd, data, sizeof(data) - 1, 0, &a.any, &size);

	if (n < 0) {
		reply(n);
		return;
	}
	data[n] = 0;
	format(&a, from, sizeof(from));
	printf("ok %s %s\n", size ? from : "-", data);
}

static void reply_peer(int fd)
{
	char text[80];
	union address a;
	socklen_t size = sizeof(a);
	int ret = getpeername(fd, &a.any, &size);

	if (ret) {
		reply(ret);
		return;
	}
	format(&a, text, sizeof(text));
	printf("ok %s\n", text);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	reply(sched_setaffinity(0, sizeof(set), &set));
}

static void run(char *line)
{
	char *word[8] = {0}, *rest = line;
	union address a;
	int n = 0, *fd;

	while (n < 8 && (word[n] = strsep(&rest, " ")))
		n++;
	if (!strcmp(word[0], "storm")) {
		storm(word[1], word[2], word[3], atoi(word[4]));
		return;
	}
	if (!strcmp(word[0], "pin")) {
		pin(atoi(word[1]));
		return;
	}
	if (!strcmp(word[0], "fork")) {
		reply(fork_and_exit());
		return;
	}
	if (!strcmp(word[0], "pairs")) {
		make_pairs(word[1]);
		return;
	}
	if (!strcmp(word[0], "race")) {
		race_pairs(&word[1], word[3]);
		return;
	}
	if (!strcmp(word[0], "pair-peers")) {
		count_pairs();
		return;
	}
	if (n < 2 || atoi(word[1]) < 0 || atoi(word[1]) >= MAX_SOCKETS) {
		printf("err EINVAL\n");
		return;
	}
	fd = &sockets[atoi(word[1])];
	if (!strcmp(word[0], "socket")) {
		*fd = open_socket(word[2]);
		reply(*fd);
	} else if (!strcmp(word[0], "connect")) {
		socklen_t size = parse(&a, word[2], word[3]);

		reply(connect(*fd, &a.any, size));
	} else if (!strcmp(word[0], "bind")) {
		socklen_t size = parse(&a, word[2], word[3]);

		reply(bind(*fd, &a.any, size));
	} else if (!strcmp(word[0], "disconnect")) {
		a.any.sa_family = AF_UNSPEC;
		reply(connect(*fd, &a.any, sizeof(a.any)));
	} else if (!strcmp(word[0], "sendto")) {
		socklen_t size = parse(&a, word[2], word[3]);

		reply(sendto(*fd, word[4], strlen(word[4]), 0, &a.any, size));
	} else if (!strcmp(word[0], "recv")) {
		reply_recv(*fd);
	} else if (!strcmp(word[0], "cookie")) {
		printf("ok %llu\n", (unsigned long long)cookie_of(*fd));
	} else if (!strcmp(word[0], "peer")) {
		reply_peer(*fd);
	} else if (!strcmp(word[0], "dup")) {
		reply(sockets[atoi(word[2])] = dup(*fd));
	} else if (!strcmp(word[0], "close")) {
		reply(close(*fd));
	} else {
		reply(send_as(word[0], *fd, word[2]));
	}
}

int main(int argc, char **argv)
{
	char line[4096];

	if (argc < 4) {
		fprintf(stderr,
			"usage: sock-client run NETNS CGROUP | serve NETNS ADDR PORT ...\n");
		return 2;
	}
	enter_netns(argv[2]);
	if (!strcmp(argv[1], "serve")) {
		serve(argc - 3, argv + 3);
		return 0;
	}
	enter_cgroup(argv[3]);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		run(line);
		fflush(stdout);
	}
	return 0;
}
