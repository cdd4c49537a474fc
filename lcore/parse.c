/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet, 802.1Q, IPv4, IPv6, UDP and GRH of frames from the RoCE side. Lengths are checked first: nothing is read
 * before it is known to be there, nor behind the length that the headers give.
 */
#include "burst.h"
#include "egress.h"
#include "proto.h"
#include "lease.h"

/* The shortest packet of any transport is a BTH, and its ICRC. That a UD message is longer, transport.c knows. */
enum {
	MIN_GRH_PAYLOAD = BTH_LEN + ICRC_LEN,
	MIN_UDP = UDP_LEN + MIN_GRH_PAYLOAD,
};

static const uint64_t BROADCAST = 0xffffffffffff;
static const uint64_t MAC_GROUP = 0x010000000000; /* the group bit */

static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff};

static bool is_loopback6(const uint8_t *ip6)
{
	static const uint8_t loopback[16] = {[15] = 1};
	return memcmp(ip6, loopback, sizeof loopback) == 0;
}

static bool is_own4(const struct segment *s, const uint8_t *ip4)
{
	uint32_t raw;
	memcpy(&raw, ip4, sizeof raw);
	for (unsigned i = 0; i < s->addresses; i++)
		if (s->own4[i].address == raw)
			return true;
	return false;
}

static bool is_broadcast4(const struct segment *s, const uint8_t *ip4)
{
	uint32_t raw;
	memcpy(&raw, ip4, sizeof raw);
	for (unsigned i = 0; i < s->addresses; i++)
		if (s->own4[i].broadcast == raw)
			return true;
	return false;
}

static void set_mapped(struct table_key *k, const uint8_t *ip4)
{
	uint32_t raw;
	memcpy(&raw, ip4, sizeof raw);
	key_ipv4(k, raw);
}

static void set_addr(struct table_key *k, const uint8_t *ip6)
{
	memcpy(k->addr, ip6, 16);
}

/* Sets the fields behind UDP or GRH. len: bytes from the BTH to the end of the ICRC. */
static void set_transport(struct packet *p, struct icrc_job *icrc, const uint8_t *bth, uint32_t len)
{
	p->plain = false;
	p->transport = bth;
	p->transport_len = len - ICRC_LEN;
	bool deth = likely(len >= UD_LEN + ICRC_LEN);
	p->from.number = p->segment->from_key;
	p->from.number |= deth ? be32(bth + BTH_LEN + 4) & 0xffffff : 0; /* the source QPN; no table has QPN 0 */
	p->to.number = p->multicast ? p->segment->group_key : 0;
	icrc->len = (uint32_t)(bth - icrc->p) + len - ICRC_LEN;
}

/* UDP of RoCEv2. ip_payload: the length by the IP header, all of which is in the frame. */
static enum drop parse_udp(const struct datapath *dp, struct packet *p, struct icrc_job *icrc, const uint8_t *udp,
			   uint32_t ip_payload)
{
	if (unlikely(ip_payload < UDP_LEN))
		return DROP_udp_len;
	if (unlikely(be16(udp + 2) != ROCE_PORT))
		return parse_plain(dp, p, icrc, udp, ip_payload);
	if (unlikely(!(p->segment->versions & ROCE_V2)))
		return DROP_version_off;
	uint32_t len = be16(udp + 4);
	if (unlikely(len < MIN_UDP || len > ip_payload || len % 4 != 0))
		return DROP_udp_len;
	if (unlikely(len != ip_payload))
		return DROP_ip_len;
	if (unlikely(be16(udp + 6) != 0 && !udp_checksum_right(icrc, udp, len)))
		return DROP_udp_csum;
	set_transport(p, icrc, udp + UDP_LEN, len - UDP_LEN);
	return PASS;
}

/* Not a host address: this network, loopback, multicast, reserved, broadcast. */
static bool is_no_host4(const uint8_t *ip4)
{
	return ip4[0] == 0 || ip4[0] == 127 || ip4[0] >= 224;
}

static enum drop check_source4(const struct segment *s, const uint8_t *ip)
{
	if (unlikely(is_no_host4(ip + 12) || is_broadcast4(s, ip + 12)))
		return DROP_ip_badsrc;
	if (unlikely(memcmp(ip + 12, ip + 16, 4) == 0))
		return DROP_ip_badsrc;
	return unlikely(is_own4(s, ip + 12)) ? DROP_loop_self : PASS;
}

/* 224.0.0.0/24 never leaves its link (RFC 5771 §4). */
static bool is_control4(const uint8_t *ip4)
{
	return ip4[0] == 224 && ip4[1] == 0 && ip4[2] == 0;
}

static enum drop check_dest4(struct packet *p, const uint8_t *ip)
{
	uint8_t a = ip[16];
	p->multicast = (a & 0xf0) == 0xe0;
	p->control_group = is_control4(ip + 16);
	if (likely(p->multicast))
		return PASS;
	if (unlikely(a == 0 || a == 127 || a >= 240))
		return DROP_ip_baddst;
	return unlikely(is_broadcast4(p->segment, ip + 16)) ? DROP_ip_baddst : PASS;
}

static unsigned parse_ipv4(const struct datapath *dp, struct packet *p, struct icrc_job *icrc, uint32_t len)
{
	const uint8_t *ip = icrc->p;
	if (unlikely(len < IPV4_LEN || ip[0] >> 4 != 4))
		return DROP_ip_hdr;
	if (unlikely(ip[9] == PROTO_IGMP || ip[9] == PROTO_ICMP))
		return PUNT;
	if (unlikely(ip[0] != 0x45))
		return (ip[0] & 15) < 5 ? DROP_ip_hdr : DROP_ip_options;
	if (unlikely(ipv4_header_sum(ip) != 0xffff))
		return DROP_ip_csum;
	uint32_t total = be16(ip + 2);
	if (unlikely(total < IPV4_LEN || total > len))
		return DROP_ip_len;
	if (unlikely((be16(ip + 6) & 0x3fff) != 0)) /* more fragments, or an offset */
		return DROP_ip_frag;
	if (unlikely(ip[8] == 0))
		return DROP_ip_ttl;
	set_mapped(&p->from, ip + 12);
	set_mapped(&p->to, ip + 16);
	enum drop d = check_source4(p->segment, ip);
	if (unlikely(d))
		return d;
	d = check_dest4(p, ip);
	if (unlikely(d))
		return d;
	if (unlikely(ip[9] != PROTO_UDP))
		return DROP_not_roce;
	icrc->kind = ICRC_IPV4;
	p->tclass = ip[1];
	p->hop_limit = ip[8];
	p->flow_label = 0;
	return parse_udp(dp, p, icrc, ip + IPV4_LEN, total - IPV4_LEN);
}

static unsigned next_header6(const uint8_t *ip, uint32_t len)
{
	switch (ip[6]) {
	case PROTO_UDP:
		return PASS;
	case PROTO_ICMP6:
		return PUNT;
	case PROTO_HOPOPTS: /* MLD follows a router alert option */
		return len > IPV6_LEN && ip[IPV6_LEN] == PROTO_ICMP6 ? PUNT : DROP_ip6_ext;
	case PROTO_ROUTING:
	case PROTO_FRAGMENT:
	case PROTO_ESP:
	case PROTO_AH:
	case PROTO_NONE:
	case PROTO_DSTOPTS:
	case PROTO_MOBILITY:
	case PROTO_HIP:
	case PROTO_SHIM6:
		return DROP_ip6_ext;
	default:
		return DROP_not_roce;
	}
}

static enum drop check_addresses6(struct packet *p, const uint8_t *src, const uint8_t *dst)
{
	if (unlikely(src[0] == 0xff || is_zero(src) || is_loopback6(src) || is_ipv4(src) || memcmp(src, dst, 16) == 0))
		return DROP_ip_badsrc;
	if (unlikely(is_own(p->segment, src)))
		return DROP_loop_self;
	p->multicast = dst[0] == 0xff;
	p->control_group = p->multicast && (dst[1] & 15) <= 2;
	if (p->multicast) {
		/* RoCEv1's form of an IPv4 group, from hosts that predate RoCEv2's (wire form ff0e::ffff:a.b.c.d) */
		bool old = dst[1] == 0x0e && memcmp(dst + 2, MAPPED + 2, 10) == 0;
		return unlikely(old) ? DROP_ip_baddst : PASS;
	}
	if (unlikely(is_zero(dst) || is_loopback6(dst) || is_ipv4(dst)))
		return DROP_ip_baddst;
	return PASS;
}

static unsigned parse_ipv6(const struct datapath *dp, struct packet *p, struct icrc_job *icrc, uint32_t len)
{
	const uint8_t *ip = icrc->p;
	if (unlikely(len < IPV6_LEN || ip[0] >> 4 != 6))
		return DROP_ip_hdr;
	unsigned next = next_header6(ip, len);
	if (unlikely(next != PASS))
		return next;
	uint32_t payload = be16(ip + 4);
	if (unlikely(payload == 0 || payload > len - IPV6_LEN))
		return DROP_ip_len;
	if (unlikely(ip[7] == 0))
		return DROP_ip_ttl;
	enum drop d = check_addresses6(p, ip + 8, ip + 24);
	if (unlikely(d))
		return d;
	set_addr(&p->from, ip + 8);
	set_addr(&p->to, ip + 24);
	icrc->kind = ICRC_IPV6;
	p->tclass = (uint8_t)(be16(ip) >> 4);
	p->hop_limit = ip[7];
	p->flow_label = be32(ip) & 0xfffff;
	return parse_udp(dp, p, icrc, ip + IPV6_LEN, payload);
}

static enum drop check_addresses_grh(struct packet *p, const uint8_t *src, const uint8_t *dst)
{
	bool no_host4 = is_ipv4(src) && (is_no_host4(src + 12) || is_broadcast4(p->segment, src + 12));
	if (unlikely(src[0] == 0xff || is_zero(src) || is_loopback6(src) || no_host4 || memcmp(src, dst, 16) == 0))
		return DROP_ip_badsrc;
	if (unlikely(is_own(p->segment, src)))
		return DROP_loop_self;
	if (unlikely(is_zero(dst)))
		return DROP_ip_baddst;
	p->multicast = dst[0] == 0xff;
	p->control_group = p->multicast && (dst[1] & 15) <= 2;
	return PASS;
}

static unsigned parse_grh(struct packet *p, struct icrc_job *icrc, uint32_t len)
{
	const uint8_t *grh = icrc->p;
	if (unlikely(!(p->segment->versions & ROCE_V1)))
		return DROP_version_off;
	if (unlikely(len < IB_GRH_LEN || grh[0] >> 4 != 6 || grh[6] != NEXT_BTH))
		return DROP_grh_hdr;
	uint32_t payload = be16(grh + 4);
	if (unlikely(payload < MIN_GRH_PAYLOAD || payload > len - IB_GRH_LEN || payload % 4 != 0))
		return DROP_grh_len;
	const uint8_t *dst = grh + 24;
	enum drop d = check_addresses_grh(p, grh + 8, dst);
	if (unlikely(d))
		return d;
	set_addr(&p->from, grh + 8);
	/* RoCEv1 writes the IPv4 group a.b.c.d as ff0e::ffff:a.b.c.d; the tables know it IPv4-mapped */
	if (dst[0] == 0xff && dst[1] == 0x0e && memcmp(dst + 2, MAPPED + 2, 10) == 0) {
		set_mapped(&p->to, dst + 12);
		p->control_group = is_control4(dst + 12);
	} else {
		set_addr(&p->to, dst);
	}
	icrc->kind = ICRC_GRH;
	p->tclass = (uint8_t)(be16(grh) >> 4);
	p->hop_limit = grh[7];
	p->flow_label = be32(grh) & 0xfffff;
	set_transport(p, icrc, grh + IB_GRH_LEN, payload);
	return PASS;
}

/* Whether a MAC address is that of one of the bridge's ports: their links may be one network. */
static bool is_own_mac(const struct datapath *dp, uint64_t mac)
{
	unsigned ports = __atomic_load_n(&dp->ports, __ATOMIC_RELAXED) & PORTS_ALL;
	for (; ports; ports &= ports - 1)
		if (dp->mac[first_port(ports)] == mac)
			return true;
	return false;
}

bool is_station(const struct datapath *dp, uint64_t mac)
{
	uint64_t ordered = rte_bswap64(mac << 16);
	return mac != 0 && !(ordered & MAC_GROUP) && !is_own_mac(dp, ordered);
}

static enum drop check_macs(const struct datapath *dp, unsigned port, const uint8_t *eth)
{
	uint64_t dst = mac48(eth), src = mac48(eth + 6);
	if (unlikely(!(dst & MAC_GROUP) && dst != dp->mac[port] && !is_virtual(dp, dst)))
		return DROP_l2_notus;
	if (unlikely((src & MAC_GROUP) || src == 0))
		return DROP_l2_badsrc;
	return unlikely(is_own_mac(dp, src)) ? DROP_loop_self : PASS;
}

/* What is left of a frame on an af_packet port whose tag is not one of 802.1Q (dpdk/tags.c). */
enum { OTHER_TAG_LEN = 17 };

/* Accepts at most one 802.1Q tag, of a segment's VLAN. Sets p->segment, *len, of all L2 headers, and *type. */
static enum drop parse_vlan(const struct datapath *dp, unsigned port, const uint8_t *eth, uint32_t frame_len,
			    struct packet *p, uint32_t *len, uint16_t *type)
{
	uint16_t vid = 0;
	*len = ETH_LEN;
	*type = be16(eth + 12);
	if (unlikely(*type == TYPE_QINQ))
		return DROP_vlan_double;
	if (*type == TYPE_VLAN) {
		if (unlikely(frame_len == OTHER_TAG_LEN))
			return DROP_vlan_double;
		if (unlikely(frame_len < ETH_LEN + VLAN_LEN))
			return DROP_l2_short;
		vid = be16(eth + 14) & 0xfff; /* 0: a priority tag, as if untagged */
		*type = be16(eth + 16);
		*len = ETH_LEN + VLAN_LEN;
		if (unlikely(*type == TYPE_VLAN || *type == TYPE_QINQ))
			return DROP_vlan_double;
	}
	p->segment = segment_of_vlan(dp, port, vid);
	return unlikely(!p->segment) ? DROP_vlan_unknown : PASS;
}

/* Another member says that it has a shard: management contradicts when it is this one's. */
static unsigned parse_rarp(const struct datapath *dp, uint64_t source)
{
	if (!is_virtual(dp, source))
		return DROP_l2_other;
	return lease_answers(dp, source) ? PUNT : DROP_loop_bridge;
}

unsigned parse(const struct datapath *dp, struct rte_mbuf *m, struct packet *p, struct icrc_job *icrc)
{
	const uint8_t *eth = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t len, frame_len = m->data_len;
	unsigned port = port_index(dp, m);
	uint16_t type;
	if (unlikely(m->nb_segs != 1))
		return DROP_l2_toolong;
	if (unlikely(frame_len < ETH_LEN))
		return DROP_l2_short;
	enum drop d = check_macs(dp, port, eth);
	if (unlikely(d))
		return d;
	d = parse_vlan(dp, port, eth, frame_len, p, &len, &type);
	if (unlikely(d))
		return d;

	unsigned result;
	p->mbuf = m;
	icrc->p = eth + len;
	switch (type) {
	case TYPE_IPV4:
		result = parse_ipv4(dp, p, icrc, frame_len - len);
		break;
	case TYPE_IPV6:
		result = parse_ipv6(dp, p, icrc, frame_len - len);
		break;
	case TYPE_ROCE_V1:
		result = parse_grh(p, icrc, frame_len - len);
		break;
	case TYPE_ARP:
		return PUNT;
	case TYPE_RARP:
		return parse_rarp(dp, mac48(eth + 6));
	default:
		return DROP_l2_other;
	}
	if (unlikely(result != PASS))
		return result;
	uint64_t dst = mac48(eth);
	bool group = (dst & MAC_GROUP) != 0;
	return unlikely(group != p->multicast || dst == BROADCAST) ? DROP_l2_l3_mismatch : PASS;
}
