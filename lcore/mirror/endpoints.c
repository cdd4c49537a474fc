/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoints.h"

#include <rte_common.h>
#include <string.h>

#include "../../ibside/port.h"
#include "../proto.h"
#include "../byteorder.h"
#include "../worker.h"
#include "../../tables/entries.h"
#include "../../tables/tables.h"

static void add(struct endpoints *e, const uint8_t address[16])
{
	if (e->addresses < RTE_DIM(e->address) && !is_zero(address))
		memcpy(e->address[e->addresses++], address, 16);
}

static void add_qpn(struct endpoints *e, uint32_t qpn)
{
	if (e->qpns < RTE_DIM(e->qpn))
		e->qpn[e->qpns++] = qpn;
}

static const void *find(const struct table *t, const uint8_t address[16], uint64_t number)
{
	struct table_key k = {.number = number};
	if (address)
		memcpy(k.addr, address, 16);
	return table_find(t, table_hash(t, &k), &k);
}

static void add_source(struct endpoints *e, const uint8_t gid[16])
{
	const struct source_entry *s = find(&e->tables->sources, gid, 0);
	if (!s)
		return;
	add(e, s->ip4);
	add(e, s->ip6);
}

/* An IP address and, if known, the QPN there. */
static void add_ip(struct endpoints *e, const uint8_t ip[16], const uint32_t *qpn)
{
	add(e, ip);
	const struct node_entry *n = find(&e->tables->nodes, ip, 0);
	if (n) {
		add(e, n->gid);
		add_source(e, n->gid);
	}
	if (!qpn)
		return;
	add_qpn(e, *qpn);
	const struct proxy_qp_entry *s = find(&e->tables->proxy_qps, ip, e->from_key | *qpn);
	if (s)
		add_qpn(e, s->qpn);
}

/* The node that has a LID. */
static void add_lid(struct endpoints *e, uint16_t lid)
{
	const struct source_entry *s = find(&e->tables->sources, NULL, lid);
	if (s)
		add_ip(e, is_zero(s->ip4) ? s->ip6 : s->ip4, NULL);
}

static void add_ips(struct endpoints *e, const uint8_t src[16], const uint8_t dst[16], const uint8_t *bth, int64_t len)
{
	uint32_t src_qpn = 0, dst_qpn = 0;
	bool transport = len >= BTH_LEN + ICRC_LEN, deth = len >= UD_LEN + ICRC_LEN;
	if (transport)
		dst_qpn = be32(bth + 4) & 0xffffff;
	if (deth)
		src_qpn = be32(bth + BTH_LEN + 4) & 0xffffff;
	add_ip(e, src, deth ? &src_qpn : NULL);
	add_ip(e, dst, transport ? &dst_qpn : NULL);
}

static void map(uint8_t out[16], const uint8_t ip4[4])
{
	memset(out, 0, 10);
	memset(out + 10, 0xff, 2);
	memcpy(out + 12, ip4, 4);
}

/* Returns the length of what follows the UDP header, 0 if it is not RoCE. */
static int64_t behind_udp(const uint8_t *udp, int64_t len, uint8_t protocol)
{
	return protocol == PROTO_UDP && len >= UDP_LEN && be16(udp + 2) == ROCE_PORT ? len - UDP_LEN : 0;
}

static void add_ipv4(struct endpoints *e, const uint8_t *ip, int64_t len)
{
	uint8_t src[16], dst[16];
	if (len < IPV4_LEN)
		return;
	int64_t head = (ip[0] & 15) * 4;
	bool first = (be16(ip + 6) & 0x1fff) == 0; /* of fragments */
	map(src, ip + 12);
	map(dst, ip + 16);
	add_ips(e, src, dst, ip + head + 8, first ? behind_udp(ip + head, len - head, ip[9]) : 0);
}

/* IPv6 or GRH. RoCEv1 writes IPv4 groups as ff0e::ffff:a.b.c.d. */
static void add_ipv6(struct endpoints *e, const uint8_t *ip, int64_t len, bool grh)
{
	if (len < IPV6_LEN)
		return;
	uint8_t dst[16];
	memcpy(dst, ip + 24, 16);
	if (grh && dst[0] == 0xff && dst[1] == 0x0e && is_zero((uint8_t[16]){[6] = dst[2], [7] = dst[3]}) &&
	    load32(dst + 8) == 0xffff0000)
		map(dst, ip + 36);
	if (grh)
		add_ips(e, ip + 8, dst, ip + IPV6_LEN, len - IPV6_LEN);
	else
		add_ips(e, ip + 8, dst, ip + IPV6_LEN + UDP_LEN, behind_udp(ip + IPV6_LEN, len - IPV6_LEN, ip[6]));
}

static void add_arp(struct endpoints *e, const uint8_t *arp, int64_t len)
{
	uint8_t ip[16];
	if (len < ARP_LEN)
		return;
	map(ip, arp + 14);
	add_ip(e, ip, NULL);
	map(ip, arp + 24);
	add_ip(e, ip, NULL);
}

void endpoints_of_address(struct endpoints *e, const uint8_t address[16])
{
	add_ip(e, address, NULL);
	add_source(e, address);
}

void endpoints_of_frame(struct endpoints *e, const uint8_t *frame, uint32_t len)
{
	uint32_t at = ETH_LEN;
	if (len < at)
		return;
	uint16_t type = be16(frame + 12);
	for (; (type == TYPE_VLAN || type == TYPE_QINQ) && at + 4 <= len; at += 4)
		type = be16(frame + at + 2);
	const uint8_t *net = frame + at;
	int64_t rest = len - at;
	if (type == TYPE_IPV4)
		add_ipv4(e, net, rest);
	else if (type == TYPE_IPV6 || type == TYPE_ROCE_V1)
		add_ipv6(e, net, rest, type == TYPE_ROCE_V1);
	else if (type == TYPE_ARP)
		add_arp(e, net, rest);
}

void endpoints_of_message(struct endpoints *e, const struct mirror_ib *ib, const uint8_t *area)
{
	add_qpn(e, ib->peer);
	add_qpn(e, ib->qpn);
	const struct proxy_qpn_entry *s = find(&e->tables->proxy_qpns, NULL, ib->qpn);
	bool group = false;
	if (area && area[0] >> 4 == 6) {
		add(e, area + 8);
		add(e, area + 24);
		add_source(e, area + 8);
		const struct mgid_entry *g = find(&e->tables->mgids, area + 24, 0);
		group = area[24] == 0xff;
		if (g)
			add(e, g->peer.ip);
	} else if (area && area[20] >> 4 == 4) {
		uint8_t ip[16];
		map(ip, area + 32);
		add(e, ip);
		add_source(e, ip);
		map(ip, area + 36);
		add(e, ip);
	} else {
		add_lid(e, ib->lid);
	}
	if (s && !group) {
		add(e, s->peer.ip);
		add_qpn(e, s->peer.qpn);
	}
}

void endpoints_of_send(struct endpoints *e, const struct mirror_ib *ib, const struct table_key *from,
		       const struct table_key *to)
{
	add(e, from->addr);
	add(e, to->addr);
	add(e, ib->dgid);
	add_source(e, ib->dgid);
	add_qpn(e, (uint32_t)from->number);
	add_qpn(e, ib->qpn);
	add_qpn(e, ib->peer);
}

bool endpoints_have(const struct endpoints *e, const uint8_t address[16])
{
	for (unsigned i = 0; i < e->addresses; i++)
		if (memcmp(e->address[i], address, 16) == 0)
			return true;
	return false;
}

bool endpoints_have_qpn(const struct endpoints *e, uint32_t qpn)
{
	for (unsigned i = 0; i < e->qpns; i++)
		if (e->qpn[i] == qpn)
			return true;
	return false;
}
