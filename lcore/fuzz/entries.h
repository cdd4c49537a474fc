/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a rig's tables. Those of the second partition differ from the first one's by what is written here. */
#ifndef CAUSEWAY_LCORE_FUZZ_ENTRIES_H
#define CAUSEWAY_LCORE_FUZZ_ENTRIES_H

#include "../../ibside/port.h"
#include "../../tables/tables.h"

enum {
	HOST_QPN = 0x456,
	PROXY_QPN = 0x700,
	QKEY = 0x01234567,
	PORT = 4711,
	QP = 40,
	OF_NEXT = 8, /* QPNs, handles, ids and the last bytes of nodes' addresses are so many higher */
	LID = 7,     /* these are one higher */
	MLID = 0xc001,
};

extern const uint8_t rig_host[16], rig_group[16];

struct tables *make_tables(unsigned partitions);

/* The partition of a message's source; ends the process when it is none's. */
unsigned source_partition(const struct ib_recv *recv, const uint8_t *area);

#endif
