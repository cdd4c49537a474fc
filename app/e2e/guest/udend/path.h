// SPDX-License-Identifier: Apache-2.0

/* How messages go to a GID, and how long they may be. */

#ifndef UDEND_PATH_H
#define UDEND_PATH_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_PAYLOAD = 4096 }; /* bytes: IB's largest MTU */

/* What an address handle has besides the GID. On Ethernet, dlid is 0 and there always is a GRH. */
struct path {
	uint16_t dlid;
	uint8_t source_bits, sl, tclass, hop_limit;
	bool without_grh;
};

#endif
