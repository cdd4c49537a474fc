/* SPDX-License-Identifier: Apache-2.0 */
/* Plain UDP to groups: datagrams of hosts without RDMA. They have a checksum, where RoCE has an ICRC, and no transport
 * headers. */
#include <rte_ip.h>
#include <rte_udp.h>

#include "burst.h"
#include "proto.h"

/* The one's complement sum over pseudo header and packet comes out as all ones (RFC 768, RFC 8200 §8.1). Or the sum
 * over the pseudo header is all that there is: Linux leaves the rest to the device, and between interfaces of one
 * machine no device is passed. Drivers do not tell which frames those are. */
bool udp_checksum_right(const struct icrc_job *net, const uint8_t *udp, uint32_t len)
{
	uint32_t pseudo = net->kind == ICRC_IPV4 ? rte_ipv4_phdr_cksum((const struct rte_ipv4_hdr *)net->p, 0)
						 : rte_ipv6_phdr_cksum((const struct rte_ipv6_hdr *)net->p, 0);
	uint32_t sum = rte_raw_cksum(udp, len) + pseudo;
	uint16_t sent;
	memcpy(&sent, udp + 6, sizeof sent);
	return (sum & 0xffff) + (sum >> 16) == 0xffff || sent == pseudo;
}

static bool is_plain_group(const struct datapath *dp, const struct table_key *to)
{
	const struct table *groups = &dp->tables->groups;
	return table_find(groups, table_hash(groups, to), to);
}

/* Sets the fields of a datagram. In place of the Q_Key that it lacks it has what the group's entry asks for. */
static void set_plain(struct packet *p, struct icrc_job *icrc, const uint8_t *udp, uint32_t len)
{
	p->plain = true;
	p->from.number = PLAIN_QPN | p->segment->from_key;
	p->payload = udp + UDP_LEN;
	p->payload_len = (uint16_t)(len - UDP_LEN);
	p->dest_qpn = QPN_MULTICAST;
	p->qkey = 0;
	p->imm = 0;
	p->flags = (p->tclass & ECN_MASK) == ECN_CE ? IB_SEND_FECN : 0;
	/* The shortest job within the packet. Like that of a RoCE packet it ends four bytes before the packet does. */
	icrc->p = udp + len - ICRC_LEN - ICRC_FAST_MIN;
	icrc->len = ICRC_FAST_MIN;
}

enum drop parse_plain(const struct datapath *dp, struct packet *p, struct icrc_job *icrc, const uint8_t *udp,
		      uint32_t ip_payload)
{
	uint16_t port = be16(udp + 2);
	p->to.number = p->segment->group_key | port;
	if (!p->multicast || port == 0 || !is_plain_group(dp, &p->to)) /* the number of RoCE groups is 0 */
		return DROP_not_roce;
	uint32_t len = be16(udp + 4), checksum = be16(udp + 6);
	if (unlikely(len < UDP_LEN || len > ip_payload))
		return DROP_udp_len;
	if (unlikely(len != ip_payload))
		return DROP_ip_len;
	bool none = checksum == 0 && icrc->kind == ICRC_IPV4; /* IPv6 has no checksum of its own (RFC 8200 §8.1) */
	if (unlikely(!none && (checksum == 0 || !udp_checksum_right(icrc, udp, len))))
		return DROP_udp_csum;
	set_plain(p, icrc, udp, len);
	return PASS;
}
