/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "mock.h"

struct mock mock;

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
	pthread_mutex_lock(&lock);
	if (c->n == MOCK_QUEUE)
		abort();
	if (c->direct)
		rings_complete(c, wc, c == recv_cq);
	else
		c->wc[(c->first + c->n++) % MOCK_QUEUE] = *wc;
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
	(void)bad;
	for (; wr; wr = wr->next) {
		unsigned i = (mock.send_first + mock.send_n++) % MOCK_QUEUE;
		mock.sends[i] = *wr;
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

/* What identifies the oldest buffer. */
static uint64_t take_buffer(void)
{
	if (recv_srq->direct)
		return rings_take_buffer(recv_srq);
	if (mock.recv_n == 0)
		abort();
	mock.recv_n--;
	return mock.recvs[mock.recv_first++ % MOCK_QUEUE].wr_id;
}

void mock_receive(const struct verbs_qp *q)
{
	struct ibv_wc wc = {.qp_num = q->qp->qp_num, .byte_len = IB_GRH_LEN};

	pthread_mutex_lock(&lock);
	wc.wr_id = take_buffer();
	pthread_mutex_unlock(&lock);
	put(recv_cq, &wc);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	(void)ctx;
	(void)a;
	return EOPNOTSUPP;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *ch, int vector)
{
	(void)n;
	(void)vector;
	struct mock_cq *c = aligned_alloc(MOCK_BLOCK, sizeof(*c));
	memset(c, 0, sizeof(*c));
	c->cq.context = ctx;
	c->cq.cq_context = arg;
	c->cq.channel = ch;
	send_cq = recv_cq; /* the first of a worker's */
	recv_cq = c;
	return &c->cq;
}

/* Nobody sleeps. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch = calloc(1, sizeof(*ch));
	ch->context = ctx;
	ch->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
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
	(void)ch;
	(void)cq;
	(void)context;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	(void)n;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	(void)a;
	if (pd != &base) /* see join_thread_domain */
		abort();
	recv_srq = calloc(1, sizeof(*recv_srq));
	recv_srq->srq.context = &extended.context;
	return &recv_srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *s)
{
	free(s);
	mock.recv_n = 0;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct mock_qp *q = aligned_alloc(MOCK_BLOCK, sizeof(*q));

	if (pd != &parent)
		abort();
	memset(q, 0, sizeof(*q));
	q->qp.context = &extended.context;
	q->qp.send_cq = a->send_cq;
	q->qp.recv_cq = a->recv_cq;
	q->qp.qp_num = MOCK_FIRST_QPN + mock.qps++;
	rings_add(q);
	return &q->qp;
}

/* The library's ibv_create_qp_ex() comes here with create flags, which this device does not know. */
static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *a)
{
	(void)ctx;
	(void)a;
	errno = EOPNOTSUPP;
	return NULL;
}

static void reset(struct ibv_qp *qp)
{
	struct mock_qp *q = (struct mock_qp *)qp;

	clean(qp->recv_cq, qp->qp_num);
	clean(qp->send_cq, qp->qp_num);
	q->next = 0;
	q->record[MLX5_SND_DBR] = 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	(void)mask;
	if (a->qp_state == IBV_QPS_RESET)
		reset(qp);
	qp->state = a->qp_state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	reset(qp);
	rings_remove((struct mock_qp *)qp);
	free(qp);
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

struct verbs_worker *mock_worker(struct rte_mempool *pool, const struct verbs_sizes *s, bool direct)
{
	struct verbs_worker *w = NULL;

	memset(&mock, 0, sizeof(mock));
	mock.recv_room = MOCK_QUEUE;
	mock.cqe_size = sizeof(struct mlx5_cqe64);
	if (domains)
		abort(); /* the last worker's */
	extended = (struct verbs_context){.sz = sizeof(extended),
					  .create_qp_ex = create_qp_ex,
					  .alloc_td = alloc_td,
					  .dealloc_td = dealloc_td,
					  .alloc_parent_domain = alloc_parent_domain};
	extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	extended.context.ops.poll_cq = poll_cq;
	extended.context.ops.post_send = post_send;
	extended.context.ops.post_srq_recv = post_srq_recv;
	device = (struct verbs_device){.ctx = &extended.context, .pd = &base, .pool = pool, .port = 1};
	device.direct = direct && verbs_direct_supported(&device);
	__atomic_store_n(&device.mtu, 1024, __ATOMIC_SEQ_CST);
	rte_mempool_mem_iter(pool, one_region, NULL);
	return verbs_worker_new(&device, s, &w) ? NULL : w;
}
