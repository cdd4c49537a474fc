/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of a PGM packet (RFC 3208 §8):
 *
 *   header 16 │ body, by type │ OPT_LENGTH 4, options (§9) │ data, of ODATA and RDATA
 *   ports 4, type 1, options 1, checksum 2, GSI 6, TSDU length 2
 *
 * Nothing is read before it is known to be there, and no loop is longer than PGM_OPTIONS_MOST.
 */
#ifndef CAUSEWAY_PGM_PACKET_H
#define CAUSEWAY_PGM_PACKET_H

#include <stdbool.h>
#include <stdint.h>

/* Low four bits of the header's type octet; ACK is PGMCC's. */
enum pgm_type {
	PGM_SPM = 0x0,
	PGM_POLL = 0x1,
	PGM_POLR = 0x2,
	PGM_ODATA = 0x4,
	PGM_RDATA = 0x5,
	PGM_NAK = 0x8,
	PGM_NNAK = 0x9,
	PGM_NCF = 0xa,
	PGM_SPMR = 0xc,
	PGM_ACK = 0xd,
	PGM_TYPES = 16
};

enum {
	PGM_HEAD = 16,
	PGM_OPTIONS_MOST = 32, /* more than there are types: no sender needs more */

	PGM_OPT_LENGTH = 0x00,
	PGM_OPT_NAK_LIST = 0x02,
	PGM_OPT_SYN = 0x0d,
	PGM_OPT_FIN = 0x0e,
	PGM_OPT_RST = 0x0f,
	PGM_OPT_TYPES = 0x14, /* known ones are below */
};

enum pgm_fault {
	PGM_FINE,
#define PGM_FAULT(symbol, sentence) PGM_FAULT_##symbol,
#include "fault.def"
#undef PGM_FAULT
	PGM_FAULTS
};

struct pgm_packet {
	uint64_t tsi;     /* GSI, then the source port: 48 and 16 bits. 0 while it is not known */
	uint32_t sqn;     /* of data, SPM; what NAK, NNAK and NCF ask for first */
	uint32_t trail;   /* of data and SPM */
	uint32_t lead;    /* of SPM */
	uint32_t sqns;    /* how many numbers a NAK, NNAK or NCF names */
	uint32_t options; /* a bit for each known type that is there */
	uint32_t unknown; /* how many options of other types there are */
	uint16_t dport;   /* the session's destination port */
	uint16_t bytes;   /* TSDU length */
	uint8_t type;
	uint8_t afi;          /* of the SPM's path NLA: 1 is IPv4, 2 is IPv6 */
	uint8_t unknown_type; /* of the last of them */
	bool parity;
	bool unsummed;      /* has no checksum */
	bool trailing;      /* bytes follow */
	const uint8_t *nla; /* SPM: 4 or 16 bytes in the payload */
};

/* packet.c: parses a payload of len bytes, and checks the checksum if asked to. After a fault only tsi and type are
 * valid, and these only when tsi is not zero. */
enum pgm_fault pgm_parse(struct pgm_packet *k, const uint8_t *payload, uint32_t len, bool checksum);

#endif
