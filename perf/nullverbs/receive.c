/* SPDX-License-Identifier: Apache-2.0 */
/* Receive buffers: the driver posts them, the device takes them in order. */
#include <endian.h>
#include <errno.h>

#include <rte_atomic.h>
#include <rte_branch_prediction.h>

#include "device.h"

/* There is one request more than buffers, so the list is never empty while buffers are missing. */
static bool put(struct null_srq *s, const struct ibv_recv_wr *wr)
{
	if (unlikely(s->head == s->tail))
		return false;
	struct receive_request *r = &s->ring[s->head];
	s->wr_id[s->head] = wr->wr_id;
	s->head = be16toh(r->next);
	r->data.length = htobe32(wr->sg_list[0].length);
	r->data.lkey = htobe32(wr->sg_list[0].lkey);
	r->data.addr = htobe64(wr->sg_list[0].addr);
	return true;
}

int null_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct null_srq *s = (struct null_srq *)srq;
	uint32_t n = 0;
	int err = 0;

	pthread_spin_lock(&s->lock);
	for (; wr; wr = wr->next, n++) {
		err = unlikely(wr->num_sge != 1) ? EINVAL : unlikely(!put(s, wr)) ? ENOMEM : 0;
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
	}
	if (likely(n > 0)) {
		s->posted += n;
		rte_io_wmb();
		*(uint32_t volatile *)s->record = htobe32(s->posted);
		device_of(srq->context)->recv_rung++;
	}
	pthread_spin_unlock(&s->lock);
	return err;
}

/* The device's side. */

static bool receive(struct null_device *d, struct null_srq *s, uint32_t len)
{
	if (s->taken == be32toh(*(uint32_t volatile *)s->record))
		return false;
	const struct receive_request *r = &s->ring[s->at];
	const struct null_qp *to = d->qp[d->turn];
	if (IB_GRH_LEN + len > be32toh(r->data.length))
		return false;
	struct completion what = {
		.length = htobe32(IB_GRH_LEN + len),
		.src_qp = htobe32(0x80000000u | 0x48), /* with a GRH */
		.imm = htobe32(0x12345678),            /* must be ignored: the message has none */
		.slid_path = htobe32(7u << 16),
		.qpn = htobe32(to->qp.qp_num),
		.index = htobe16((uint16_t)s->at),
	};
	s->taken++;
	s->at = be16toh(r->next);
	null_complete((struct null_cq *)to->qp.recv_cq, &what, DONE_RECV);
	return true;
}

unsigned null_deliver(struct null_device *d, unsigned count, uint32_t len, unsigned qps)
{
	unsigned n = 0;

	for (; n < count && receive(d, d->srq, len); n++)
		d->turn = d->turn + 1 >= qps ? 0 : d->turn + 1;
	return n;
}
