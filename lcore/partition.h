/* SPDX-License-Identifier: Apache-2.0 */
/* In which partition of InfiniBand a packet from Ethernet goes, and the proxy QP that sends it there. */
#ifndef CAUSEWAY_PARTITION_H
#define CAUSEWAY_PARTITION_H

#include "burst.h"

/* The number of the partition that packet i goes to; its destination is known. */
unsigned partition_of(const struct datapath *dp, const struct burst *b, unsigned i);

/* Finds the proxy QP of packet i's source, its from_entry, for a destination in another partition than that of the
 * source's key, if its segment reaches that; NULL: there is none. If the partition is the same, it stays. */
enum drop find_in_partition(const struct datapath *dp, struct burst *b, unsigned i);

#endif
