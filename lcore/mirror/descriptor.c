/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptor.h"

#include <rte_mbuf.h>
#include <string.h>

#include "../../ibside/port.h"
#include "../../tables/entries.h"
#include "../../tables/tables.h"

/* The partition that a message came in, by the queue pair or the group that it is for. */
static uint8_t partition_of_recv(const struct tables *t, const struct ib_recv *r)
{
	const uint8_t *dgid = rte_pktmbuf_mtod_offset(r->mbuf, const uint8_t *, 24);
	struct table_key k = {.number = r->qpn};
	const struct proxy_qpn_entry *s = table_find(&t->proxy_qpns, table_hash(&t->proxy_qpns, &k), &k);
	if (s)
		return s->partition;
	if (r->mbuf->data_len < IB_GRH_LEN || !(r->flags & IB_RECV_GRH))
		return 0;
	k.number = 0;
	memcpy(k.addr, dgid, sizeof k.addr);
	const struct mgid_entry *m = table_find(&t->mgids, table_hash(&t->mgids, &k), &k);
	return m ? m->flags >> GROUP_PARTITION_SHIFT : 0;
}

struct mirror_ib mirror_ib_of_recv(const struct tables *t, const struct ib_recv *r)
{
	return (struct mirror_ib){.qpn = r->qpn,
				  .peer = r->src_qpn,
				  .imm = r->imm,
				  .lid = r->slid,
				  .partition = partition_of_recv(t, r),
				  .flags = r->flags,
				  .sl = r->sl,
				  .known = true};
}

struct mirror_ib mirror_ib_of_send(const struct ib_send *s, const struct proxy_qp_entry *proxy_qp)
{
	struct mirror_ib ib = {.qp = s->qp,
			       .qpn = proxy_qp->qpn,
			       .peer = s->dest_qpn,
			       .qkey = s->dest_qkey,
			       .imm = s->imm,
			       .flow_label = s->ah.flow_label,
			       .lid = s->ah.dlid,
			       .partition = s->partition,
			       .flags = s->flags,
			       .sl = s->ah.sl,
			       .tclass = s->ah.tclass,
			       .hop_limit = s->ah.hop_limit,
			       .source = s->ah.source,
			       .known = true};
	memcpy(ib.dgid, s->ah.dgid, sizeof ib.dgid);
	return ib;
}
