/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tc-frames NETNS send DEVICE: sends each line of stdin, a frame in hex, by the device.
 * tc-frames NETNS tun DEVICE: makes a tun device (no Ethernet header) and says "ready";
 * each line of stdin, a packet in hex, arrives by it, and each packet that leaves by it
 * is printed as a line of hex. The device goes with the process, at end of input.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned char frame[65536];
static char line[2 * sizeof(frame) + 2];

/* The length of the frame in the next line, or -1 at the end. */
static int read_frame(void)
{
	int length = 0;

	if (!fgets(line, sizeof(line), stdin))
		return -1;
	while (sscanf(line + 2 * length, "%2hhx", &frame[length]) == 1)
		length++;
	return length;
}

static int open_packet(const char *device)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	addr.sll_ifindex = if_nametoindex(device);
	if (fd < 0 || !addr.sll_ifindex || bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		err(1, "%s", device);
	return fd;
}

static int open_tun(const char *device)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
		err(1, "%s", device);
	return fd;
}

static void print_frame(int length)
{
	int i;

	for (i = 0; i < length; i++)
		printf("%02x", frame[i]);
	puts("");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int netns, fd, length;
	int tun;

	if (argc != 4)
		errx(2, "usage: tc-frames NETNS send|tun DEVICE");
	netns = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		err(1, "%s", argv[1]);
	setvbuf(stdin, NULL, _IONBF, 0);
	tun = !strcmp(argv[2], "tun");
	fd = tun ? open_tun(argv[3]) : open_packet(argv[3]);
	if (!tun) {
		while ((length = read_frame()) >= 0)
			if (length && write(fd, frame, length) != length)
				err(1, "send");
		return 0;
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd fds[] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

		if (poll(fds, 2, -1) < 0)
			err(1, "poll");
		if (fds[1].revents & POLLIN) {
			length = read(fd, frame, sizeof(frame));
			if (length > 0)
				print_frame(length);
		}
		if (fds[0].revents) {
			length = read_frame();
			if (length < 0)
				return 0;
			if (length && write(fd, frame, length) != length)
				err(1, "inject");
		}
	}
}
