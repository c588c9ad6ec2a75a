/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tc-offload NETNS on|off|gro-on|gro-off DEVICE...: whether devices finish checksums "in
 * hardware" (on, off), or merge what arrives (GRO). A veth that finishes checksums passes
 * packets on unfinished, and its peer takes them as right; one that does not computes each,
 * and its peer verifies it. One with GRO takes frames from its peer's XDP.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	const char *state;
	int netns, fd, gro, i;

	if (argc < 4)
		errx(2, "usage: tc-offload NETNS on|off|gro-on|gro-off DEVICE...");
	netns = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		err(1, "%s", argv[1]);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		err(1, "socket");
	gro = !strncmp(argv[2], "gro-", 4);
	state = argv[2] + (gro ? 4 : 0);
	for (i = 3; i < argc; i++) {
		struct ethtool_value value = {.cmd = gro ? ETHTOOL_SGRO : ETHTOOL_STXCSUM,
					      .data = !strcmp(state, "on")};
		struct ifreq request = {.ifr_data = (char *)&value};

		strncpy(request.ifr_name, argv[i], IFNAMSIZ - 1);
		if (ioctl(fd, SIOCETHTOOL, &request))
			err(1, "%s", argv[i]);
	}
	return 0;
}
