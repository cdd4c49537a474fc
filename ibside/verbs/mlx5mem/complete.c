/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: 64 bytes, big-endian, with an owner bit that flips each time the queue goes round. Of entries of 128
 * bytes the second half counts. */
#include <endian.h>
#include <string.h>

#include "device.h"

enum { INVALID = 0xf, COUNT = 0xffffff, EVENT_ON_SOLICITED = 1 << 24 };

/* NULL: the queue is full, and the completion is lost. */
static struct mlx5_cqe64 *next_entry(const struct mem_cq *c)
{
	uint32_t taken = be32toh(__atomic_load_n(&c->record[0], __ATOMIC_ACQUIRE));
	uint32_t entries = 1u << c->log;

	if (((c->next - taken) & COUNT) >= entries) {
		mem_fault("completion queue %u overruns: it has %u entries, %u were written and %u taken",
			  (unsigned)(c - mem.cq), entries, c->next & COUNT, taken & COUNT);
		return NULL;
	}
	return (void *)(c->buf + (size_t)(c->next & (entries - 1)) * c->size + c->size - sizeof(struct mlx5_cqe64));
}

struct mlx5_cqe64 *mem_cqe_begin(struct mem_cq *c, const struct mem_qp *q, uint16_t index, uint8_t opcode)
{
	struct mlx5_cqe64 *e = next_entry(c);

	if (!e)
		return NULL;
	memset(e, 0, offsetof(struct mlx5_cqe64, op_own));
	e->srqn_uidx = htobe32(q->uidx);
	e->sop_drop_qpn = htobe32((uint32_t)opcode << 24 | q->qpn);
	e->wqe_counter = htobe16(index);
	return e;
}

/* The byte with the owner is the last that changes. */
void mem_cqe_end(struct mem_cq *c, struct mlx5_cqe64 *e, uint8_t kind, bool solicited)
{
	uint8_t owner = c->next >> c->log & 1;

	__atomic_store_n(&e->op_own, (uint8_t)(kind << 4 | owner), __ATOMIC_RELEASE);
	c->next++;
	c->solicited |= solicited;
	mem.count.completed++;
	mem_wake(c);
}

void mem_cqe_error(struct mem_cq *c, const struct mem_qp *q, uint16_t index, uint8_t kind, uint8_t opcode,
		   uint8_t syndrome)
{
	struct mlx5_cqe64 *e = mem_cqe_begin(c, q, index, opcode);

	if (!e)
		return;
	((struct mlx5_err_cqe *)e)->syndrome = syndrome;
	mem_cqe_end(c, e, kind, true);
}

/* An arming has the count of entries that the program had taken: what came after it is told at once. */
void mem_wake(struct mem_cq *c)
{
	uint32_t word = __atomic_load_n(&c->record[1], __ATOMIC_ACQUIRE), armed = be32toh(word);
	struct ib_uverbs_comp_event_desc e = {.cq_handle = c->user};

	if (c->channel < 0 || word == c->armed || ((armed ^ c->next) & COUNT) == 0)
		return;
	if ((armed & EVENT_ON_SOLICITED) && !c->solicited)
		return;
	c->armed = word;
	c->solicited = false;
	c->told++;
	mem_tell(c->channel, &e, sizeof(e));
}
