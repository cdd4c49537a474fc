// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* What rdmavt and the RDMA core ask of a driver; module parameters. */

#include "shca.h"
#include <linux/module.h>
#include <linux/slab.h>

static unsigned int guids, netdevs;
static u64 guid[SHCA_DEVICES];
module_param_array(guid, ullong, &guids, 0444);
MODULE_PARM_DESC(guid, "GUID of each node and its port, another on each machine");
static char *netdev[SHCA_DEVICES] = {"eth0"};
module_param_array(netdev, charp, &netdevs, 0444);
MODULE_PARM_DESC(netdev, "network interface that is the cable of each");
static char *description = "shca";
module_param(description, charp, 0444);
MODULE_PARM_DESC(description, "node description");
unsigned int shca_gids = SHCA_GUIDS;
module_param_named(gids, shca_gids, uint, 0444);
MODULE_PARM_DESC(gids, "length of the GID table, 1 to 8");
bool shca_loopback = true;
module_param_named(loopback, shca_loopback, bool, 0644);
MODULE_PARM_DESC(loopback, "a multicast comes back to this port's own members, as on mlx4 and mlx5");

static struct shca *devices[SHCA_DEVICES];

/* --- queue pairs --- */

/* rdmavt has no default for these two tables: posting and completing read them. */
static const struct rvt_operation_params operations[RVT_OPERATION_MAX] = {
	[IB_WR_SEND] = {.length = sizeof(struct ib_send_wr),
			.qpt_support = BIT(IB_QPT_UD) | BIT(IB_QPT_SMI) | BIT(IB_QPT_GSI)},
	[IB_WR_SEND_WITH_IMM] = {.length = sizeof(struct ib_send_wr),
				 .qpt_support = BIT(IB_QPT_UD) | BIT(IB_QPT_SMI) | BIT(IB_QPT_GSI)},
};
static const enum ib_wc_opcode completions[RVT_OPERATION_MAX] = {
	[IB_WR_SEND] = IB_WC_SEND,
	[IB_WR_SEND_WITH_IMM] = IB_WC_SEND,
};

static void *qp_alloc(struct rvt_dev_info *rdi, struct rvt_qp *qp)
{
	struct shca_qp *q = kzalloc(sizeof(*q), GFP_KERNEL);

	if (!q)
		return ERR_PTR(-ENOMEM);
	q->qp = qp;
	INIT_WORK(&q->send, send_work);
	return q;
}

static void qp_free(struct rvt_dev_info *rdi, struct rvt_qp *qp)
{
	kfree(qp->priv);
}

/* With s_lock held, in any context. */
static bool schedule_send(struct rvt_qp *qp)
{
	struct shca_qp *q = qp->priv;

	return queue_work(to_shca(qp->ibqp.device)->sends, &q->send);
}

/* After posting, without locks. A program's requests are sent at once, by its own thread: as with a real adapter they
 * are on the cable when it destroys its queue pair right after. The kernel's users may not sleep. */
static bool send_now(struct rvt_qp *qp)
{
	struct shca_qp *q = qp->priv;

	if (!qp->ibqp.uobject)
		return schedule_send(qp);
	send_work(&q->send);
	return true;
}

static void do_send(struct rvt_qp *qp)
{
	send_now(qp);
}

/* Without locks, when the queue pair is in RESET already. */
static void stop_sends(struct rvt_qp *qp)
{
	struct shca_qp *q = qp->priv;

	cancel_work_sync(&q->send);
}

static int check_request(struct rvt_qp *qp, struct rvt_swqe *wqe, bool *call_send)
{
	*call_send = false; /* by schedule_send */
	return wqe->length > 1U << rvt_get_swqe_ah(wqe)->log_pmtu ? -EINVAL : 0;
}

static void nothing_to_do(struct rvt_qp *qp)
{
}

static void no_restart(struct rvt_qp *qp, u32 psn, int wait)
{
}

static unsigned int no_qps_left(struct rvt_dev_info *rdi)
{
	return 0;
}

static int mtu_of_attributes(struct rvt_dev_info *rdi, struct rvt_qp *qp, struct ib_qp_attr *attr)
{
	return attr->path_mtu;
}

static u32 mtu_of_qp(struct rvt_dev_info *rdi, struct rvt_qp *qp, u32 mtu)
{
	return ib_mtu_enum_to_int(mtu);
}

static int mtu_to_enum(u32 mtu)
{
	return ib_mtu_int_to_enum(mtu);
}

/* --- address handles --- */

static int check_ah(struct ib_device *dev, struct rdma_ah_attr *attr)
{
	u32 dlid = rdma_ah_get_dlid(attr);

	if (rdma_ah_get_sl(attr) > 15 || !dlid || dlid > LID_PERMISSIVE)
		return -EINVAL;
	return is_multicast(dlid) && !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH) ? -EINVAL : 0;
}

static void new_ah(struct ib_device *dev, struct rdma_ah_attr *attr, struct rvt_ah *ah)
{
	ah->vl = 0;
	ah->log_pmtu = ilog2(ib_mtu_enum_to_int(to_shca(dev)->port.mtu));
}

/* --- device and port --- */

static struct pci_dev *pci_device(struct rvt_dev_info *rdi)
{
	return &container_of(rdi, struct shca, rdi)->pci;
}

static int shut_down_port(struct rvt_dev_info *rdi, u32 port)
{
	port_link(container_of(rdi, struct shca, rdi), false);
	return 0;
}

static void capabilities_changed(struct rvt_dev_info *rdi, u32 port)
{
}

static int modify_device(struct ib_device *dev, int mask, struct ib_device_modify *attr)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	memcpy(dev->node_desc, attr->node_desc, IB_DEVICE_NODE_DESC_MAX);
	return 0;
}

static int process_mad(struct ib_device *dev, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
		       const struct ib_mad *in, struct ib_mad *out, size_t *out_size, u16 *pkey_index)
{
	*out = *in;
	switch (in->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
		return sma_process(to_shca(dev), (struct ib_smp *)out);
	case IB_MGMT_CLASS_PERF_MGMT:
		return pma_process(to_shca(dev), out);
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
}

/* rdmavt wants a group of attributes, if an empty one. */
static struct attribute *no_attributes[] = {NULL};
static const struct attribute_group port_group = {.name = "shca", .attrs = no_attributes};
static const struct attribute_group *port_groups[] = {&port_group, NULL};

/* RDMA_DRIVER_QIB makes libibverbs take libipathverbs, which is rdmavt's interface to user space. */
static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_QIB,
	.port_groups = port_groups,
	.process_mad = process_mad,
	.modify_device = modify_device,
	.alloc_hw_port_stats = counters_alloc,
	.get_hw_stats = counters_get,
};

static const struct rvt_driver_provided driver = {
	.qp_priv_alloc = qp_alloc,
	.qp_priv_free = qp_free,
	.schedule_send = schedule_send,
	.schedule_send_no_lock = send_now,
	.do_send = do_send,
	.stop_send_queue = stop_sends,
	.setup_wqe = check_request,
	.quiesce_qp = nothing_to_do,
	.flush_qp_waiters = nothing_to_do,
	.notify_qp_reset = nothing_to_do,
	.notify_error_qp = nothing_to_do,
	.notify_restart_rc = no_restart,
	.free_all_qps = no_qps_left,
	.get_pmtu_from_attr = mtu_of_attributes,
	.mtu_from_qp = mtu_of_qp,
	.mtu_to_path_mtu = mtu_to_enum,
	.check_ah = check_ah,
	.notify_new_ah = new_ah,
	.get_pci_dev = pci_device,
	.get_guid_be = port_guid,
	.query_port_state = port_query,
	.shut_down_port = shut_down_port,
	.cap_mask_chg = capabilities_changed,
};

static void set_attributes(struct ib_device_attr *a, __be64 node)
{
	a->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_BAD_QKEY_CNTR | IB_DEVICE_SHUTDOWN_PORT |
			      IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_SRQ_RESIZE;
	a->page_size_cap = PAGE_SIZE;
	a->sys_image_guid = node;
	a->max_mr_size = ~0ULL;
	a->max_qp = 16384;
	a->max_qp_wr = 16384;
	a->max_send_sge = a->max_recv_sge = a->max_sge_rd = 16;
	a->max_cq = 4096;
	a->max_cqe = 196607;
	a->max_mr = 65536;
	a->max_pd = 4096;
	a->max_ah = 65536;
	a->max_srq = 256;
	a->max_srq_wr = 16383;
	a->max_srq_sge = 16;
	a->max_mcast_grp = 4096;
	a->max_mcast_qp_attach = 256;
	a->max_total_mcast_qp_attach = a->max_mcast_grp * a->max_mcast_qp_attach;
	a->max_pkeys = SHCA_PKEYS;
}

static void set_parameters(struct rvt_driver_params *p, __be64 node)
{
	set_attributes(&p->props, node);
	p->qp_table_size = 256;
	p->qpn_start = 2;
	p->qpn_inc = 1;
	p->qpn_res_start = 0xfffff0; /* numbers that no queue pair gets */
	p->qpn_res_end = 0xffffff;
	p->lkey_table_size = 14;
	p->nports = 1;
	p->npkeys = SHCA_PKEYS;
	p->psn_mask = p->psn_modify_mask = 0xffffff;
	p->psn_shift = 8;
	p->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	p->max_mad_size = IB_MGMT_MAD_SIZE;
	p->max_rdma_atomic = 16;
}

static void fill(struct shca *s, unsigned int index)
{
	struct ib_device *dev = &s->rdi.ibdev;

	set_parameters(&s->rdi.dparms, s->port.guids[0]);
	s->rdi.post_parms = operations;
	s->rdi.wc_opcode = completions;
	s->rdi.driver_f = driver;
	dev->phys_port_cnt = 1;
	dev->node_guid = s->port.guids[0];
	dev->dev.parent = &s->platform->dev;
	strscpy(dev->node_desc, description, sizeof(dev->node_desc));
	ib_set_device_ops(dev, &device_ops);
	rvt_set_ibdev_name(&s->rdi, "%s%d", "shca", index);
}

/* --- module --- */

static void release(struct shca *s)
{
	free_percpu(s->rvp.rc_acks);
	free_percpu(s->rvp.rc_qacks);
	free_percpu(s->rvp.rc_delayed_comp);
	if (s->sends)
		destroy_workqueue(s->sends);
	if (!IS_ERR_OR_NULL(s->platform))
		platform_device_unregister(s->platform);
	rvt_dealloc_device(&s->rdi);
}

static int allocate(struct shca *s, unsigned int index)
{
	s->rvp.rc_acks = alloc_percpu(u64);
	s->rvp.rc_qacks = alloc_percpu(u64);
	s->rvp.rc_delayed_comp = alloc_percpu(u64);
	s->sends = alloc_workqueue("shca", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	s->platform = platform_device_register_simple("shca", index, NULL, 0);
	s->pci.dev.init_name = "shca";
	if (IS_ERR(s->platform))
		return PTR_ERR(s->platform);
	return s->rvp.rc_acks && s->rvp.rc_qacks && s->rvp.rc_delayed_comp && s->sends ? 0 : -ENOMEM;
}

static int make(unsigned int index)
{
	struct shca *s = (struct shca *)rvt_alloc_device(sizeof(*s), 1);
	int err;

	if (!s)
		return -ENOMEM;
	err = allocate(s, index);
	if (err)
		goto free;
	port_init(s, guid[index]);
	fill(s, index);
	err = cable_init(s, netdev[index]);
	if (err)
		goto free;
	rvt_init_port(&s->rdi, &s->rvp, 0, s->port.pkeys);
	err = rvt_register_device(&s->rdi);
	if (err)
		goto unplug;
	cable_start(s);
	devices[index] = s;
	return 0;
unplug:
	cable_end(s);
free:
	release(s);
	return err;
}

static void shca_stop(void)
{
	for (int i = 0; i < SHCA_DEVICES && devices[i]; i++) {
		cable_stop(devices[i]);
		rvt_unregister_device(&devices[i]->rdi);
		cable_end(devices[i]);
		release(devices[i]);
	}
}

static int __init shca_start(void)
{
	int err = 0;

	if (!guids || (guids > 1 && netdevs != guids) || !shca_gids || shca_gids > SHCA_GUIDS)
		return -EINVAL;
	crc_init();
	for (unsigned int i = 0; i < guids && !err; i++)
		err = make(i);
	if (err)
		shca_stop();
	return err;
}

module_init(shca_start);
module_exit(shca_stop);
MODULE_DESCRIPTION("Software channel adapter with InfiniBand's link layer, unreliable datagrams only");
MODULE_LICENSE("Dual BSD/GPL");
