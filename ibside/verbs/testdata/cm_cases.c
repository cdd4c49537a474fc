/* SPDX-License-Identifier: Apache-2.0 */
/* cm.c on events that the test makes. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "../cm.h"

static struct rdma_cm_event event;

int rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **e)
{
	(void)c;
	*e = &event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *e)
{
	memset(e, 0xee, sizeof(*e)); /* it is the library's again */
	return 0;
}

/* The P_Key of an event whose connection is in partition 0x8001. */
static unsigned pkey_of(enum rdma_cm_event_type type)
{
	struct verbs_cm_event out;
	struct rdma_cm_id id = {0};

	id.route.addr.src_addr.sa_family = id.route.addr.dst_addr.sa_family = AF_INET;
	id.route.addr.addr.ibaddr.pkey = htons(0x8001);
	event = (struct rdma_cm_event){.event = type, .id = &id};
	if (verbs_cm_next(NULL, &out))
		return 0;
	return out.sidr.pkey;
}

int main(void)
{
	if (pkey_of(RDMA_CM_EVENT_CONNECT_REQUEST) != 0x8001 || pkey_of(RDMA_CM_EVENT_ADDR_RESOLVED) != 0x8001)
		return 1;
	printf("cm: ok\n");
	return 0;
}
