/* SPDX-License-Identifier: Apache-2.0 */
/* What plain.h compares frames with. */
#include <string.h>

#include "wire.h"
#include "worker.h"

/* Without a tag, the last eight bytes before the IP header are the source MAC address and the EtherType; with one, two
 * bytes of that address, 8100, priority and VLAN id, and the EtherType. In the byte order of a load. */
static void prepare_ethernet(struct bench *b)
{
	uint8_t mask[8] = {[6] = 0xff, 0xff}, type[8] = {[6] = 0x08, 0x00};
	b->l2_len = ETH_LEN;
	if (b->vlan != 0) {
		memcpy(mask, (uint8_t[]){0, 0, 0xff, 0xff, 0x0f, 0xff}, 6);
		memcpy(type, (uint8_t[]){0, 0, 0x81, 0x00, (uint8_t)(b->vlan >> 8), (uint8_t)b->vlan}, 6);
		b->l2_len = ETH_LEN + VLAN_LEN;
	}
	memcpy(&b->l2_mask, mask, sizeof mask);
	memcpy(&b->l2_ipv4, type, sizeof type);
	memcpy(&type[6], (uint8_t[]){0x86, 0xdd}, 2);
	memcpy(&b->l2_ipv6, type, sizeof type);
	if (!(b->versions & ROCE_V2))
		b->l2_ipv4 = b->l2_ipv6 = UINT64_MAX; /* outside of the mask: no frame is plain */
	b->plain_mac = __builtin_bswap64(b->mac << 16);
}

static void set_plain(struct plain_type *t, unsigned at, uint8_t mask, uint8_t type)
{
	t->mask[at] = mask;
	t->type[at] = type;
}

/* What is reserved is zero in a plain packet: those that have it set are counted. */
static void prepare_headers(struct bench *b)
{
	uint16_t pkey = b->roce_pkey | 0x8000; /* a full member's matches either kind */
	memset(&b->plain_ipv4, 0, sizeof b->plain_ipv4);
	memset(&b->plain_udp, 0, sizeof b->plain_udp);
	memset(&b->plain_deth, 0, sizeof b->plain_deth);
	set_plain(&b->plain_ipv4, 0, 0xff, 0x45); /* version, header length */
	set_plain(&b->plain_ipv4, 6, 0x3f, 0);    /* more fragments, offset */
	set_plain(&b->plain_ipv4, 7, 0xff, 0);
	set_plain(&b->plain_ipv4, 9, 0xff, PROTO_UDP);
	set_plain(&b->plain_udp, 2, 0xff, ROCE_PORT >> 8);
	set_plain(&b->plain_udp, 3, 0xff, ROCE_PORT & 0xff);
	set_plain(&b->plain_udp, 6, 0xff, 0); /* no checksum */
	set_plain(&b->plain_udp, 7, 0xff, 0);
	set_plain(&b->plain_udp, 8, 0xfe, 0x64); /* BTH: SEND_ONLY, with or without immediate data */
	set_plain(&b->plain_udp, 9, 0x0f, 0);    /* transport version */
	set_plain(&b->plain_udp, 10, 0xff, (uint8_t)(pkey >> 8));
	set_plain(&b->plain_udp, 11, 0xff, (uint8_t)pkey);
	set_plain(&b->plain_udp, 12, 0xbf, 0); /* FECN, reserved */
	set_plain(&b->plain_deth, 0, 0x7f, 0); /* reserved beside the PSN */
	set_plain(&b->plain_deth, 4, 0x80, 0); /* DETH: a controlled Q_Key */
	set_plain(&b->plain_deth, 8, 0xff, 0); /* reserved beside the source QPN */
}

/* To the port's address, or to one that belongs to groups (RFC 1112 §6.4, RFC 2464 §7); the source is no group. */
static void prepare_macs(struct bench *b)
{
	memset(&b->plain_own, 0, sizeof b->plain_own);
	set_plain(&b->plain_own, 6, 0x01, 0);
	b->plain_group4 = b->plain_group6 = b->plain_own;
	for (unsigned i = 0; i < 6; i++)
		set_plain(&b->plain_own, i, 0xff, (uint8_t)(b->mac >> (40 - 8 * i)));
	set_plain(&b->plain_group4, 0, 0xff, 0x01);
	set_plain(&b->plain_group4, 1, 0xff, 0x00);
	set_plain(&b->plain_group4, 2, 0xff, 0x5e);
	set_plain(&b->plain_group6, 0, 0xff, 0x33);
	set_plain(&b->plain_group6, 1, 0xff, 0x33);
}

/* Towards RoCE: SEND_ONLY; M, as UD senders set it; the P_Key. */
static void prepare_bth(struct bench *b)
{
	const uint8_t bth[8] = {[4] = 0x64, 0x40, (uint8_t)(b->roce_pkey >> 8), (uint8_t)b->roce_pkey};
	memcpy(&b->bth, bth, sizeof bth);
}

void bench_prepare(struct bench *b)
{
	prepare_bth(b);
	prepare_ethernet(b);
	prepare_macs(b);
	prepare_headers(b);
}
