/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * sockegress.bpf.c: refuses the datagrams of UDP sockets that are connected to a
 * removed backend. Their sender gets EPERM and connects anew, instead of talking to
 * nobody for ever.
 *
 * Attached to a cgroup only while such sockets live (backend_stats.udp_live of a
 * removed backend above 0), since it costs every packet of the node some 60 ns.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "lib/sock_finish.h"
#include "lib/sock_stale.h"

SEC("cgroup_skb/egress")
int sock_egress(struct __sk_buff *skb)
{
	return finish_datagram(sock_stale_check(skb));
}

char _license[] SEC("license") = "GPL";
