// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* The performance management agent (16.1): PortCounters and PortCountersExtended. */

#include "shca.h"
#include <asm/unaligned.h>

enum {
	ATTRIBUTE = 64, /* where it begins in the MAD */
	CLASS_PORT_INFO = 0x0001,
	PORT_COUNTERS = 0x0012,
	PORT_COUNTERS_EXTENDED = 0x001d,
	EXTENDED_WIDTH = 0x02, /* of ClassPortInfo's CapabilityMask, the lower byte's neighbour */
};

static u64 sum(const struct shca *s, const enum shca_counter *which, int n)
{
	u64 total = 0;

	while (n--)
		total += atomic64_read(&s->count[which[n]]);
	return total;
}

/* Since the module came. */
static struct shca_pma totals(const struct shca *s)
{
	static const enum shca_counter errors[] = {IN_LENGTH, IN_VCRC, IN_ICRC, IN_HEADERS};
	static const enum shca_counter discards[] = {OUT_NOT_ACTIVE, OUT_DISCARDED};

	return (struct shca_pma){
		.words_out = atomic64_read(&s->words_out),
		.words_in = atomic64_read(&s->words_in),
		.packets_out = atomic64_read(&s->count[SENT]),
		.packets_in = atomic64_read(&s->count[RECEIVED]),
		.errors_in = sum(s, errors, ARRAY_SIZE(errors)),
		.discards_out = sum(s, discards, ARRAY_SIZE(discards)),
	};
}

/* Counters stop at their largest value. */
static void put16(u8 *p, u64 value)
{
	put_unaligned_be16(min_t(u64, value, U16_MAX), p);
}

static void put32(u8 *p, u64 value)
{
	put_unaligned_be32(min_t(u64, value, U32_MAX), p);
}

/* Counters from the port number on: attribute offsets as in table 247. */
static void put_counters(u8 *a, const struct shca_pma *n, const struct shca_pma *zero)
{
	memset(a + 4, 0, 60);
	put16(a + 8, n->errors_in - zero->errors_in);
	put16(a + 14, n->discards_out - zero->discards_out);
	put32(a + 24, n->words_out - zero->words_out);
	put32(a + 28, n->words_in - zero->words_in);
	put32(a + 32, n->packets_out - zero->packets_out);
	put32(a + 36, n->packets_in - zero->packets_in);
}

static void put_extended(u8 *a, const struct shca_pma *n, const struct shca_pma *zero)
{
	memset(a + 4, 0, 68);
	put_unaligned_be64(n->words_out - zero->words_out, a + 8);
	put_unaligned_be64(n->words_in - zero->words_in, a + 16);
	put_unaligned_be64(n->packets_out - zero->packets_out, a + 24);
	put_unaligned_be64(n->packets_in - zero->packets_in, a + 32);
}

static void put_class_port_info(u8 *a)
{
	memset(a, 0, 72);
	a[0] = a[1] = 1;
	a[2] = EXTENDED_WIDTH;
	a[7] = 18; /* responses within 4.096 us * 2^18, a second */
}

int pma_process(struct shca *s, struct ib_mad *mad)
{
	u8 *attribute = (u8 *)mad + ATTRIBUTE, method = mad->mad_hdr.method;
	struct shca_pma now = totals(s);

	if (method != IB_MGMT_METHOD_GET && method != IB_MGMT_METHOD_SET)
		return IB_MAD_RESULT_SUCCESS;
	if (method == IB_MGMT_METHOD_SET)
		s->zero = now; /* all counters, whichever were selected */
	mad->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	switch (be16_to_cpu(mad->mad_hdr.attr_id)) {
	case CLASS_PORT_INFO:
		put_class_port_info(attribute);
		break;
	case PORT_COUNTERS:
		put_counters(attribute, &now, &s->zero);
		break;
	case PORT_COUNTERS_EXTENDED:
		put_extended(attribute, &now, &s->zero);
		break;
	default:
		mad->mad_hdr.status |= cpu_to_be16(IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	}
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
