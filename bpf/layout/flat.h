/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * flat.h: the flat flow table: one record a flow, found by two words of an index.
 */
#ifndef WAGGLE_LAYOUT_FLAT_H
#define WAGGLE_LAYOUT_FLAT_H

#include "addr.h"

#define FLAT_BUCKET_WORDS 7

/*
 * Half a cache line of the index. A word is tag 9 | direction 1 | record 22 bits, and 0
 * when nothing stands there: record 0 is never used.
 */
struct flat_bucket {
	__u32 elsewhere; /* words whose home is here and that stand in another bucket */
	__u32 words[FLAT_BUCKET_WORDS];
};

/* How far a record has come: the low bits of flat_record.control. */
enum flat_record_state {
	FLAT_RECORD_FREE = 0,	 /* nobody's */
	FLAT_RECORD_TAKEN = 1,	 /* a new flow's, whose keys are being written */
	FLAT_RECORD_OFFERED = 2, /* its keys are there, and it is not decided yet */
	FLAT_RECORD_REFUSED = 3, /* another new flow of one of its keys goes first */
	FLAT_RECORD_LIVE = 4,
	FLAT_RECORD_ENDED = 5, /* whoever ended it takes its words out */
};

/* Where the parts of flat_record.control are, as numbers of bits; the lowest 3 are its state. */
enum flat_control {
	FLAT_CONTROL_CLIENT_AT = 3,   /* 4 bits: enum flow_sent of the client's packets */
	FLAT_CONTROL_BACKEND_AT = 7,  /* 4 bits: of the backend's */
	FLAT_CONTROL_CLAIMED_AT = 11, /* 6 bits: when it was taken, in sixteenths of a round */
	FLAT_CONTROL_AGE_AT = 17,     /* 15 bits: how often it was taken */
	FLAT_CONTROL_SEEN_AT = 32,    /* 32 bits: CLOCK_MONOTONIC of the last packet >> 28 ns */
	FLAT_CONTROL_TICK_BITS = 28,
};

/* What records of both families begin with. */
struct flat_record {
	__u64 control;	  /* all that changes in a flow's life; changed by compare-and-swap alone */
	__u32 backend;	  /* index into backends */
	__u16 generation; /* low bits of the backend's when the flow was opened */
	__u8 flags;	  /* enum flow_flag */
	__u8 proto;	  /* IPPROTO_* */
};

/* A packet's addresses and ports as it arrives. */
struct flat_key4 {
	__be32 src;
	__be32 dst;
	__be16 sport;
	__be16 dport;
};

struct flat_key6 {
	struct ip_addr src;
	struct ip_addr dst;
	__be16 sport;
	__be16 dport;
};

struct flat_record4 {
	struct flat_record base;
	struct flat_key4 client;  /* of the client's packets */
	struct flat_key4 backend; /* of the backend's */
};

struct flat_record6 {
	struct flat_record base;
	struct flat_key6 client;
	struct flat_key6 backend;
};

/* What the index is spread by: random, written once by the control plane before programs run. */
struct flat_secret {
	__u64 words[10];
};

_Static_assert(sizeof(struct flat_bucket) == 32, "flat_bucket is half a cache line");
_Static_assert(sizeof(struct flat_record4) == 40, "flat_record4 is 40 bytes");
_Static_assert(sizeof(struct flat_record6) == 88, "flat_record6 is 88 bytes");

#endif
