/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes InfiniBand to Ethernet: take, classify, look-ups, headers.
 *
 *   input: options 1 | flags 1 | SL 1 | local QPN 1 | source QPN 3 | SLID 1 | GRH area and payload
 *
 * A frame that goes out must be one that the other direction accepts as good RoCE.
 */
#include "entries.h"
#include "rig.h"

#include "../icrc_version.h"
#include "../proto.h"

enum {
	HEAD = 8,
	ETHERNET = 1, /* the port is a RoCE device */
	SHORT = 2,    /* the completion may be shorter than the area */
	PAD = 3,
	GRH_AREA = 40,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks the frame as a host does: for a host, the bridge is the source and the host the destination. */
static void check_frame(const struct rig *r, struct rte_mbuf *m)
{
	unsigned port = r->out;
	struct datapath host = r->datapath;
	struct packet p;
	struct icrc_job icrc;
	const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);
	CHECK(m->data_off + m->data_len <= m->buf_len);
	host.mac[port] = mac48(f) & ~UINT64_C(0x010000000000);
	host.segment_of[port][0] = SEGMENT_NONE;
	host.segment_of[port][f[12] == 0x81 ? 100 : 0] = (uint8_t)port;
	host.segment[port].addresses = 0;
	struct rte_mbuf *exact = mbuf_make(f, m->data_len, 0, 0);
	exact->port = (uint16_t)port;
	CHECK(parse(&host, exact, &p, &icrc) == PASS);
	if (p.plain) {
		mbuf_end(exact);
		return;
	}
	uint32_t stored;
	memcpy(&stored, icrc.p + icrc.len, sizeof stored);
	CHECK(icrc_table(icrc.kind, icrc.p, icrc.len) == stored);
	CHECK(icrc.p + icrc.len + ICRC_LEN == (const uint8_t *)exact->buf_addr + exact->data_len);
	mbuf_end(exact);
}

/* What has to follow a message of n bytes, with the 40-byte area: pad and ICRC; or what makes its datagram the shortest
 * frame, and the place of an ICRC that is not sent. */
static size_t tailroom(size_t n)
{
	enum { LEAST = GRH_AREA + ETH_MIN - ETH_LEN - IPV4_LEN - UDP_LEN };
	size_t padding = n < LEAST ? LEAST - n : 0;
	return (padding > PAD ? padding : PAD) + ICRC_LEN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD || size > HEAD + GRH_AREA + 4096)
		return 0;
	struct rig *r = rig(data[0]);
	size_t n = size - HEAD;
	if (n < GRH_AREA && !(data[0] & SHORT))
		return 0;
	struct rte_mbuf *m = mbuf_make(data + HEAD, n, RTE_PKTMBUF_HEADROOM, tailroom(n));
	struct ib_recv recv = {
		.mbuf = m,
		.qpn = 0x700u + data[3],
		.src_qpn = (uint32_t)data[4] << 16 | (uint32_t)data[5] << 8 | data[6],
		.imm = 0x456,
		.slid = data[7],
		.sl = data[2] & 15,
		.flags = data[1],
	};
	r->datapath.ib_is_ethernet = data[0] & ETHERNET;
	r->message = &recv;
	mirror_by(r, data[0]);
	unsigned before = r->transmitted;
	CHECK(ib_to_roce(r->worker) == 1);
	if (r->transmitted != before) {
		CHECK(r->ports == 1 || r->out == source_partition(&recv, data + HEAD));
		check_frame(r, r->last);
	}
	check_counters(r);
	mbuf_end(m);
	return 0;
}
