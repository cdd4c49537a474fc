/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends: requests in blocks of 64 bytes, of which the first has 16 bytes of control and 48 of address; then pieces of
 * 16 bytes, or inline data. A request may go round the end of the queue.
 */
#include <endian.h>
#include <string.h>

#include "device.h"

enum { CONTROL = 16, HEAD = 64, PIECE = 16, MULTICAST_QPN = 0xffffff, SIZE_16 = 0x3f };
enum { GRH = 1u << 30, EXTENDED = MLX5_EXTENDED_UD_AV };

/* A request as it was read, and its payload. */
struct request {
	struct mlx5mem_sent s;
	uint16_t at;
	uint32_t bytes; /* of the request */
	uint8_t opcode;
	uint8_t data[MLX5MEM_MTU];
};

static uint8_t *block(const struct mem_qp *q, uint32_t at)
{
	return q->sq + (size_t)(at & (q->blocks - 1)) * BLOCK;
}

/* Reads n bytes of a request, from off on. */
static void read_at(const struct mem_qp *q, uint16_t at, uint32_t off, void *to, uint32_t n)
{
	for (uint32_t done = 0; done < n;) {
		uint32_t in = (off + done) % BLOCK, some = BLOCK - in < n - done ? BLOCK - in : n - done;
		memcpy((uint8_t *)to + done, block(q, at + (off + done) / BLOCK) + in, some);
		done += some;
	}
}

static uint16_t posted(const struct mem_qp *q)
{
	return (uint16_t)be32toh(__atomic_load_n(&q->record[MLX5_SND_DBR], __ATOMIC_ACQUIRE));
}

/* Up to which block requests may be carried out. */
static uint16_t until(const struct mem_qp *q)
{
	return mem.traps ? __atomic_load_n(&q->rung, __ATOMIC_ACQUIRE) : posted(q);
}

static uint16_t blocks_of(uint32_t bytes)
{
	return (uint16_t)((bytes + BLOCK - 1) / BLOCK);
}

/* Reads control and address. False: this cannot be a request. */
static bool read_head(const struct mem_qp *q, struct request *r)
{
	struct mlx5_wqe_ctrl_seg c;
	struct mlx5_wqe_av av;

	r->at = q->next;
	read_at(q, r->at, 0, &c, sizeof(c));
	read_at(q, r->at, CONTROL, &av, sizeof(av));
	uint32_t first = be32toh(c.opmod_idx_opcode), second = be32toh(c.qpn_ds);
	r->bytes = (second & SIZE_16) * 16;
	r->opcode = first & 0xff;
	if ((uint16_t)(first >> 8) != r->at || second >> 8 != q->qpn || r->bytes < HEAD) {
		mem_fault("queue pair %#x, block %u: the request says block %u, queue pair %#x, %u bytes", q->qpn,
			  r->at, (uint16_t)(first >> 8), second >> 8, r->bytes);
		return false;
	}
	if (r->opcode != MLX5_OPCODE_SEND && r->opcode != MLX5_OPCODE_SEND_IMM)
		mem_fault("queue pair %#x, block %u: opcode %#x is not a send", q->qpn, r->at, r->opcode);
	if (first >> 24 || c.signature)
		mem_fault("queue pair %#x, block %u: opmod %#x, signature %#x", q->qpn, r->at, first >> 24,
			  c.signature);
	if (!(av.dqp_dct & htobe32(EXTENDED)))
		mem_fault("queue pair %#x, block %u: the address is not marked as 48 bytes", q->qpn, r->at);
	uint32_t word = be32toh(av.grh_gid_fl), qkey = be32toh(av.key.qkey.qkey);
	r->s = (struct mlx5mem_sent){
		.qpn = q->qpn,
		.dest_qpn = be32toh(av.dqp_dct) & 0xffffff,
		.qkey = qkey >> 31 ? q->qkey : qkey,
		.imm = c.imm,
		.flow_label = word & 0xfffff,
		.dlid = be16toh(av.rlid),
		.sl = av.stat_rate_sl & 0xf,
		.static_rate = av.stat_rate_sl >> 4,
		.path_bits = av.fl_mlid & 0x7f,
		.tclass = av.tclass,
		.hop_limit = av.hop_limit,
		.sgid_index = word >> 20 & 0xff,
		.blocks = (uint8_t)blocks_of(r->bytes),
		.has_imm = r->opcode == MLX5_OPCODE_SEND_IMM,
		.grh = word & GRH,
		.solicited = c.fm_ce_se & MLX5_WQE_CTRL_SOLICITED,
		.signaled = c.fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE,
	};
	memcpy(r->s.dgid, av.rgid, sizeof(r->s.dgid));
	return true;
}

/* One piece, or inline data, at off; returns where the next is. */
static uint32_t gather_one(const struct mem_qp *q, struct request *r, uint32_t off, uint8_t *syndrome)
{
	struct mlx5_wqe_data_seg d = {0};

	read_at(q, r->at, off, &d, sizeof(d.byte_count));
	uint32_t n = be32toh(d.byte_count) & ~MLX5_INLINE_SEG;
	bool in = be32toh(d.byte_count) & MLX5_INLINE_SEG;
	if (n == 0 && !in)
		mem_fault("queue pair %#x, block %u: a piece of 0 bytes means 2^31", q->qpn, r->at);
	if (n > MLX5MEM_MTU - r->s.len || (n == 0 && !in)) {
		*syndrome = MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	} else if (in) {
		read_at(q, r->at, off + sizeof(d.byte_count), r->data + r->s.len, n);
	} else {
		read_at(q, r->at, off, &d, sizeof(d));
		uint32_t lkey = be32toh(d.lkey);
		r->s.lkey = r->s.pieces++ ? r->s.lkey : lkey;
		if (mem_may(lkey, q->pd, be64toh(d.addr), n, false, "queue pair", q->qpn))
			memcpy(r->data + r->s.len, (void *)(uintptr_t)be64toh(d.addr), n);
		else
			*syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	}
	r->s.len += n;
	return off + (in ? (uint32_t)(sizeof(d.byte_count) + n + PIECE - 1) & ~(PIECE - 1u) : PIECE);
}

/* Gathers the payload. 0, or the syndrome. */
static uint8_t gather(const struct mem_qp *q, struct request *r)
{
	uint8_t syndrome = 0;

	for (uint32_t off = HEAD; off < r->bytes && !syndrome;)
		off = gather_one(q, r, off, &syndrome);
	memcpy(r->s.data, r->data, r->s.len < MLX5MEM_NOTED ? r->s.len : MLX5MEM_NOTED);
	return syndrome;
}

static void write_grh(const struct mlx5mem_sent *s, uint8_t grh[GRH_BYTES])
{
	enum { BTH = 12, DETH = 8, IMM = 4, ICRC = 4, NEXT_IBA = 0x1b, VERSION = 6 };
	uint32_t first = htobe32((uint32_t)VERSION << 28 | (uint32_t)s->tclass << 20 | s->flow_label);
	uint16_t len = htobe16((uint16_t)(BTH + DETH + (s->has_imm ? IMM : 0) + ((s->len + 3) & ~3u) + ICRC));

	memcpy(grh, &first, sizeof(first));
	memcpy(grh + 4, &len, sizeof(len));
	grh[6] = NEXT_IBA;
	grh[7] = s->hop_limit;
	memcpy(grh + 8, mem.gids[s->sgid_index % MLX5MEM_GIDS], 16);
	memcpy(grh + 24, s->dgid, 16);
}

/* Partitions match when they have the same number and not both are limited members. */
static bool same_partition(const struct mem_qp *a, const struct mem_qp *b)
{
	enum { FULL = 0x8000 };
	uint16_t x = mem.pkeys[a->pkey_index], y = mem.pkeys[b->pkey_index];

	return ((x ^ y) & (FULL - 1)) == 0 && ((x | y) & FULL) && x && y;
}

static void to_members(const struct mem_qp *from, struct mlx5mem_arrival *a, const uint8_t *mgid)
{
	for (unsigned i = 0; i < mem.members; i++) {
		const struct mem_member *m = &mem.member[i];
		if (!m->o.used || memcmp(m->gid, mgid, sizeof(m->gid)) != 0 || !same_partition(from, m->qp) ||
		    (m->qp == from && from->blocks_own_multicast))
			continue;
		a->qpn = m->qp->qpn;
		mlx5mem_deliver(a);
	}
}

/* Gives the message to this port's own queue pairs. */
static void loop_back(const struct mem_qp *q, const struct request *r)
{
	uint8_t grh[GRH_BYTES];
	const struct mem_qp *to = mem_qp_of(r->s.dest_qpn);
	uint16_t own = mlx5mem.lid >> mlx5mem.lmc, bits = r->s.dlid & ((1u << mlx5mem.lmc) - 1);
	struct mlx5mem_arrival a = {
		.qpn = r->s.dest_qpn,
		.src_qpn = q->qpn,
		.qkey = r->s.qkey,
		.imm = r->s.imm,
		.len = r->s.len,
		.data = r->data,
		.slid = mlx5mem.lid | r->s.path_bits,
		.sl = r->s.sl,
		.has_imm = r->s.has_imm,
		.solicited = r->s.solicited,
		.grh = r->s.grh ? grh : NULL,
	};

	if (r->s.grh)
		write_grh(&r->s, grh);
	if (r->s.dest_qpn == MULTICAST_QPN) {
		to_members(q, &a, r->s.dgid);
	} else if (to && r->s.dlid >> mlx5mem.lmc == own && same_partition(q, to)) {
		a.path_bits = (uint8_t)bits;
		mlx5mem_deliver(&a);
	}
}

static void done(const struct mem_qp *q, const struct request *r)
{
	struct mlx5_cqe64 *e = NULL;

	mem.count.sent++;
	if (r->s.signaled || q->all_signaled)
		e = mem_cqe_begin(q->send_cq, q, r->at, r->opcode);
	if (!e)
		return;
	e->byte_cnt = htobe32(r->s.len);
	mem_cqe_end(q->send_cq, e, MLX5_CQE_REQ, false);
}

/* Carries out the next request. False: nothing behind it can be read. */
static bool send_one(struct mem_qp *q)
{
	static struct request r;

	if (!read_head(q, &r))
		return false;
	uint8_t syndrome = mem_take_failure(&mem.send_failure, q->qpn);
	syndrome = syndrome ? syndrome : gather(q, &r);
	q->next += r.s.blocks;
	if (syndrome) {
		mem_cqe_error(q->send_cq, q, r.at, MLX5_CQE_REQ_ERR, r.opcode, syndrome);
		q->state = IBV_QPS_SQE;
		return true;
	}
	if (mem.noted < mem.room)
		mem.notes[mem.noted++] = r.s;
	loop_back(q, &r);
	done(q, &r);
	return true;
}

/* Requests up to a block complete as flushed, whether a completion was wanted or not. */
static void flush(struct mem_qp *q, uint16_t end)
{
	struct mlx5_wqe_ctrl_seg c;

	while (q->next != end) {
		read_at(q, q->next, 0, &c, sizeof(c));
		uint16_t n = blocks_of((be32toh(c.qpn_ds) & SIZE_16) * 16);
		mem_cqe_error(q->send_cq, q, q->next, MLX5_CQE_REQ_ERR, be32toh(c.opmod_idx_opcode) & 0xff,
			      MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		n = n ? n : 1;
		q->next = n < (uint16_t)(end - q->next) ? (uint16_t)(q->next + n) : end;
	}
}

/* Finds doorbells that were forgotten, and more requests than there is room for. */
static void check(struct mem_qp *q)
{
	uint16_t n = (uint16_t)(posted(q) - q->next);

	if (mem.traps && posted(q) != until(q) && !q->accused) {
		mem_fault("queue pair %#x: requests up to block %u were posted, and rung for up to %u: a doorbell was "
			  "forgotten",
			  q->qpn, posted(q), until(q));
		q->accused = true;
	}
	if (n > q->blocks && q->next != until(q)) {
		mem_fault("queue pair %#x: %u blocks are posted, and it has room for %u", q->qpn, n, q->blocks);
		q->next = until(q);
	}
}

static unsigned run(struct mem_qp *q, unsigned most)
{
	unsigned n = 0;

	check(q);
	for (; n < most && q->state == IBV_QPS_RTS && q->next != until(q); n++)
		if (!send_one(q)) {
			q->next = until(q);
			break;
		}
	if (q->state == IBV_QPS_SQE || q->state == IBV_QPS_ERR)
		flush(q, until(q));
	return n;
}

unsigned mlx5mem_turn(unsigned most)
{
	unsigned n = 0;

	mem_lock();
	for (unsigned i = 0; i < mem.qps; i++)
		if (mem.qp[i].o.used && mem.qp[i].state != IBV_QPS_RESET)
			n += run(&mem.qp[i], most - n);
	for (unsigned i = 0; mem.channels && i < mem.cqs; i++)
		if (mem.cq[i].o.used)
			mem_wake(&mem.cq[i]);
	mem_unlock();
	return n;
}

unsigned mlx5mem_waiting(void)
{
	struct mlx5_wqe_ctrl_seg c;
	unsigned n = 0;

	mem_lock();
	for (unsigned i = 0; i < mem.qps; i++) {
		const struct mem_qp *q = &mem.qp[i];
		for (uint16_t at = q->next; q->o.used && at != until(q); n++) {
			read_at(q, at, 0, &c, sizeof(c));
			uint16_t step = blocks_of((be32toh(c.qpn_ds) & SIZE_16) * 16);
			at = step && step < (uint16_t)(until(q) - at) ? (uint16_t)(at + step) : until(q);
		}
	}
	mem_unlock();
	return n;
}

unsigned mlx5mem_note(struct mlx5mem_sent *to, unsigned room)
{
	mem_lock();
	unsigned n = mem.noted;
	mem.notes = to;
	mem.room = to ? room : 0;
	mem.noted = 0;
	mem_unlock();
	return n;
}

void mem_qp_state(struct mem_qp *q, enum ibv_qp_state s)
{
	q->state = s;
	if (s == IBV_QPS_ERR) {
		flush(q, until(q));
		mem_flush_receives(q);
	}
	if (s == IBV_QPS_RESET) {
		q->next = 0;
		__atomic_store_n(&q->rung, 0, __ATOMIC_RELEASE);
		q->accused = false;
		q->own.taken = q->own.at = 0;
	}
}
