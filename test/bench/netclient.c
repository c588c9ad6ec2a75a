/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netclient.c: the timing end and the answering end of the connection benchmarks.
 *
 *   netclient serve CPU PORT PAUSE  TCP and UDP on every address of its network namespace
 *   netclient gro DEVICE            switches GRO on, so that a veth polls for frames
 *   netclient time CPU              reads one command a line, answers with one line
 *
 * PAUSE 0: the server waits for what comes. Otherwise it looks every PAUSE microseconds, so
 * that nobody is woken: waking a halted CPU of a virtual machine costs the sender 10 us or
 * nothing, as it happens, and a handshake or a datagram needs no server process.
 *
 * Commands of `time` (ADDR is the first of SPAN addresses; each step takes a random one):
 *
 *   cgroup DIR                        moves this process; answers "ok"
 *   tcp ADDR PORT SPAN COUNT          connect() + close() by reset
 *   udp ADDR PORT SPAN COUNT          connect() + close() of a UDP socket
 *   datagram ADDR PORT SPAN COUNT     connect() + send() + close() of a UDP socket
 *   crr ADDR PORT SPAN COUNT          connect, 64 bytes there and back, close
 *   rr ADDR PORT SPAN COUNT           64 bytes there and back on one connection
 *   flood ADDR PORT SPAN COUNT        18 byte datagrams on one socket, as fast as they go
 *   frames DEVICE FLOWS COUNT HEX     COUNT copies of a UDP frame straight to a device, in
 *                                     turn of FLOWS flows: each its own source port
 *
 * Answer: "P50 P99 MEAN" in nanoseconds a step, or "error TEXT".
 * `serve` answers "count" with the datagrams that it received.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAX_STEPS    200000
#define REQUEST_SIZE 64
/* As in the usual packet rate tests: a frame of 60 bytes. */
#define DATAGRAM_SIZE 18
/* Datagrams between two looks at the clock. */
#define FLOOD_CHUNK    40
#define RECEIVE_BUFFER (64 << 20)

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
	/* What else the machine does waits: a step takes microseconds. */
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}))
		die("sched_setscheduler");
}

/* --- serve ------------------------------------------------------------------- */

static int bound_socket(int type, int port)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, type | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, size = RECEIVE_BUFFER;

	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* One on each CPU, if there are several. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("bind");
	if (type == SOCK_STREAM && listen(fd, 65535))
		die("listen");
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

static void accept_all(int epoll, int listener)
{
	int on = 1;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		watch(epoll, fd);
	}
}

static void echo(int fd)
{
	char buffer[4096];
	ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

	if (got <= 0 || send(fd, buffer, got, MSG_NOSIGNAL) != got)
		close(fd);
}

static void serve(int port, int pause_us)
{
	int tcp = bound_socket(SOCK_STREAM, port);
	int udp = bound_socket(SOCK_DGRAM, port);
	int epoll = epoll_create1(0);
	struct epoll_event events[256];
	unsigned long received = 0;
	char buffer[256];
	int i, n;

	watch(epoll, tcp);
	watch(epoll, udp);
	watch(epoll, STDIN_FILENO);
	puts("ready");
	fflush(stdout);
	for (;;) {
		n = epoll_wait(epoll, events, 256, pause_us ? 0 : -1);
		if (!n)
			usleep(pause_us);
		for (i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == tcp) {
				accept_all(epoll, tcp);
			} else if (fd == udp) {
				while (recv(udp, buffer, sizeof(buffer), 0) >= 0)
					received++;
			} else if (fd == STDIN_FILENO) {
				if (read(STDIN_FILENO, buffer, sizeof(buffer)) <= 0)
					exit(0);
				printf("%lu\n", received);
				fflush(stdout);
			} else {
				echo(fd);
			}
		}
	}
}

/* --- time -------------------------------------------------------------------- */

struct target {
	struct sockaddr_in6 addr; /* or a sockaddr_in in its place */
	socklen_t size;
	uint32_t first; /* the low 32 bits of the first address */
	uint32_t span;
};

static uint64_t steps[MAX_STEPS];
static uint32_t random_state = 2463534242;

static uint32_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

static bool parse_target(struct target *t, const char *addr, int port, uint32_t span)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&t->addr;

	memset(t, 0, sizeof(*t));
	t->span = span;
	if (inet_pton(AF_INET, addr, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		t->size = sizeof(*v4);
		t->first = ntohl(v4->sin_addr.s_addr);
		return true;
	}
	if (inet_pton(AF_INET6, addr, &t->addr.sin6_addr) != 1)
		return false;
	t->addr.sin6_family = AF_INET6;
	t->addr.sin6_port = htons(port);
	t->size = sizeof(t->addr);
	t->first = ntohl(t->addr.sin6_addr.s6_addr32[3]);
	return true;
}

static const struct sockaddr *pick(struct target *t)
{
	uint32_t low = htonl(t->first + next_random() % t->span);

	if (t->addr.sin6_family == AF_INET6)
		t->addr.sin6_addr.s6_addr32[3] = low;
	else
		((struct sockaddr_in *)&t->addr)->sin_addr.s_addr = low;
	return (const struct sockaddr *)&t->addr;
}

static int client_socket(const struct target *t, int type)
{
	struct linger reset = {.l_onoff = 1};
	struct timeval limit = {.tv_sec = 3};
	int on = 1;
	int fd = socket(t->addr.sin6_family, type, 0);

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (type == SOCK_STREAM) {
		/* No TIME_WAIT: its port may be used again at once. */
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	return fd;
}

static bool exchange(int fd)
{
	char buffer[REQUEST_SIZE] = {};

	return send(fd, buffer, sizeof(buffer), MSG_NOSIGNAL) == sizeof(buffer) &&
	       recv(fd, buffer, sizeof(buffer), MSG_WAITALL) == sizeof(buffer);
}

static bool step_open(struct target *t, int type, bool datagram, uint64_t *took)
{
	int fd = client_socket(t, type);
	const struct sockaddr *addr = pick(t);
	uint64_t began = now_ns();
	bool ok = !connect(fd, addr, t->size);

	if (datagram && ok)
		ok = send(fd, "x", 1, 0) == 1;
	close(fd);
	*took = now_ns() - began;
	return ok;
}

static bool step_crr(struct target *t, uint64_t *took)
{
	const struct sockaddr *addr = pick(t);
	uint64_t began = now_ns();
	int fd = client_socket(t, SOCK_STREAM);
	bool ok = !connect(fd, addr, t->size) && exchange(fd);

	close(fd);
	*took = now_ns() - began;
	return ok;
}

static bool run_rr(struct target *t, int count)
{
	int fd = client_socket(t, SOCK_STREAM);
	bool ok = !connect(fd, pick(t), t->size);
	int i;

	for (i = 0; ok && i < count; i++) {
		uint64_t began = now_ns();

		ok = exchange(fd);
		steps[i] = now_ns() - began;
	}
	close(fd);
	return ok;
}

/* Steps are means of FLOOD_CHUNK datagrams each. Returns how many steps, 0 when one failed. */
static int run_flood(struct target *t, int count)
{
	int fd = client_socket(t, SOCK_DGRAM);
	char buffer[DATAGRAM_SIZE] = {};
	bool ok = !connect(fd, pick(t), t->size);
	int chunks = 0;
	int i;

	for (; ok && chunks < count / FLOOD_CHUNK; chunks++) {
		uint64_t began = now_ns();

		for (i = 0; ok && i < FLOOD_CHUNK; i++)
			ok = send(fd, buffer, sizeof(buffer), 0) == sizeof(buffer);
		steps[chunks] = (now_ns() - began) / FLOOD_CHUNK;
	}
	close(fd);
	return ok ? chunks : 0;
}

static bool run_steps(struct target *t, const char *what, int count)
{
	bool ok = true;
	int i;

	for (i = 0; ok && i < count; i++) {
		if (!strcmp(what, "crr"))
			ok = step_crr(t, &steps[i]);
		else if (!strcmp(what, "tcp"))
			ok = step_open(t, SOCK_STREAM, false, &steps[i]);
		else
			ok = step_open(t, SOCK_DGRAM, !strcmp(what, "datagram"), &steps[i]);
	}
	return ok;
}

/* --- frames ------------------------------------------------------------------ */

#define MAX_FLOWS      65536
#define MAX_FRAME      128
#define FRAMES_A_CALL  64
#define IPV4_UDP_SPORT (14 + 20)
#define IPV6_UDP_SPORT (14 + 40)
#define UDP_HEADER     8

static uint8_t frames[MAX_FLOWS][MAX_FRAME];

static void add16(uint8_t *field, int by)
{
	int value = (field[0] << 8 | field[1]) + by;

	field[0] = value >> 8;
	field[1] = value;
}

/* What the source port grows by the payload shrinks by: the checksum stays right. */
static bool make_frames(const char *hex, int flows, size_t *size)
{
	size_t i, sport;

	*size = strlen(hex) / 2;
	if (*size > MAX_FRAME || *size < ETH_HLEN)
		return false;
	for (i = 0; i < *size; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &frames[0][i]) != 1)
			return false;
	sport = frames[0][12] == ETH_P_IP >> 8 ? IPV4_UDP_SPORT : IPV6_UDP_SPORT;
	if (sport + UDP_HEADER + sizeof(uint16_t) > *size)
		return false;
	for (i = 1; i < (size_t)flows; i++) {
		memcpy(frames[i], frames[0], *size);
		add16(frames[i] + sport, i);
		add16(frames[i] + sport + UDP_HEADER, -(int)i);
	}
	return true;
}

static int frame_socket(const char *device)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	int on = 1;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Steps are means of FRAMES_A_CALL frames each. Returns how many steps, 0 when one failed. */
static int send_frames(int fd, size_t size, int flows, int count)
{
	struct mmsghdr calls[FRAMES_A_CALL] = {};
	struct iovec parts[FRAMES_A_CALL];
	int chunks, i, flow = 0;

	for (chunks = 0; chunks < count / FRAMES_A_CALL; chunks++) {
		uint64_t began;

		for (i = 0; i < FRAMES_A_CALL; i++) {
			parts[i] = (struct iovec){.iov_base = frames[flow], .iov_len = size};
			calls[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
			flow = flow + 1 < flows ? flow + 1 : 0;
		}
		began = now_ns();
		if (sendmmsg(fd, calls, FRAMES_A_CALL, 0) != FRAMES_A_CALL)
			return 0;
		steps[chunks] = (now_ns() - began) / FRAMES_A_CALL;
	}
	return chunks;
}

static int run_frames(const char *device, const char *hex, int flows, int count)
{
	size_t size;
	int done, fd;

	errno = EINVAL;
	if (flows < 1 || flows > MAX_FLOWS || count < FRAMES_A_CALL ||
	    count / FRAMES_A_CALL > MAX_STEPS || !make_frames(hex, flows, &size))
		return 0;
	fd = frame_socket(device);
	if (fd < 0)
		return 0;
	done = send_frames(fd, size, flows, count);
	close(fd);
	return done;
}

/* --- commands ---------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void answer_cgroup(const char *dir)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		printf("error cgroup %s: %s\n", dir, strerror(errno));
	else
		puts("ok");
	if (fd >= 0)
		close(fd);
}

static void answer_steps(int count)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < count; i++)
		sum += steps[i];
	qsort(steps, count, sizeof(steps[0]), by_size);
	printf("%lu %lu %lu\n", steps[count / 2], steps[(size_t)count * 99 / 100], sum / count);
}

static void answer(char *line)
{
	char what[16], addr[512], hex[2 * MAX_FRAME + 1];
	int port, span, count;
	struct target t;
	bool ok;

	if (sscanf(line, "cgroup %511s", addr) == 1) {
		answer_cgroup(addr);
		return;
	}
	if (sscanf(line, "frames %511s %d %d %256s", addr, &span, &count, hex) == 4) {
		count = run_frames(addr, hex, span, count);
		if (count)
			answer_steps(count);
		else
			printf("error frames %s: %s\n", addr, strerror(errno));
		return;
	}
	if (sscanf(line, "%15s %511s %d %d %d", what, addr, &port, &span, &count) != 5 ||
	    span < 1 || count < FLOOD_CHUNK || count > MAX_STEPS ||
	    !parse_target(&t, addr, port, span)) {
		printf("error not a command: %s", line);
		return;
	}
	if (!strcmp(what, "flood")) {
		count = run_flood(&t, count);
		ok = count > 0;
	} else {
		ok = !strcmp(what, "rr") ? run_rr(&t, count) : run_steps(&t, what, count);
	}
	if (ok)
		answer_steps(count);
	else
		printf("error %s %s:%d: %s\n", what, addr, port, strerror(errno));
}

/* A veth whose peer may hand it frames without an skb is one that polls for them. */
static void switch_gro_on(const char *device)
{
	struct ethtool_value value = {.cmd = ETHTOOL_SGRO, .data = 1};
	struct ifreq request = {.ifr_data = (void *)&value};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request))
		die(device);
	close(fd);
}

int main(int argc, char **argv)
{
	char line[1024];

	if (argc == 3 && !strcmp(argv[1], "gro")) {
		switch_gro_on(argv[2]);
		return 0;
	}

	if (argc == 5 && !strcmp(argv[1], "serve")) {
		pin(atoi(argv[2]));
		serve(atoi(argv[3]), atoi(argv[4]));
	}
	if (argc != 3 || strcmp(argv[1], "time")) {
		fprintf(stderr, "usage: netclient serve CPU PORT PAUSE | time CPU | gro DEVICE\n");
		return 2;
	}
	pin(atoi(argv[2]));
	while (fgets(line, sizeof(line), stdin)) {
		answer(line);
		fflush(stdout);
	}
	return 0;
}
