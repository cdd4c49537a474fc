/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory a worker writes, for checking that workers do not disturb each other. */
#ifndef CAUSEWAY_BENCH_LINES_H
#define CAUSEWAY_BENCH_LINES_H

#include <stdint.h>

#include "../../tables/tables.h"

enum {
	LINES_MAX = 16, /* ranges a worker */
	LINES_NAME = 32,
};

/* The writer of a range. Ranges with the same writer may share a cache line. */
enum writer {
	BY_WORKER,     /* the worker */
	BY_MANAGEMENT, /* its end of the worker's rings */
	BY_OTHERS,     /* other workers' and management's end of the worker's requeue ring */
};

struct range {
	uint64_t at;
	uint64_t len;
	enum writer writer;
	char what[LINES_NAME];
};

struct line_probe; /* a datapath with workers that have no port */

/* Makes n workers as the bridge makes them, with these tables. NULL: no memory. */
struct line_probe *line_probe_new(struct tables *t, unsigned n, unsigned max_groups);
void line_probe_free(struct line_probe *p);

/* Lists what is written of the worker; returns how many ranges, at most LINES_MAX. */
unsigned line_probe_ranges(const struct line_probe *p, unsigned worker, struct range *out);

#endif
