/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns that fastpath.h compares frames with. */
#include <string.h>

#include "proto.h"
#include "lease.h"
#include "worker.h"

/* Without a tag, the last eight bytes before the IP header are the source MAC address and the EtherType; with one, two
 * bytes of that address, 8100, priority and VLAN id, and the EtherType. In the byte order of the frame. */
static void prepare_ethernet(struct segment *s)
{
	uint8_t mask[8] = {[6] = 0xff, 0xff}, type[8] = {[6] = 0x08, 0x00};
	s->l2_len = ETH_LEN;
	if (s->vlan != 0) {
		memcpy(mask, (uint8_t[]){0, 0, 0xff, 0xff, 0x0f, 0xff}, 6);
		memcpy(type, (uint8_t[]){0, 0, 0x81, 0x00, (uint8_t)(s->vlan >> 8), (uint8_t)s->vlan}, 6);
		s->l2_len = ETH_LEN + VLAN_LEN;
	}
	memcpy(&s->l2_mask, mask, sizeof mask);
	memcpy(&s->l2_ipv4, type, sizeof type);
	memcpy(&type[6], (uint8_t[]){0x86, 0xdd}, 2);
	memcpy(&s->l2_ipv6, type, sizeof type);
	if (!(s->versions & ROCE_V2))
		s->l2_ipv4 = s->l2_ipv6 = UINT64_MAX; /* outside of the mask: no frame matches */
}

static void set_byte(struct fastpath_type *t, unsigned at, uint8_t mask, uint8_t type)
{
	t->mask[at] = mask;
	t->type[at] = type;
}

/* Destination: the port's address, or in a fleet that of a shard. Source: not a group. */
static void prepare_own(struct segment *s, uint64_t mac, uint64_t virtual_mac)
{
	uint64_t own = virtual_mac ? virtual_mac : mac;
	s->mac = __builtin_bswap64(mac << 16);
	memset(&s->own, 0, sizeof s->own);
	set_byte(&s->own, 6, 0x01, 0);
	for (unsigned i = 0; i < 6; i++)
		set_byte(&s->own, i, 0xff, (uint8_t)(own >> (40 - 8 * i)));
	if (virtual_mac)
		s->own.mask[5] = (uint8_t) ~(HOST_SHARDS - 1);
}

void segment_prepare(struct datapath *dp, unsigned number)
{
	struct segment *s = &dp->segment[number];
	prepare_ethernet(s);
	prepare_own(s, dp->mac[s->port], dp->virtual_mac);
	s->group_key = s->from_key = (uint64_t)number << SEGMENT_SHIFT;
	if (s->partition != PARTITION_ANY)
		s->from_key |= (uint64_t)s->partition << PARTITION_SHIFT;
}

static void prepare_segments(struct datapath *dp)
{
	memset(dp->segment_of, SEGMENT_NONE, sizeof dp->segment_of);
	dp->segment[SEGMENT_NONE] = (struct segment){.partition = PARTITION_ANY};
	segment_prepare(dp, SEGMENT_NONE);
	for (unsigned i = 0; i < dp->segments; i++) {
		segment_prepare(dp, i);
		dp->segment_of[dp->segment[i].port][dp->segment[i].vlan] = (uint8_t)i;
	}
}

/* Packets with reserved bits set go to parse.c, which counts them. */
static void prepare_headers(struct datapath *dp)
{
	uint16_t pkey = dp->roce_pkey | 0x8000; /* a full member's matches either kind */
	memset(&dp->fastpath_ipv4, 0, sizeof dp->fastpath_ipv4);
	memset(&dp->fastpath_udp, 0, sizeof dp->fastpath_udp);
	memset(&dp->fastpath_deth, 0, sizeof dp->fastpath_deth);
	set_byte(&dp->fastpath_ipv4, 0, 0xff, 0x45); /* version, header length */
	set_byte(&dp->fastpath_ipv4, 6, 0x3f, 0);    /* more fragments, offset */
	set_byte(&dp->fastpath_ipv4, 7, 0xff, 0);
	set_byte(&dp->fastpath_ipv4, 9, 0xff, PROTO_UDP);
	set_byte(&dp->fastpath_udp, 2, 0xff, ROCE_PORT >> 8);
	set_byte(&dp->fastpath_udp, 3, 0xff, ROCE_PORT & 0xff);
	set_byte(&dp->fastpath_udp, 6, 0xff, 0); /* no checksum */
	set_byte(&dp->fastpath_udp, 7, 0xff, 0);
	set_byte(&dp->fastpath_udp, 8, 0xfe, 0x64); /* BTH: SEND_ONLY, with or without immediate data */
	set_byte(&dp->fastpath_udp, 9, 0x0f, 0);    /* transport version */
	set_byte(&dp->fastpath_udp, 10, 0xff, (uint8_t)(pkey >> 8));
	set_byte(&dp->fastpath_udp, 11, 0xff, (uint8_t)pkey);
	set_byte(&dp->fastpath_udp, 12, 0xbf, 0); /* FECN, reserved */
	set_byte(&dp->fastpath_deth, 0, 0x7f, 0); /* reserved beside the PSN */
	set_byte(&dp->fastpath_deth, 4, 0x80, 0); /* DETH: a controlled Q_Key */
	set_byte(&dp->fastpath_deth, 8, 0xff, 0); /* reserved beside the source QPN */
}

/* Destination: one of groups (RFC 1112 §6.4, RFC 2464 §7). Source: not a group. */
static void prepare_groups(struct datapath *dp)
{
	memset(&dp->fastpath_group4, 0, sizeof dp->fastpath_group4);
	set_byte(&dp->fastpath_group4, 6, 0x01, 0);
	dp->fastpath_group6 = dp->fastpath_group4;
	set_byte(&dp->fastpath_group4, 0, 0xff, 0x01);
	set_byte(&dp->fastpath_group4, 1, 0xff, 0x00);
	set_byte(&dp->fastpath_group4, 2, 0xff, 0x5e);
	set_byte(&dp->fastpath_group6, 0, 0xff, 0x33);
	set_byte(&dp->fastpath_group6, 1, 0xff, 0x33);
}

/* Towards RoCE: SEND_ONLY; M, as UD senders set it; the P_Key. */
static void prepare_bth(struct datapath *dp)
{
	const uint8_t bth[8] = {[4] = 0x64, 0x40, (uint8_t)(dp->roce_pkey >> 8), (uint8_t)dp->roce_pkey};
	memcpy(&dp->bth, bth, sizeof bth);
}

void datapath_prepare(struct datapath *dp)
{
	dp->port_mask = dp->ports > ONLY_PORT ? MAX_PORTS - 1 : 0;
	lease_begin(dp);
	prepare_bth(dp);
	prepare_segments(dp);
	prepare_groups(dp);
	prepare_headers(dp);
}
