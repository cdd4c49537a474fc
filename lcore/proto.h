/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol numbers and header lengths, in bytes. */
#ifndef CAUSEWAY_PROTO_H
#define CAUSEWAY_PROTO_H

/* Ethertypes (IEEE 802, Annex A16). */
enum {
	TYPE_IPV4 = 0x0800,
	TYPE_ARP = 0x0806,
	TYPE_RARP = 0x8035,
	TYPE_VLAN = 0x8100,
	TYPE_IPV6 = 0x86dd,
	TYPE_QINQ = 0x88a8,
	TYPE_ROCE_V1 = 0x8915,
};

/* IP's protocols, which are IPv6's next headers (IANA); and a GRH's. */
enum {
	PROTO_HOPOPTS = 0,
	PROTO_ICMP = 1,
	PROTO_IGMP = 2,
	PROTO_UDP = 17,
	PROTO_ROUTING = 43,
	PROTO_FRAGMENT = 44,
	PROTO_ESP = 50,
	PROTO_AH = 51,
	PROTO_ICMP6 = 58,
	PROTO_NONE = 59,
	PROTO_DSTOPTS = 60,
	PROTO_MOBILITY = 135,
	PROTO_HIP = 139,
	PROTO_SHIM6 = 140,
	NEXT_BTH = 0x1b,
};

enum { ROCE_PORT = 4791 }; /* UDP, of RoCEv2 (Annex A17) */

/* The destination QPN of all messages to groups (IBTA vol 1 §9.4.1.1). */
enum { QPN_MULTICAST = 0xffffff };

enum {
	ETH_LEN = 14,
	VLAN_LEN = 4,
	ARP_LEN = 28,
	ETH_MIN = 60,  /* a frame without FCS (IEEE 802.3 §4.4.2) */
	IPV4_LEN = 20, /* without options */
	IPV6_LEN = 40, /* a GRH is as long */
	UDP_LEN = 8,
	BTH_LEN = 12,
	UD_LEN = BTH_LEN + 8, /* BTH, DETH */
	ICRC_LEN = 4,
};

/* The lower bits of a traffic class (RFC 3168). */
enum { ECN_MASK = 3, ECN_CE = 3 };

#endif
