/* SPDX-License-Identifier: Apache-2.0 */
/* One type of each kind that readBtf tells apart. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

enum colour { RED, GREEN = 7, LOUD = 0xffffffff };

union either {
	__u32 number;
	__u8 bytes[4];
};

struct sample {
	__be16 port;
	__s8 small;
	bool yes;
	__u32 low : 3;
	__u32 high : 29;
	union either either;
	enum colour colour;
	const char *volatile text;
	__u64 wide;
};

struct sample a_sample SEC(".data.sample");
const volatile enum colour a_colour SEC(".rodata.config") = GREEN;
