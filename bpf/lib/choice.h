/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * choice.h: the backend that a new flow was given (select.h), as it was at that moment.
 */
#ifndef WAGGLE_LIB_CHOICE_H
#define WAGGLE_LIB_CHOICE_H

#include "../layout/addr.h"

struct choice {
	struct ip_addr addr;
	__be16 port;
	__u8 flags; /* enum backend_flag */
	__u32 backend;
	__u32 generation;
};

#endif
