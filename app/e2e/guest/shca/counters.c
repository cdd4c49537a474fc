// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* What happened to each packet, in /sys/class/infiniband/DEVICE/ports/1/hw_counters. */

#include "shca.h"

/* A message that finds no receive buffer is out_of_buffer, as mlx5 calls it. */
static const struct rdma_stat_desc names[SHCA_COUNTERS] = {
	[SENT].name = "tx_packets",
	[LOOPED].name = "looped",
	[RECEIVED].name = "rx_packets",
	[DELIVERED].name = "delivered",
	[OUT_NO_LINK].name = "tx_no_link",
	[OUT_NOT_ACTIVE].name = "tx_not_active",
	[OUT_DISCARDED].name = "tx_discarded",
	[OUT_NO_MEMORY].name = "tx_no_memory",
	[IN_LENGTH].name = "rx_length",
	[IN_VCRC].name = "rx_vcrc",
	[IN_ICRC].name = "rx_icrc",
	[IN_HEADERS].name = "rx_headers",
	[IN_OPCODE].name = "rx_opcode",
	[IN_NOT_ACTIVE].name = "rx_not_active",
	[IN_DLID].name = "rx_dlid",
	[IN_NO_QP].name = "rx_no_qp",
	[IN_NO_GROUP].name = "rx_no_group",
	[IN_QP_STATE].name = "rx_qp_state",
	[IN_QP_TYPE].name = "rx_qp_type",
	[IN_MAD].name = "rx_mad",
	[IN_PKEY].name = "rx_pkey",
	[IN_QKEY].name = "rx_qkey",
	[IN_NO_BUFFER].name = "out_of_buffer",
	[IN_TOO_LONG].name = "rx_too_long",
};

struct rdma_hw_stats *counters_alloc(struct ib_device *dev, u32 port)
{
	return rdma_alloc_hw_stats_struct(names, SHCA_COUNTERS, 0);
}

int counters_get(struct ib_device *dev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct shca *s = to_shca(dev);

	if (port != 1)
		return -EOPNOTSUPP;
	for (int i = 0; i < SHCA_COUNTERS; i++)
		stats->value[i] = atomic64_read(&s->count[i]);
	return SHCA_COUNTERS;
}
