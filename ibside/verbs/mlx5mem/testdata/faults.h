/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of selftest.c: requests written by hand (mlx5dv), right and wrong. Each wrong one is found, and said. */

/* What a queue pair gives to those who post by themselves. */
struct hand {
	struct mlx5dv_qp dv;
	uint16_t next; /* block */
	unsigned offset;
	struct mlx5_wqe_ctrl_seg *last;
};

static struct hand take_over(struct ibv_qp *q)
{
	struct hand h = {0};
	struct mlx5dv_obj o = {.qp = {.in = q, .out = &h.dv}};

	WANT(mlx5dv_init_obj(&o, MLX5DV_OBJ_QP) == 0 && h.dv.sq.stride == 64 && h.dv.bf.reg);
	h.next = (uint16_t)be32toh(h.dv.dbrec[MLX5_SND_DBR]);
	return h;
}

static void *block_of(const struct hand *h, unsigned at)
{
	return (uint8_t *)h->dv.sq.buf + (size_t)(at & (h->dv.sq.wqe_cnt - 1)) * 64;
}

/* Writes a request of one piece, in two blocks, for queue pair 0. */
static struct mlx5_wqe_data_seg *write_one(struct hand *h, struct ibv_qp *q, uint32_t len)
{
	struct mlx5dv_ah dah;
	struct mlx5dv_obj o = {.ah = {.in = plain, .out = &dah}};
	uint8_t *at = block_of(h, h->next);
	struct mlx5_wqe_data_seg *d = block_of(h, h->next + 1u);

	WANT(mlx5dv_init_obj(&o, MLX5DV_OBJ_AH) == 0);
	h->last = (void *)at;
	mlx5dv_set_ctrl_seg(h->last, h->next, MLX5_OPCODE_SEND, 0, q->qp_num, MLX5_WQE_CTRL_CQ_UPDATE, 5, 0, 0);
	memcpy(at + 16, dah.av, 48);
	((struct mlx5_wqe_av *)(at + 16))->key.qkey.qkey = htobe32(QKEY);
	((struct mlx5_wqe_av *)(at + 16))->dqp_dct = htobe32(qp[0]->qp_num | MLX5_EXTENDED_UD_AV);
	mlx5dv_set_data_seg(d, len, mr->lkey, (uintptr_t)payload());
	h->next = (uint16_t)(h->next + 2);
	return d;
}

static void write_record(struct hand *h)
{
	__atomic_store_n(&h->dv.dbrec[MLX5_SND_DBR], htobe32(h->next), __ATOMIC_RELEASE);
}

static void ring_with(struct hand *h, const void *words)
{
	*(volatile uint64_t *)((uint8_t *)h->dv.bf.reg + h->offset) = *(const uint64_t *)words;
	h->offset ^= h->dv.bf.size;
}

static void post(struct hand *h)
{
	write_record(h);
	ring_with(h, h->last);
}

static void by_hand(void)
{
	struct mlx5dv_cq cq;
	struct mlx5dv_srq s;
	struct mlx5dv_obj o = {.cq = {.in = scq, .out = &cq}, .srq = {.in = srq, .out = &s}};
	struct hand h = take_over(qp[1]);

	WANT(mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ) == 0 && cq.cqe_size == 64 && cq.cqe_cnt == 64 &&
	     s.stride == 32);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned n = 1 + i % 3;
		for (unsigned k = 0; k < n; k++)
			write_one(&h, qp[1], 100 + i);
		post(&h);
		WANT(mlx5mem_turn(MLX5MEM_ALL) == n && received(NULL) == n);
		for (unsigned k = 0; k < n; k++) {
			struct mlx5_cqe64 *e = (struct mlx5_cqe64 *)cq.buf + (be32toh(cq.dbrec[0]) & (cq.cqe_cnt - 1));
			unsigned lap = be32toh(cq.dbrec[0]) / cq.cqe_cnt & 1;
			WANT(mlx5dv_get_cqe_opcode(e) == MLX5_CQE_REQ && mlx5dv_get_cqe_owner(e) == lap);
			WANT((be32toh(e->sop_drop_qpn) & 0xffffff) == qp[1]->qp_num);
			WANT(be16toh(e->wqe_counter) == (uint16_t)(h.next - 2 * (n - k)));
			cq.dbrec[0] = htobe32((be32toh(cq.dbrec[0]) + 1) & 0xffffff);
		}
	}
}

/* Makes a queue pair good again after a request that the device could not read. */
static struct hand again(struct ibv_qp *q)
{
	WANT(set_state(q, IBV_QPS_RESET) == 0 && to_rts(q) == 0);
	return take_over(q);
}

static void request_faults(void)
{
	struct hand h = take_over(qp[1]);

	write_one(&h, qp[1], 64);
	h.last->opmod_idx_opcode ^= htobe32(1 << 8);
	write_record(&h);
	if (!mlx5mem.traps)
		WANT(mlx5mem_turn(MLX5MEM_ALL) == 0 && faulted(1, "the request says block 1"));
	h = again(qp[1]);
	write_one(&h, qp[2], 64);
	write_record(&h);
	if (!mlx5mem.traps)
		WANT(mlx5mem_turn(MLX5MEM_ALL) == 0 &&
		     faulted(1, "block 0: the request says block 0, queue pair 0x103"));
	h = again(qp[1]);
	write_one(&h, qp[1], 64);
	((struct mlx5_wqe_av *)(h.last + 1))->dqp_dct = htobe32(qp[0]->qp_num);
	post(&h);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && faulted(1, "not marked as 48 bytes"));
	write_one(&h, qp[1], 64);
	h.last->opmod_idx_opcode ^= htobe32(MLX5_OPCODE_SEND ^ MLX5_OPCODE_RDMA_WRITE);
	post(&h);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && faulted(1, "opcode 0x8 is not a send"));
	WANT(received(NULL) == 2);
	for (unsigned i = 0; i < h.dv.sq.wqe_cnt / 2 + 1; i++)
		write_one(&h, qp[1], 64);
	post(&h);
	mlx5mem_turn(MLX5MEM_ALL);
	WANT(faulted(1, "blocks are posted, and it has room for"));
}

static void memory_faults(void)
{
	struct ibv_wc wc[2];
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	struct ibv_mr *foreign = ibv_reg_mr(other, payload(), 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *old = ibv_reg_mr(pd, payload(), 64, 0);
	const struct {
		uint32_t lkey, len;
		const char *text;
		enum ibv_wc_status status;
	} wrong[] = {
		{old->lkey, 64, "no region has the key", IBV_WC_LOC_PROT_ERR},
		{foreign->lkey, 64, "of another protection domain", IBV_WC_LOC_PROT_ERR},
		{mr->lkey, ROOM - 39, "are not in the region", IBV_WC_LOC_LEN_ERR},
		{mr->lkey, 0, "a piece of 0 bytes means 2^31", IBV_WC_LOC_LEN_ERR},
	};
	struct hand h = take_over(qp[1]);

	WANT(ibv_dereg_mr(old) == 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct mlx5_wqe_data_seg *d = write_one(&h, qp[1], wrong[i].len);
		d->lkey = htobe32(wrong[i].lkey);
		post(&h);
		WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 0);
		WANT(take(scq, wc, 2) == 1 && wc[0].status == wrong[i].status);
		WANT(wrong[i].len > 4096 ? mlx5mem_count().faults == 0 : faulted(1, wrong[i].text));
		h = again(qp[1]);
	}
	struct mlx5_wqe_data_seg *d = write_one(&h, qp[1], 200);
	d->addr = htobe64((uintptr_t)mr->addr + mr->length - 199);
	post(&h);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && faulted(1, "200 bytes at") && take(scq, wc, 2) == 1);
	WANT(ibv_dereg_mr(foreign) == 0 && ibv_dealloc_pd(other) == 0);
}

static void queue_faults(void)
{
	struct ibv_mr *fixed = ibv_reg_mr(pd, memory, ROOM, 0);
	struct ibv_sge sge = {(uintptr_t)memory, ROOM, fixed->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp *q = make_qp(pd, NULL, 0);
	struct ibv_wc wc[64];

	WANT(q && to_rts(q) == 0 && ibv_post_recv(q, &wr, &bad) == 0);
	WANT(send_one(0, plain, q->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
	WANT(take(rcq, wc, 64) == 1 && wc[0].status == IBV_WC_LOC_PROT_ERR && faulted(1, "may not be written"));
	WANT(ibv_destroy_qp(q) == 0 && ibv_dereg_mr(fixed) == 0);
	for (int i = 0; i < 64; i++)
		WANT(send_one(i % QPS, plain, 0x999, 64, IBV_SEND_SIGNALED, 0) == 0);
	mlx5mem_turn(MLX5MEM_ALL);
	WANT(mlx5mem_count().faults == 0);
	WANT(send_one(2, plain, 0x999, 64, IBV_SEND_SIGNALED, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
	WANT(faulted(1, "overruns: it has 64 entries"));
}

/* What only the stores themselves show. */
static void doorbells(void)
{
	struct hand h = take_over(qp[1]);
	uint64_t before = mlx5mem_count().bells, words[1];

	for (int i = 0; i < 3; i++)
		write_one(&h, qp[1], 64);
	post(&h);
	WANT(mlx5mem_count().bells == before + 1 && mlx5mem_turn(MLX5MEM_ALL) == 3 && received(NULL) == 3);
	write_one(&h, qp[1], 64);
	write_record(&h);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 0 && faulted(1, "a doorbell was forgotten"));
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 0 && mlx5mem_count().faults == 0); /* said once */
	ring_with(&h, h.last);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 1);
	write_one(&h, qp[1], 64);
	ring_with(&h, h.last);
	WANT(faulted(1, "but the record says"));
	write_record(&h);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 0 && faulted(1, "a doorbell was forgotten"));
	ring_with(&h, h.last);
	write_one(&h, qp[1], 64);
	write_record(&h);
	memcpy(words, h.last, sizeof(words));
	words[0] ^= 2;
	ring_with(&h, words);
	WANT(faulted(1, "the doorbell's words are not those"));
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 2 && received(NULL) == 2);
	memcpy(words, (uint32_t[]){0, htobe32(0x999 << 8)}, sizeof(words));
	ring_with(&h, words);
	WANT(faulted(1, "0x999, which does not send"));
	before = mlx5mem_count().blueflame;
	WANT(send_one(2, plain, qp[0]->qp_num, 64, IBV_SEND_INLINE, 0) == 0 && mlx5mem_count().blueflame > before);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 1);
}
