/* SPDX-License-Identifier: Apache-2.0 */
#include "member.h"

#include "../../lcore/lease.h"

void member_of(struct worker *w, uint64_t virtual_mac)
{
	struct datapath *dp = (struct datapath *)(uintptr_t)w->datapath;
	dp->virtual_mac = virtual_mac;
	lease_begin_worker(w);
}
