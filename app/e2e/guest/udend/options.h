// SPDX-License-Identifier: Apache-2.0

/* udend's options, as its usage in udend.c has them. */

#ifndef UDEND_OPTIONS_H
#define UDEND_OPTIONS_H

#include "path.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_SIZES = 64, MAX_GROUPS = 64, EXIT_SHORT = 1, EXIT_USAGE = 2 };

struct options {
	const char *mode, *dev, *netdev;
	const char *second_dev, *second_netdev;
	union ibv_gid second_ip;
	union ibv_gid ip, to[MAX_GROUPS], mgid[MAX_GROUPS];
	int tos, mgids;
	bool has_ip, with_imm;
	uint32_t qkey, qpn, imm, seq, count, gap_ms;
	uint16_t pkey_index;
	struct path path;
	double seconds;
	uint32_t size[MAX_SIZES];
	int sizes;
};

/* Ends the program with a line that says why. */
void usage(const char *why) __attribute__((noreturn));

struct options options_parse(int argc, char **argv);

#endif
