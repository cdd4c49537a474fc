/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "mock.h"

struct mock mock;
int mock_refusal;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a worker may run beside the test */
static struct mock_cq *recv_cq, *send_cq;
static struct mock_srq *recv_srq;
static struct ibv_pd base, parent;
static struct ibv_td domain;
static unsigned domains; /* that there are: parents, and their thread domains */
static struct verbs_context extended;
static struct verbs_device device;

static void put(struct mock_cq *c, const struct ibv_wc *wc)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&lock);
	if (c->n == MOCK_QUEUE)
		abort();
	if (c->direct)
		rings_complete(c, wc, c == recv_cq);
	else
		c->wc[(c->first + c->n++) % MOCK_QUEUE] = *wc;
	if (c->armed) {
		c->armed = false;
		c->events++;
		if (write(c->cq.channel->fd, &one, sizeof(one)) != sizeof(one))
			abort();
	}
	pthread_mutex_unlock(&lock);
}

/* Completions of the queue pair are removed from the queue without being polled, as in mlx5's __mlx5_cq_clean(), which
 * leaves rings alone that a program has taken. */
static void clean(struct ibv_cq *cq, uint32_t qpn)
{
	struct mock_cq *c = (struct mock_cq *)cq;
	unsigned kept = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < c->n; i++) {
		struct ibv_wc wc = c->wc[(c->first + i) % MOCK_QUEUE];
		if (wc.qp_num != qpn)
			c->wc[(c->first + kept++) % MOCK_QUEUE] = wc;
	}
	c->n = kept;
	pthread_mutex_unlock(&lock);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct mock_cq *c = (struct mock_cq *)cq;
	int got = 0;

	if (mock.cq_error)
		return -1;
	pthread_mutex_lock(&lock);
	for (; got < n && c->n > 0; got++, c->n--)
		wc[got] = c->wc[c->first++ % MOCK_QUEUE];
	pthread_mutex_unlock(&lock);
	return got;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	mock.lists++;
	for (; wr; wr = wr->next) {
		if (mock.send_room == 0) {
			*bad = wr;
			return ENOMEM;
		}
		mock.send_room--;
		unsigned i = (mock.send_first + mock.send_n++) % MOCK_QUEUE;
		mock.sends[i] = *wr;
		memcpy(mock.sges[i], wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
		mock.send_qp[i] = qp;
	}
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	pthread_mutex_lock(&lock);
	for (; wr && mock.recv_room > 0; wr = wr->next) {
		mock.recv_room--;
		unsigned i = (mock.recv_first + mock.recv_n++) % MOCK_QUEUE;
		mock.recvs[i] = *wr;
		mock.recv_sges[i] = *wr->sg_list;
	}
	pthread_mutex_unlock(&lock);
	*bad = wr;
	return wr ? ENOMEM : 0;
}

void mock_complete(unsigned n, enum ibv_wc_status status)
{
	for (; n > 0 && mock.send_n > 0; n--, mock.send_n--) {
		unsigned i = mock.send_first++ % MOCK_QUEUE;
		struct ibv_wc wc = {.wr_id = mock.sends[i].wr_id, .status = status, .qp_num = mock.send_qp[i]->qp_num};
		if (status != IBV_WC_SUCCESS || mock.sends[i].send_flags & IBV_SEND_SIGNALED)
			put((struct mock_cq *)mock.send_qp[i]->send_cq, &wc);
	}
}

unsigned mock_buffers(void)
{
	return recv_srq->direct ? rings_posted(recv_srq) : mock.recv_n;
}

/* The oldest buffer, and what identifies it. */
static struct ibv_sge take_buffer(uint64_t *id)
{
	struct ibv_sge to;

	if (recv_srq->direct) {
		*id = rings_take_buffer(recv_srq, &to);
		return to;
	}
	if (mock.recv_n == 0)
		abort();
	unsigned i = mock.recv_first++ % MOCK_QUEUE;
	mock.recv_n--;
	*id = mock.recvs[i].wr_id;
	return mock.recv_sges[i];
}

void mock_receive(const struct ibv_wc *like, const void *payload, unsigned len)
{
	struct ibv_wc wc = *like;

	pthread_mutex_lock(&lock);
	struct ibv_sge to = take_buffer(&wc.wr_id);
	wc.byte_len = IB_GRH_LEN + len;
	wc.pkey_index = (uint16_t)ntohl(wc.imm_data); /* mlx5 takes both from one word */
	if (wc.byte_len > to.length)
		abort();
	memcpy((void *)(uintptr_t)(to.addr + IB_GRH_LEN), payload, len);
	pthread_mutex_unlock(&lock);
	put(recv_cq, &wc);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	(void)ctx;
	*a = (struct ibv_device_attr){.max_srq_wr = MOCK_MAX_SRQ_WR, .max_cqe = MOCK_MAX_CQE};
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *ch, int vector)
{
	(void)vector;
	if (n > MOCK_MAX_CQE) {
		errno = EINVAL;
		return NULL;
	}
	struct mock_cq *c = aligned_alloc(MOCK_BLOCK, sizeof(*c));
	memset(c, 0, sizeof(*c));
	mock.recv_cqe = n;
	c->cq.context = ctx;
	c->cq.cq_context = arg;
	c->cq.channel = ch;
	send_cq = recv_cq; /* the first of a worker's */
	recv_cq = c;
	return &c->cq;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)solicited;
	((struct mock_cq *)cq)->armed = true;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch = calloc(1, sizeof(*ch));
	ch->context = ctx;
	ch->fd = eventfd(0, EFD_SEMAPHORE);
	return ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	close(ch->fd);
	free(ch);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
	uint64_t one;

	if (read(ch->fd, &one, sizeof(one)) < 0)
		return -1;
	struct mock_cq *c = recv_cq->events ? recv_cq : send_cq;
	c->events--;
	mock.unacknowledged++;
	*cq = &c->cq;
	*context = c->cq.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	mock.unacknowledged -= n;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	if (pd != &base) /* see join_thread_domain */
		abort();
	if (a->attr.max_wr > MOCK_MAX_SRQ_WR) {
		errno = EINVAL;
		return NULL;
	}
	recv_srq = calloc(1, sizeof(*recv_srq));
	mock.srq_wr = (int)a->attr.max_wr;
	recv_srq->srq.context = &extended.context;
	return &recv_srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *s)
{
	free(s);
	mock.recv_n = 0;
	return 0;
}

/* Queue pairs are in the worker's thread domain, if it has one. */
static void check_domain(const struct ibv_pd *pd)
{
	if (pd != (domains ? &parent : &base))
		abort();
}

static struct ibv_qp *new_qp(const struct ibv_qp_cap *cap, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	unsigned n = 0;

	if (cap->max_inline_data > 32) { /* a device that has less room for payload than is asked for */
		errno = EINVAL;
		return NULL;
	}
	struct mock_qp *q = aligned_alloc(MOCK_BLOCK, sizeof(*q));
	memset(q, 0, sizeof(*q));
	q->qp.context = &extended.context;
	q->qp.send_cq = send_cq;
	q->qp.recv_cq = recv_cq;
	while (mock.numbers[n]) /* the lowest that is free, as devices do */
		n++;
	mock.numbers[n] = true;
	q->qp.qp_num = MOCK_FIRST_QPN + n;
	rings_add(q);
	return &q->qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp *q = new_qp(&a->cap, a->send_cq, a->recv_cq);

	check_domain(pd);
	mock.plain += q ? 1 : 0;
	return q;
}

/* The library's ibv_create_qp_ex() comes here with create flags. */
static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *a)
{
	(void)ctx;
	if (a->comp_mask != (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS) ||
	    a->create_flags != IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		abort();
	check_domain(a->pd);
	mock.blocking++;
	errno = mock_refusal;
	return mock_refusal ? NULL : new_qp(&a->cap, a->send_cq, a->recv_cq);
}

/* A queue pair receives until it is reset, and is destroyed after that. */
static void leave_state(struct ibv_qp *qp, enum ibv_qp_state next)
{
	struct ibv_wc wc = {.qp_num = qp->qp_num};

	for (unsigned i = 0; qp->state == IBV_QPS_RTS && next != IBV_QPS_RTS && i < mock.arriving; i++)
		mock_receive(&wc, "", 0);
	if (next == IBV_QPS_RESET) {
		clean(qp->recv_cq, qp->qp_num);
		clean(qp->send_cq, qp->qp_num);
		struct mock_qp *q = (struct mock_qp *)qp;
		q->next = 0;
		q->record[MLX5_SND_DBR] = 0;
	}
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	(void)mask;
	leave_state(qp, a->qp_state);
	qp->state = a->qp_state;
	mock.transitions++;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	leave_state(qp, IBV_QPS_RESET);
	mock.numbers[qp->qp_num - MOCK_FIRST_QPN] = false;
	rings_remove((struct mock_qp *)qp);
	free(qp);
	if (mock.after_destroy)
		mock.after_destroy();
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	(void)pd;
	(void)a;
	return NULL;
}

/* Thread domains. */
static struct ibv_td *alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *a)
{
	domain.context = ctx;
	(void)a;
	domains++;
	return &domain;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *ctx, struct ibv_parent_domain_init_attr *a)
{
	if (a->td != &domain || a->pd != &base)
		abort();
	parent.context = ctx;
	return &parent;
}

static int dealloc_td(struct ibv_td *td)
{
	(void)td;
	domains--;
	return 0;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (pd != &parent || domains == 0)
		abort();
	return 0;
}

static void one_region(struct rte_mempool *mp, void *arg, struct rte_mempool_memhdr *h, unsigned i)
{
	(void)mp;
	(void)arg;
	device.mr[i] =
		(struct verbs_mr){.start = (uintptr_t)h->addr, .end = (uintptr_t)h->addr + h->len, .lkey = 100 + i};
	device.mrs = i + 1;
}

struct verbs_worker *mock_worker(struct rte_mempool *pool, const struct verbs_sizes *s, struct mock_use use)
{
	struct verbs_worker *w = NULL;

	memset(&mock, 0, sizeof(mock));
	mock.send_room = mock.recv_room = MOCK_QUEUE;
	mock.cqe_size = sizeof(struct mlx5_cqe64);
	if (domains)
		abort(); /* the last worker's */
	extended = (struct verbs_context){.sz = sizeof(extended), .create_qp_ex = create_qp_ex};
	if (!use.ethernet) { /* as if another provider had it */
		extended.alloc_td = alloc_td;
		extended.dealloc_td = dealloc_td;
		extended.alloc_parent_domain = alloc_parent_domain;
	}
	extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	extended.context.ops.poll_cq = poll_cq;
	extended.context.ops.req_notify_cq = req_notify_cq;
	extended.context.ops.post_send = post_send;
	extended.context.ops.post_srq_recv = post_srq_recv;
	device = (struct verbs_device){.ctx = &extended.context,
				       .pd = &base,
				       .pool = pool,
				       .ethernet = use.ethernet,
				       .grh = use.ethernet,
				       .port = 1};
	device.direct = use.direct && verbs_direct_supported(&device);
	__atomic_store_n(&device.mtu, 1024, __ATOMIC_SEQ_CST);
	rte_mempool_mem_iter(pool, one_region, NULL);
	return verbs_worker_new(&device, s, &w) ? NULL : w;
}
