// SPDX-License-Identifier: Apache-2.0

#include "queue_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_BROKEN = 3 };

void fail(const char *what)
{
	printf("{\"event\":\"error\",\"what\":\"%s: %s\"}\n", what, strerror(errno));
	exit(EXIT_BROKEN);
}

double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}
