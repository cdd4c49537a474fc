/* SPDX-License-Identifier: Apache-2.0 */
#include "member.h"

#include "../../lcore/rights.h"

void member_of(struct worker *w, uint64_t virtual_mac)
{
	struct datapath *dp = (struct datapath *)(uintptr_t)w->datapath;
	dp->virtual_mac = virtual_mac;
	rights_begin_worker(w);
}
