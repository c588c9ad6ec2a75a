/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd.c: thousands of TCP connections at a time, each with bytes of its own. Few machines
 * let one process have more than 20,000.
 *
 *   crowd serve PORT PROCESSES            answers each question, 16 bytes, with its complement
 *   crowd dial ADDRESS PORT SOURCE        reads one command a line, answers with one line:
 *
 *     open COUNT SECONDS   that many more connections, a question on each; those without an answer
 *                          by then are closed again. "opened N wrong N failed N first ERRNO"
 *     again                another question on all that are open: "right N of N"
 *     close COUNT          the oldest ones: "closed N"
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUESTION 16
#define MAX_FDS	 20000
/* Handshakes at a time: a machine with one slow processor has to keep up within a second. */
#define IN_FLIGHT 128
#define EVENTS	  256

enum state { NONE, CONNECTING, ASKED, OPEN };

static struct connection {
	enum state state;
	uint32_t number;
	uint8_t got;
	uint8_t bytes[QUESTION];
} connections[MAX_FDS]; /* by descriptor */

static struct addrinfo *target, *source;
static int epoll, first_error;
static uint32_t made, round_number, waiting, right, wrong, failed;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "getrlimit");
	limit.rlim_cur = limit.rlim_max < MAX_FDS ? limit.rlim_max : MAX_FDS;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "setrlimit");
}

static void watch(int fd, uint32_t events, int how)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	if (epoll_ctl(epoll, how, fd, &event))
		err(1, "epoll_ctl");
}

/* --- serve ------------------------------------------------------------------- */

static void answer(int fd)
{
	struct connection *c = &connections[fd];
	ssize_t n;

	while ((n = read(fd, c->bytes + c->got, QUESTION - c->got)) > 0) {
		c->got += n;
		if (c->got < QUESTION)
			continue;
		for (int i = 0; i < QUESTION; i++)
			c->bytes[i] = ~c->bytes[i];
		if (write(fd, c->bytes, QUESTION) != QUESTION)
			break;
		c->got = 0;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		c->got = 0;
		close(fd);
	}
}

static void serve(int port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct epoll_event events[EVENTS];
	int on = 1, fd;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) || listen(listener, 65535))
		err(1, "listen");
	watch(listener, EPOLLIN, EPOLL_CTL_ADD);
	puts("ready");
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd != listener) {
				answer(events[i].data.fd);
				continue;
			}
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
				watch(fd, EPOLLIN, EPOLL_CTL_ADD);
		}
	}
}

/* The kernel deals connections out among them. They end with this process. */
static void serve_in(int processes, int port)
{
	for (int i = 0; i < processes; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		epoll = epoll_create1(0);
		serve(port);
	}
	wait(NULL);
	errx(1, "a server ended");
}

/* --- dial -------------------------------------------------------------------- */

static void question_of(uint32_t number, uint8_t bytes[QUESTION])
{
	uint64_t words[2] = {number + 1, round_number + 1};

	for (int i = 0; i < 2; i++) {
		words[i] = (words[i] ^ words[0] << 32) * 0x9e3779b97f4a7c15ull;
		words[i] ^= words[i] >> 29;
	}
	memcpy(bytes, words, QUESTION);
}

static void ask(int fd)
{
	struct connection *c = &connections[fd];
	uint8_t bytes[QUESTION];

	question_of(c->number, bytes);
	c->state = ASKED;
	c->got = 0;
	if (write(fd, bytes, QUESTION) != QUESTION)
		warn("write");
}

static void give_up(int fd, int error)
{
	if (!first_error)
		first_error = error;
	failed++;
	waiting--;
	connections[fd].state = NONE;
	close(fd);
}

static void dial(void)
{
	int fd = socket(target->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || fd >= MAX_FDS)
		err(1, "socket");
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, source->ai_addr, source->ai_addrlen))
		err(1, "bind");
	connections[fd] = (struct connection){.state = CONNECTING, .number = made++};
	waiting++;
	if (connect(fd, target->ai_addr, target->ai_addrlen) && errno != EINPROGRESS)
		give_up(fd, errno);
	else
		watch(fd, EPOLLOUT, EPOLL_CTL_ADD);
}

static void connected(int fd)
{
	socklen_t size = sizeof(int);
	int error = 0;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		give_up(fd, error);
		return;
	}
	watch(fd, EPOLLIN, EPOLL_CTL_MOD);
	ask(fd);
}

static void heard(int fd)
{
	struct connection *c = &connections[fd];
	ssize_t n = read(fd, c->bytes + c->got, QUESTION - c->got);
	uint8_t bytes[QUESTION];

	if (n <= 0) {
		if (c->state == ASKED)
			give_up(fd, n ? errno : ECONNRESET);
		else
			watch(fd, 0, EPOLL_CTL_MOD);
		return;
	}
	c->got += n;
	if (c->got < QUESTION)
		return;
	question_of(c->number, bytes);
	for (int i = 0; i < QUESTION; i++)
		bytes[i] = ~bytes[i];
	if (memcmp(bytes, c->bytes, QUESTION))
		wrong++;
	else
		right++;
	c->state = OPEN;
	waiting--;
}

static void handle(int timeout_ms)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(epoll, events, EVENTS, timeout_ms);

	for (int i = 0; i < n; i++) {
		if (connections[events[i].data.fd].state == CONNECTING)
			connected(events[i].data.fd);
		else
			heard(events[i].data.fd);
	}
}

/* Handshakes that wait for a SYN that was dropped do not hold up the others. */
static void open_more(uint32_t count, double seconds)
{
	double end = now() + seconds;
	uint32_t last = made + count, in_flight = IN_FLIGHT;

	right = wrong = failed = waiting = first_error = 0;
	while ((made < last || waiting) && now() < end) {
		uint32_t before = right;

		while (made < last && waiting < in_flight)
			dial();
		handle(100);
		if (right == before && waiting == in_flight)
			in_flight += IN_FLIGHT;
	}
	for (int fd = 0; fd < MAX_FDS && waiting; fd++) {
		if (connections[fd].state == CONNECTING || connections[fd].state == ASKED)
			give_up(fd, ETIMEDOUT);
	}
	printf("opened %u wrong %u failed %u first %s\n", right, wrong, failed,
	       first_error ? strerrorname_np(first_error) : "-");
}

static void ask_all(void)
{
	double end = now() + 60;
	uint32_t asked = 0;

	round_number++;
	right = wrong = failed = waiting = 0;
	for (int fd = 0; fd < MAX_FDS; fd++) {
		if (connections[fd].state != OPEN)
			continue;
		asked++;
		waiting++;
		ask(fd);
		while (waiting >= IN_FLIGHT && now() < end)
			handle(100);
	}
	while (waiting && now() < end)
		handle(100);
	printf("right %u of %u\n", right, asked);
}

static void close_some(uint32_t count)
{
	uint32_t closed = 0;

	for (int fd = 0; fd < MAX_FDS && closed < count; fd++) {
		if (connections[fd].state != OPEN)
			continue;
		connections[fd].state = NONE;
		close(fd);
		closed++;
	}
	printf("closed %u\n", closed);
}

static struct addrinfo *address_of(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int error = getaddrinfo(host, port, &hints, &found);

	if (error)
		errx(1, "%s: %s", host, gai_strerror(error));
	return found;
}

int main(int argc, char **argv)
{
	char line[64];
	uint32_t count;
	double seconds;

	setvbuf(stdout, NULL, _IOLBF, 0);
	allow_descriptors();
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve_in(atoi(argv[3]), atoi(argv[2]));
	if (argc != 5 || strcmp(argv[1], "dial"))
		errx(2, "usage: crowd serve PORT PROCESSES | crowd dial ADDRESS PORT SOURCE");
	epoll = epoll_create1(0);
	target = address_of(argv[2], argv[3]);
	source = address_of(argv[4], NULL);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "open %u %lf", &count, &seconds) == 2)
			open_more(count, seconds);
		else if (sscanf(line, "close %u", &count) == 1)
			close_some(count);
		else
			ask_all();
	}
	return 0;
}
