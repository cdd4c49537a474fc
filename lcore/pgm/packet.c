/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <string.h>

enum {
	OPTIONS_PRESENT = 0x01, /* in the header's octet of options */
	PARITY = 0x80,
	OPT_END = 0x80, /* in an option's type */
	OPT_HEAD = 4,
};

/* What lies between the header and the options, in bytes, without addresses. */
struct body {
	bool known;
	bool upstream; /* from a receiver: its ports are the source's, exchanged */
	uint8_t bytes;
	uint8_t nla[2]; /* offset of an address family in it, whose address follows; 0: none */
};

static const struct body bodies[PGM_TYPES] = {
	[PGM_SPM] = {.known = true, .bytes = 16, .nla = {12}},
	[PGM_POLL] = {.known = true, .bytes = 24, .nla = {8}},
	[PGM_POLR] = {.known = true, .upstream = true, .bytes = 8},
	[PGM_ODATA] = {.known = true, .bytes = 8},
	[PGM_RDATA] = {.known = true, .bytes = 8},
	[PGM_NAK] = {.known = true, .upstream = true, .bytes = 12, .nla = {4, 8}},
	[PGM_NNAK] = {.known = true, .upstream = true, .bytes = 12, .nla = {4, 8}},
	[PGM_NCF] = {.known = true, .bytes = 12, .nla = {4, 8}},
	[PGM_SPMR] = {.known = true, .upstream = true},
	[PGM_ACK] = {.known = true, .upstream = true, .bytes = 8},
};

/* Options whose length is always the same: RFC 3208 §9, and its appendices on FEC, NAK intervals and reports. */
static const uint8_t opt_bytes[PGM_OPT_TYPES] = {
	[0x01] = 16, /* FRAGMENT */
	[0x03] = 8,  /* JOIN */
	[0x04] = 12, /* NAK_BO_IVL */
	[0x05] = 12, /* NAK_BO_RNG */
	[0x08] = 8,  /* PARITY_PRM */
	[0x09] = 8,  /* PARITY_GRP */
	[0x0a] = 8,  /* CURR_TGSIZE */
	[0x0b] = 4,  /* NBR_UNREACH */
	[0x0d] = 4,  /* SYN */
	[0x0e] = 4,  /* FIN */
	[0x0f] = 4,  /* RST */
	[0x11] = 4,  /* CRQST */
};

static inline uint32_t u16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t u32(const uint8_t *p)
{
	return u16(p) << 16 | u16(p + 2);
}

/* The one's complement sum of all 16-bit words, of which the last may be half (RFC 1071); all ones when right. */
static uint16_t sum(const uint8_t *p, uint32_t len)
{
	uint64_t s = 0;
	for (; len >= 4; p += 4, len -= 4) {
		uint32_t v;
		memcpy(&v, p, sizeof v);
		s += v;
	}
	if (len > 0) {
		uint32_t v = 0;
		memcpy(&v, p, len);
		s += v;
	}
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)s;
}

/* The length of the body that begins at p, where room bytes are left. */
static enum pgm_fault measure(const struct body *b, const uint8_t *p, uint32_t room, uint32_t *bytes)
{
	uint32_t n = b->bytes, before = 0;
	for (unsigned i = 0; i < 2 && b->nla[i]; i++) {
		uint32_t at = b->nla[i] + before;
		if (room < at + 2)
			return PGM_FAULT_body_short;
		uint32_t afi = u16(p + at);
		if (afi != 1 && afi != 2)
			return PGM_FAULT_afi;
		before += afi == 1 ? 4 : 16;
	}
	*bytes = n + before;
	return room < *bytes ? PGM_FAULT_body_short : PGM_FINE;
}

static void take_body(struct pgm_packet *k, const uint8_t *p)
{
	switch (k->type) {
	case PGM_SPM:
		k->sqn = u32(p);
		k->trail = u32(p + 4);
		k->lead = u32(p + 8);
		k->afi = (uint8_t)u16(p + 12);
		k->nla = p + 16;
		break;
	case PGM_ODATA:
	case PGM_RDATA:
		k->sqn = u32(p);
		k->trail = u32(p + 4);
		break;
	case PGM_NAK:
	case PGM_NNAK:
	case PGM_NCF:
		k->sqn = u32(p);
		k->sqns = 1;
		break;
	default:
		break;
	}
}

/* One option of n bytes, its head included. */
static enum pgm_fault take_option(struct pgm_packet *k, const uint8_t *o, uint32_t n)
{
	uint8_t type = o[0] & 0x7f;
	if (type == PGM_OPT_LENGTH)
		return PGM_FAULT_opt_second;
	if (type >= PGM_OPT_TYPES || type == 0x06) {
		k->unknown++;
		k->unknown_type = type;
		return PGM_FINE;
	}
	k->options |= UINT32_C(1) << type;
	if (opt_bytes[type] && n != opt_bytes[type])
		return PGM_FAULT_opt_size;
	if (type == PGM_OPT_NAK_LIST) {
		if (n < OPT_HEAD + 4 || n % 4)
			return PGM_FAULT_nak_list;
		k->sqns += k->sqns ? (n - OPT_HEAD) / 4 : 0;
	}
	return PGM_FINE;
}

/* The chain behind OPT_LENGTH, room bytes long. */
static enum pgm_fault take_chain(struct pgm_packet *k, const uint8_t *o, uint32_t room)
{
	for (unsigned i = 0; i < PGM_OPTIONS_MOST; i++) {
		if (room == 0)
			return PGM_FAULT_opt_end_none;
		if (room < OPT_HEAD || o[1] < OPT_HEAD)
			return PGM_FAULT_opt_short;
		uint32_t n = o[1];
		if (n > room)
			return PGM_FAULT_opt_long;
		enum pgm_fault f = take_option(k, o, n);
		if (f)
			return f;
		room -= n;
		if (o[0] & OPT_END)
			return room ? PGM_FAULT_opt_end_early : PGM_FINE;
		o += n;
	}
	return room ? PGM_FAULT_opt_many : PGM_FAULT_opt_end_none;
}

/* All options; bytes is how long they are. OPT_LENGTH may be the only one, with OPT_END or without. */
static enum pgm_fault take_options(struct pgm_packet *k, const uint8_t *o, uint32_t room, uint32_t *bytes)
{
	if (room < OPT_HEAD)
		return PGM_FAULT_opt_none;
	if ((o[0] & 0x7f) != PGM_OPT_LENGTH || o[1] != OPT_HEAD)
		return PGM_FAULT_opt_first;
	*bytes = u16(o + 2);
	if (*bytes < OPT_HEAD || *bytes > room)
		return PGM_FAULT_opt_total;
	if (*bytes == OPT_HEAD)
		return PGM_FINE;
	return o[0] & OPT_END ? PGM_FAULT_opt_end_early : take_chain(k, o + OPT_HEAD, *bytes - OPT_HEAD);
}

/* The header of all packets. Source and port identify a stream: a receiver's packets have the source's port as
 * their destination. */
static enum pgm_fault take_head(struct pgm_packet *k, const uint8_t *p, uint32_t len, bool checksum)
{
	if (len < PGM_HEAD)
		return PGM_FAULT_head_short;
	if (p[4] >> 6)
		return PGM_FAULT_version;
	k->type = p[4];
	if (k->type >= PGM_TYPES || !bodies[k->type].known)
		return PGM_FAULT_type;
	k->unsummed = p[6] == 0 && p[7] == 0;
	if (checksum && !k->unsummed && sum(p, len) != 0xffff)
		return PGM_FAULT_checksum;
	bool upstream = bodies[k->type].upstream;
	k->tsi = (uint64_t)u32(p + 8) << 32 | u16(p + 12) << 16 | u16(upstream ? p + 2 : p);
	k->dport = (uint16_t)u16(upstream ? p : p + 2);
	k->parity = p[5] & PARITY;
	k->bytes = (uint16_t)u16(p + 14);
	return PGM_FINE;
}

enum pgm_fault pgm_parse(struct pgm_packet *k, const uint8_t *payload, uint32_t len, bool checksum)
{
	uint32_t body, options = 0;
	*k = (struct pgm_packet){0};
	enum pgm_fault f = take_head(k, payload, len, checksum);
	if (f)
		return f;
	f = measure(&bodies[k->type], payload + PGM_HEAD, len - PGM_HEAD, &body);
	if (f)
		return f;
	take_body(k, payload + PGM_HEAD);
	uint32_t at = PGM_HEAD + body;
	if (payload[5] & OPTIONS_PRESENT)
		f = take_options(k, payload + at, len - at, &options);
	if (f)
		return f;
	uint32_t rest = len - at - options;
	k->trailing = rest > k->bytes;
	return rest < k->bytes ? PGM_FAULT_tsdu_long : PGM_FINE;
}
