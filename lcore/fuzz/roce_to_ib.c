/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes Ethernet to InfiniBand: parse, ICRC, transport, look-ups, post.
 *
 *   input: options 1 | frame
 *
 * No fuzzer finds a CRC by trying: with an option it is made right, so that the code after the check is reached.
 */
#include "rig.h"

#include <rte_ring.h>

#include "../egress.h"
#include "../punt.h"

enum {
	SIGN = 1, /* make the ICRC right */
	SUM = 2,  /* make the IPv4 checksum right */
	IN_TWO = 4,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sum_ipv4(uint8_t *frame, size_t n)
{
	if (n < 34 || frame[12] != 0x08 || frame[13] != 0)
		return;
	memset(frame + 24, 0, 2);
	uint16_t sum = (uint16_t)~ipv4_header_sum(frame + 14);
	memcpy(frame + 24, &sum, 2);
}

static void sign(const struct datapath *dp, struct rte_mbuf *m)
{
	struct packet p;
	struct icrc_job j;
	if (parse(dp, m, &p, &j) != PASS)
		return;
	uint32_t crc = icrc(j.kind, j.p, j.len);
	memcpy((uint8_t *)(uintptr_t)j.p + j.len, &crc, sizeof crc);
}

/* What is addressed to the first port is addressed to that by which it comes. */
static void address_port(uint8_t *frame, size_t n, unsigned port)
{
	static const uint8_t first[6] = {2, 0, 0, 0, 0, 2};
	if (n >= sizeof first && !memcmp(frame, first, sizeof first))
		frame[4] = (uint8_t)port;
}

/* Management: takes punted frames, and requeues packets that wait for a proxy QP, which are then dropped because there
 * is none. */
static void manage(struct worker *w)
{
	struct rte_mbuf *m;
	while (punt_take(w, &m, 1))
		if ((m->hash.usr & ((1 << PUNT_PARTITION_SHIFT) - 1)) == PUNT_PROXY_QP)
			CHECK(rte_ring_mp_enqueue(w->requeue, m) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 9000)
		return 0;
	struct rig *r = rig(data[0]);
	struct rte_mbuf *m = mbuf_make(data + 1, size - 1, 0, 0);
	m->port = (uint16_t)r->in;
	if (data[0] & SUM)
		sum_ipv4(rte_pktmbuf_mtod(m, uint8_t *), size - 1);
	address_port(rte_pktmbuf_mtod(m, uint8_t *), size - 1, r->in);
	if (data[0] & SIGN)
		sign(&r->datapath, m);
	if (data[0] & IN_TWO)
		m->nb_segs = 2;
	r->frame = m;
	mirror_by(r, data[0]);
	CHECK(roce_to_ib(r->worker) == 1);
	m->nb_segs = 1;
	manage(r->worker);
	roce_to_ib_requeued(r->worker);
	CHECK(m->data_off + m->data_len <= m->buf_len);
	check_counters(r);
	mbuf_end(m);
	return 0;
}
