// SPDX-License-Identifier: Apache-2.0

/* A fake InfiniBand port for ibacm: the functions of libibverbs and libibumad that it calls, preloaded. GUID 7, LID 7,
 * the default partition, and a subnet administrator that grants everything. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "made_up0",
	.dev_name = "uverbs0",
};

static struct ibv_context context;

static int posted(void)
{
	return 0;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	*n = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	(void)d;
	return htobe64(6);
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	context.device = d;
	if (!context.async_fd) /* nothing ever happens to the device */
		context.async_fd = eventfd(0, 0);
	context.ops.post_recv = (void *)posted;
	context.ops.post_send = (void *)posted;
	context.ops.poll_cq = (void *)posted;
	context.ops.req_notify_cq = (void *)posted;
	return &context;
}

int ibv_close_device(struct ibv_context *c)
{
	(void)c;
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	(void)c;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

	(void)c;
	(void)port;
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = attr->pkey_tbl_len = 1;
	attr->lid = 7;
	attr->sm_lid = 1;
	attr->lmc = 0;
	attr->sm_sl = 0;
	attr->subnet_timeout = 18;
	attr->active_width = 2;
	attr->active_speed = 1;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	return 0;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	(void)c;
	(void)port;
	if (index)
		return -1;
	gid->global.subnet_prefix = htobe64(0xfe80000000000000);
	gid->global.interface_id = htobe64(7);
	return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	(void)c;
	(void)port;
	*pkey = htobe16(0xffff);
	return index ? -1 : 0;
}

int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	(void)c;
	(void)port;
	(void)pkey;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	static struct ibv_pd pd;

	pd.context = c;
	return &pd;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	static struct ibv_comp_channel channel;

	channel.context = c;
	return &channel;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *own, struct ibv_comp_channel *channel, int vector)
{
	static struct ibv_cq cq;

	(void)n;
	(void)vector;
	cq.context = c;
	cq.cq_context = own;
	cq.channel = channel;
	return &cq;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static struct ibv_qp qp;

	(void)attr;
	qp.context = pd->context;
	qp.qp_num = 0x77;
	return &qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t n, int access)
{
	static struct ibv_mr mr;

	(void)access;
	mr.pd = pd;
	mr.addr = addr;
	mr.length = n;
	return &mr;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **own)
{
	(void)channel;
	(void)cq;
	(void)own;
	for (;;)
		pause();
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	(void)c;
	(void)event;
	for (;;)
		pause();
}

int umad_init(void)
{
	return 0;
}

int umad_open_port(const char *name, int port)
{
	(void)name;
	(void)port;
	return eventfd(0, 0);
}

int umad_get_fd(int port)
{
	return port;
}

int umad_register(int port, int class, int version, uint8_t rmpp, long mask[16 / sizeof(long)])
{
	(void)port;
	(void)class;
	(void)version;
	(void)rmpp;
	(void)mask;
	return 0;
}

/* The subnet administrator grants every join, as MLID 0xc001, and every path it returns is to LID 9. Offsets are those
 * of struct ib_user_mad (linux rdma/ib_user_mad.h), a MAD and an SA header before the record (IBTA vol 1 §15.2). */
enum {
	USER_MAD = 64,
	RECORD = 56,
	METHOD = 3,
	ATTRIBUTE = 16,
	MAD = 256,
	PATH_RECORD = 0x35,
	MLID_AT = 36,
	DLID_AT = 40,
	STATUS_AT = 4
};

static unsigned char asked[16][USER_MAD + MAD];
static unsigned nasked, answered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int umad_send(int port, int agent, void *mad, int n, int timeout, int retries)
{
	(void)agent;
	(void)n;
	(void)timeout;
	(void)retries;
	pthread_mutex_lock(&lock);
	memcpy(asked[nasked++ % 16], mad, USER_MAD + MAD);
	pthread_mutex_unlock(&lock);
	return eventfd_write(port, 1);
}

int umad_recv(int port, void *mad, int *n, int timeout)
{
	unsigned char *m = (unsigned char *)mad + USER_MAD;
	eventfd_t one;

	(void)timeout;
	pthread_mutex_lock(&lock);
	if (answered == nasked) {
		pthread_mutex_unlock(&lock);
		return -EWOULDBLOCK;
	}
	memcpy(mad, asked[answered++ % 16], USER_MAD + MAD);
	if (answered == nasked)
		eventfd_read(port, &one);
	pthread_mutex_unlock(&lock);
	memset((unsigned char *)mad + STATUS_AT, 0, 4);
	m[METHOD] = m[METHOD] == 2 ? 0x81 : m[METHOD] | 0x80;
	if (m[ATTRIBUTE + 1] == PATH_RECORD) {
		m[RECORD + DLID_AT + 1] = 9;
	} else {
		m[RECORD + MLID_AT] = 0xc0;
		m[RECORD + MLID_AT + 1] = 1;
	}
	*n = MAD;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static struct ibv_ah ah;

	(void)attr;
	ah.pd = pd;
	return &ah;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return 0;
}
