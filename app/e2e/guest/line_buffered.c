// SPDX-License-Identifier: Apache-2.0

/* Preloaded into every command of the guest: programs that print to a pipe buffer their lines until there are 4096
 * bytes, and a test that waits for mckey's "joined" would wait until mckey ends. */

#include <stdio.h>

__attribute__((constructor)) static void line_buffered(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
}
