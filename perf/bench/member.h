/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAUSEWAY_BENCH_MEMBER_H
#define CAUSEWAY_BENCH_MEMBER_H

#include <stdint.h>

struct worker;

/* Makes the bridge of a worker that does not run a member of the fleet whose host shard 0 has a MAC address, the first
 * byte highest; 0: of none. The worker takes what leases there are. What it has for a fleet stays. */
void member_of(struct worker *w, uint64_t virtual_mac);

#endif
