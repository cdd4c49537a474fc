// SPDX-License-Identifier: Apache-2.0

/* Preloaded into every command of the guest: programs that print to a pipe keep
 * their lines back until 4096 bytes are full, and a test that waits for
 * mckey's "joined" would wait for its end. */

#include <stdio.h>

__attribute__((constructor)) static void line_buffered(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
}
