/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of messages: headers from the flow's template, the stamp, the ICRC. */
#include "gen.h"

#include <pthread.h>

static uint8_t filler[GEN_MAX_PAYLOAD + 64];

static void fill(void)
{
	stamp_fill(filler, sizeof filler, GEN_SEED);
}

const uint8_t *gen_filler(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, fill);
	return filler;
}

/* Only the bytes up to the end of the stamp differ between the frames of a length. */
static void put_icrc(const struct gen_flow *f, const uint8_t *head, uint8_t *payload)
{
	uint32_t first = icrc((enum icrc_kind)f->icrc, head + f->net, (uint32_t)(f->head_len - f->net) + STAMP_LEN);
	uint32_t crc = gen_move(f->size, first) ^ f->size->rest;
	uint8_t *end = payload + f->size->len;
	memset(end, 0, f->size->pad);
	memcpy(end + f->size->pad, &crc, sizeof crc);
}

void gen_make(struct gen_flow *f, uint8_t *payload, uint64_t tsc)
{
	uint8_t *head = payload - f->head_len;
	uint64_t seq = f->next_seq++;
	memcpy(head, f->head, f->head_len);
	stamp_put(payload, (struct stamp){
				   .stream = f->id,
				   .number = seq,
				   .time = tsc,
				   .length = (uint16_t)f->size->len,
				   .seed = GEN_SEED,
			   });
	if (f->from == GEN_IB)
		return; /* an HCA adds pad and ICRC */
	uint32_t psn = __builtin_bswap32((uint32_t)seq & 0xffffff);
	memcpy(head + f->bth + 8, &psn, sizeof psn);
	put_icrc(f, head, payload);
}

void gen_frame(struct gen_flow *f, uint8_t *out, uint64_t tsc)
{
	memcpy(out + f->head_len, gen_filler(), f->size->len);
	gen_make(f, out + f->head_len, tsc);
}
