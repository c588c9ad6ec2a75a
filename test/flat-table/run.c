/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * run.c: runs the BPF program with this id on several CPUs at once.
 *
 *   run ID REPEAT CPUS
 *
 * CPUS processes, each bound to a CPU of its own as far as there are so many.
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int run(unsigned id, unsigned repeat, int cpu)
{
	static char packet[64];
	union bpf_attr attr;
	cpu_set_t set;
	int fd;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		return 1;
	}
	memset(&attr, 0, sizeof(attr));
	attr.prog_id = id;
	fd = bpf(BPF_PROG_GET_FD_BY_ID, &attr);
	if (fd < 0) {
		perror("BPF_PROG_GET_FD_BY_ID");
		return 1;
	}
	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = fd;
	attr.test.repeat = repeat;
	attr.test.data_in = (unsigned long)packet;
	attr.test.data_size_in = sizeof(packet);
	if (bpf(BPF_PROG_TEST_RUN, &attr)) {
		perror("BPF_PROG_TEST_RUN");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), failed = 0, status, i;

	if (argc != 4) {
		fprintf(stderr, "usage: run ID REPEAT CPUS\n");
		return 2;
	}
	for (i = 0; i < atoi(argv[3]); i++)
		if (!fork())
			_exit(run(strtoul(argv[1], 0, 10), strtoul(argv[2], 0, 10), i % cpus));
	while (wait(&status) > 0)
		failed |= status;
	return failed ? 1 : 0;
}
