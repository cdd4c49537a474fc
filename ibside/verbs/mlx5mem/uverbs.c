/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: contexts, the device, its port, domains, memory, completion channels; and UARs, by ioctl. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "device.h"

enum { OPEN = 1 }; /* of a descriptor: what is more is its context */
static uint16_t descriptor[MAX_FDS];

bool mem_is_ours(int fd)
{
	return fd >= 0 && fd < MAX_FDS && __atomic_load_n(&descriptor[fd], __ATOMIC_ACQUIRE);
}

int mem_open(int fd)
{
	if (fd < 0 || fd >= MAX_FDS)
		return EMFILE;
	__atomic_store_n(&descriptor[fd], OPEN, __ATOMIC_RELEASE);
	return 0;
}

/* Returns the end for the program, and the device's. */
static int make_pipe(int *device_end)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return -1;
	if (fd[0] >= MAX_FDS) {
		syscall(SYS_close, fd[0]);
		syscall(SYS_close, fd[1]);
		return -1;
	}
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	*device_end = fd[1];
	return fd[0];
}

static int get_context(struct mem_command *c, int fd)
{
	struct mem_context *x = MEM_MAKE(mem.context, 0);
	struct ib_uverbs_get_context_resp r = {.num_comp_vectors = 1};
	struct mlx5_ib_alloc_ucontext_resp d = {
		.qp_tab_size = 1 << 18,
		.bf_reg_size = 512,
		.cache_line_size = 64,
		.max_sq_desc_sz = (uint16_t)mlx5mem.max_send_bytes,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = 1 << 15,
		.max_recv_wr = 1 << 15,
		.max_srq_recv_wr = mlx5mem.max_srq_wr,
		.num_ports = 1,
		.response_length = sizeof(d),
		.cqe_version = 1,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = MAX_UARS,
	};

	if (!x)
		return ENOMEM;
	int reader = make_pipe(&x->events);
	if (reader < 0) {
		mem_end(&x->o);
		return EMFILE;
	}
	x->fd = fd;
	x->reader = reader;
	mem.traps = mlx5mem.traps;
	descriptor[fd] = (uint16_t)(OPEN + 1 + (x - mem.context));
	r.async_fd = (uint32_t)reader;
	mem_answer(c, &r, sizeof(r), &d, sizeof(d));
	return 0;
}

static int query_device(const struct mem_command *c)
{
	struct ib_uverbs_query_device_resp r = {
		.node_guid = 0x0100000000000002, /* big-endian */
		.max_mr_size = UINT64_MAX,
		.vendor_id = 0x2c9,
		.vendor_part_id = 4123, /* ConnectX-6 */
		.max_qp = mlx5mem.max_qp,
		.max_qp_wr = 1 << 15,
		.max_sge = 30,
		.max_cq = MAX_CQS,
		.max_cqe = mlx5mem.max_cqe,
		.max_mr = MAX_MRS,
		.max_pd = MAX_PDS,
		.max_ah = 1 << 30,
		.max_mcast_grp = 1 << 16,
		.max_srq = MAX_SRQS,
		.max_srq_wr = mlx5mem.max_srq_wr,
		.max_srq_sge = 31,
		.max_pkeys = MLX5MEM_PKEYS,
		.phys_port_cnt = 1,
	};

	mem_answer(c, &r, sizeof(r), NULL, 0);
	return 0;
}

static int query_port(const struct mem_command *c)
{
	const struct ib_uverbs_query_port *in = (const void *)c->in;
	struct ib_uverbs_query_port_resp r = {
		.max_msg_sz = 1 << 30,
		.gid_tbl_len = MLX5MEM_GIDS,
		.pkey_tbl_len = MLX5MEM_PKEYS,
		.lid = mlx5mem.lid,
		.sm_lid = mlx5mem.sm_lid,
		.state = mlx5mem.state,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = mlx5mem.mtu,
		.lmc = mlx5mem.lmc,
		.max_vl_num = 4,
		.active_width = 2,  /* 4x */
		.active_speed = 32, /* EDR */
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.flags = mlx5mem.flags,
	};

	if (in->port_num != 1)
		return EINVAL;
	mem_answer(c, &r, sizeof(r), NULL, 0);
	return 0;
}

static int alloc_pd(const struct mem_command *c)
{
	struct mem_pd *p = MEM_MAKE(mem.pd, c->context);

	if (!p)
		return ENOMEM;
	uint32_t n = (uint32_t)(p - mem.pd);
	struct ib_uverbs_alloc_pd_resp r = {.pd_handle = n};
	struct mlx5_ib_alloc_pd_resp d = {.pdn = n};
	mem_answer(c, &r, sizeof(r), &d, sizeof(d));
	return 0;
}

static int dealloc_pd(const struct mem_command *c)
{
	const struct ib_uverbs_dealloc_pd *in = (const void *)c->in;
	struct mem_pd *p = mem_pd_of(in->pd_handle);
	bool busy = !p;

	for (unsigned i = 0; i < MAX_MRS; i++)
		busy |= mem.mr[i].o.used && mem.mr[i].pd == in->pd_handle;
	for (unsigned i = 0; i < MAX_SRQS; i++)
		busy |= mem.srq[i].o.used && mem.srq[i].pd == in->pd_handle;
	for (unsigned i = 0; i < mem.qps; i++)
		busy |= mem.qp[i].o.used && mem.qp[i].pd == in->pd_handle;
	if (busy)
		return p ? EBUSY : EINVAL;
	mem_end(&p->o);
	return 0;
}

/* A key has the region's number, and a byte that changes, so that the key of an earlier region is not taken for it. */
static int reg_mr(const struct mem_command *c)
{
	static uint8_t generation;
	const struct ib_uverbs_reg_mr *in = (const void *)c->in;
	struct mem_mr *m = mem_pd_of(in->pd_handle) ? MEM_MAKE(mem.mr, c->context) : NULL;

	if (!m)
		return mem_pd_of(in->pd_handle) ? ENOMEM : EINVAL;
	generation = (uint8_t)(generation % 255 + 1);
	m->generation = generation;
	m->pd = in->pd_handle;
	m->start = in->hca_va;
	m->end = in->hca_va + in->length;
	m->writable = in->access_flags & IBV_ACCESS_LOCAL_WRITE;
	uint32_t n = (uint32_t)(m - mem.mr), key = n << 8 | m->generation;
	struct ib_uverbs_reg_mr_resp r = {.mr_handle = n, .lkey = key, .rkey = key};
	mem_answer(c, &r, sizeof(r), NULL, 0);
	return 0;
}

static int dereg_mr(const struct mem_command *c)
{
	const struct ib_uverbs_dereg_mr *in = (const void *)c->in;
	struct mem_mr *m = MEM_OF(mem.mr, in->mr_handle);

	if (!m)
		return EINVAL;
	mem_end(&m->o);
	return 0;
}

static int create_channel(const struct mem_command *c)
{
	int end = 0, reader = make_pipe(&end);
	struct ib_uverbs_create_comp_channel_resp r = {.fd = (uint32_t)reader};

	if (reader < 0)
		return EMFILE;
	mem.channel[reader] = end + 1;
	mem_answer(c, &r, sizeof(r), NULL, 0);
	return 0;
}

static int command(struct mem_command *c, int fd)
{
	if (c->number == IB_USER_VERBS_CMD_GET_CONTEXT)
		return c->context < 0 ? get_context(c, fd) : EINVAL;
	if (c->context < 0)
		return EINVAL;
	switch (c->number) {
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		return query_device(c);
	case IB_USER_VERBS_CMD_QUERY_PORT:
		return query_port(c);
	case IB_USER_VERBS_CMD_ALLOC_PD:
		return alloc_pd(c);
	case IB_USER_VERBS_CMD_DEALLOC_PD:
		return dealloc_pd(c);
	case IB_USER_VERBS_CMD_REG_MR:
		return reg_mr(c);
	case IB_USER_VERBS_CMD_DEREG_MR:
		return dereg_mr(c);
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		return create_channel(c);
	default:
		return mem_queue_command(c);
	}
}

/* All commands that have an answer begin with its address; extended ones have it in their second header. */
int mem_carry_out(int fd, const void *words, size_t len)
{
	const struct ib_uverbs_cmd_hdr *h = words;
	const struct ib_uverbs_ex_cmd_hdr *x = (const void *)(h + 1);
	bool extended = len >= sizeof(*h) + sizeof(*x) && h->command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	struct mem_command c = {.number = h->command, .context = descriptor[fd] - OPEN - 1};

	if (len < sizeof(*h) + sizeof(uint32_t))
		return EINVAL;
	c.in = extended ? (const uint8_t *)(x + 1) : (const uint8_t *)x;
	c.in_len = len - (size_t)(c.in - (const uint8_t *)words);
	uint64_t out = extended ? x->response : 0;
	if (!extended && c.in_len >= sizeof(out))
		memcpy(&out, c.in, sizeof(out)); /* of a command without an answer, something else */
	c.out = (uint8_t *)(uintptr_t)out;
	c.out_len = extended ? (h->out_words + x->provider_out_words) * 8u : h->out_words * 4u;
	mem_lock();
	mem.count.commands++;
	int err = command(&c, fd);
	mem_unlock();
	return err;
}

#define END_ALL(table, of)                                                                                             \
	for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++)                                                \
		if ((table)[i].o.context == (of))                                                                      \
	mem_end(&(table)[i].o)

static void close_context(int n)
{
	END_ALL(mem.member, n);
	END_ALL(mem.qp, n);
	END_ALL(mem.srq, n);
	END_ALL(mem.cq, n);
	END_ALL(mem.mr, n);
	END_ALL(mem.pd, n);
	syscall(SYS_close, mem.context[n].events);
	mem_end(&mem.context[n].o);
}

void mem_close(int fd)
{
	if (fd < 0 || fd >= MAX_FDS || (!descriptor[fd] && !mem.channel[fd]))
		return;
	mem_lock();
	if (descriptor[fd] > OPEN)
		close_context(descriptor[fd] - OPEN - 1);
	__atomic_store_n(&descriptor[fd], 0, __ATOMIC_RELEASE);
	if (mem.channel[fd])
		syscall(SYS_close, mem.channel[fd] - 1);
	mem.channel[fd] = 0;
	mem_unlock();
}

static int alloc_uar(struct ib_uverbs_ioctl_hdr *h)
{
	unsigned n = 0;
	uint32_t length = UAR_BYTES;

	while (n < MAX_UARS && mem.uar[n])
		n++;
	if (n == MAX_UARS)
		return ENOMEM;
	uint64_t offset = (uint64_t)n * UAR_BYTES;
	long page = syscall(SYS_mmap, NULL, UAR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page < 0 && page > -UAR_BYTES)
		return ENOMEM;
	mem.uar[n] = (uint8_t *)page;
	for (struct ib_uverbs_attr *a = h->attrs; a < h->attrs + h->num_attrs; a++) {
		uint32_t *to = (uint32_t *)(uintptr_t)a->data;
		if (a->attr_id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
			a->data = n;
		else if (a->attr_id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET)
			*(uint64_t *)to = offset;
		else if (a->attr_id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH)
			*to = length;
		else if (a->attr_id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID)
			*to = n;
	}
	return 0;
}

/* libmlx5 has unmapped it. */
static int free_uar(const struct ib_uverbs_ioctl_hdr *h)
{
	if (h->num_attrs < 1 || h->attrs[0].data >= MAX_UARS)
		return EINVAL;
	mem.uar[h->attrs[0].data] = NULL;
	return 0;
}

/* libibverbs tries an ioctl for each command, and falls back to write(). Only UARs have no such older form. */
int mem_control(void *header)
{
	struct ib_uverbs_ioctl_hdr *h = header;

	if (h->object_id != MLX5_IB_OBJECT_UAR)
		return EPROTONOSUPPORT;
	mem_lock();
	int err = h->method_id == MLX5_IB_METHOD_UAR_OBJ_ALLOC ? alloc_uar(h) : free_uar(h);
	mem_unlock();
	return err;
}

void *mem_map(uint64_t offset)
{
	uint64_t n = offset / UAR_BYTES;

	mem_lock();
	uint8_t *page = n < MAX_UARS ? mem.uar[n] : NULL;
	if (page)
		mem_watch(page);
	mem_unlock();
	return page;
}
