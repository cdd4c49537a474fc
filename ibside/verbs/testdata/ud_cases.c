/* SPDX-License-Identifier: Apache-2.0 */
/* ud.c on the installed libmlx5 and the device made of memory. A queue pair sends to itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "../manage.h"
#include "../mlx5mem/mlx5mem.h"
#include "../ud.h"

#define WANT(what)                                                                                                     \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			printf("line %d: not %s\n%s", __LINE__, #what, mlx5mem_faults());                              \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { QKEY = 0x1234 };

/* Takes all messages that have come and returns how many; each must carry the next number. */
static unsigned take(struct verbs_ud *u, uint32_t *next, uint32_t len)
{
	struct verbs_ud_message m[64];
	unsigned all = 0;

	for (int n = 64; n > 0;) {
		n = verbs_ud_poll(u, m, 64);
		WANT(n >= 0);
		for (int i = 0; i < n; i++, all++, (*next)++) {
			uint32_t number;
			memcpy(&number, m[i].area + IB_GRH_LEN, sizeof(number));
			WANT(number == *next && m[i].len == len && m[i].grh && m[i].src_qpn == verbs_ud_qpn(u));
			WANT(m[i].area[0] >> 4 == 6 && m[i].slid == mlx5mem.lid && m[i].sl == 5);
			WANT(verbs_ud_repost(u, m[i].slot) == 0);
		}
	}
	return all;
}

static void exchange(struct verbs_ud *u, struct ibv_ah *to)
{
	static uint8_t data[4096];
	uint32_t next = 0;

	for (uint32_t i = 0; i < 3 * VERBS_UD_RECEIVES; i++) {
		memcpy(data, &i, sizeof(i));
		WANT(verbs_ud_send(u, to, verbs_ud_qpn(u), QKEY, data, sizeof(data)) == 0);
		WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && verbs_ud_wait(u, 1000) == 0);
		if (i % 100 == 99)
			WANT(take(u, &next, sizeof(data)) == 100);
	}
	take(u, &next, sizeof(data));
	WANT(next == 3 * VERBS_UD_RECEIVES && mlx5mem_buffers(verbs_ud_qpn(u)) == VERBS_UD_RECEIVES);
	while (verbs_ud_wait(u, 1) == 0) /* of messages that had come when it began to wait */
		mlx5mem_turn(0);
	WANT(verbs_ud_wait(u, 1) == ETIMEDOUT);
}

/* A slow device takes as many as there is room for, and then none until it has completed some. */
static void full(struct verbs_ud *u, struct ibv_ah *to)
{
	struct mlx5mem_sent sent;

	for (unsigned i = 0; i < VERBS_UD_SENDS; i++)
		WANT(verbs_ud_send(u, to, 0x77, QKEY, "full", 4) == 0);
	WANT(verbs_ud_send(u, to, 0x77, QKEY, "late", 4) == EAGAIN);
	mlx5mem_note(&sent, 1);
	WANT(mlx5mem_turn(1) == 1 && mlx5mem_note(NULL, 0) == 1);
	WANT(memcmp(sent.data, "full", 4) == 0); /* what is under way stays as it was */
	WANT(verbs_ud_send(u, to, 0x77, QKEY, "full", 4) == 0);
	WANT(verbs_ud_send(u, to, 0x77, QKEY, "full", 4) == EAGAIN);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == VERBS_UD_SENDS);
	verbs_ud_flush(u);
	mlx5mem_fail_send(verbs_ud_qpn(u), 0, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	WANT(verbs_ud_send(u, to, 0x77, QKEY, "fail", 4) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
	WANT(verbs_ud_send(u, to, 0x77, QKEY, "gone", 4) == EIO);
	WANT(verbs_ud_send(u, to, 0x77, QKEY, "long", VERBS_UD_SLOT + 1) == EMSGSIZE);
}

int main(void)
{
	struct verbs_ud_to to = {.dgid = {[0] = 0xfe, [15] = 9},
				 .dlid = mlx5mem.lid,
				 .sl = 5,
				 .sgid_index = 3,
				 .grh = true,
				 .hop_limit = 6};
	uint8_t group[16] = {0xff}, none[16] = {0xfe};
	struct verbs_device *d = NULL;
	struct mlx5mem_sent sent;
	struct verbs_ud *u;
	struct ibv_ah *handle;
	char names[64];

	WANT(mlx5mem_begin());
	mlx5mem.traps = false; /* doorbells are libmlx5's own, and too many to catch them one by one */
	WANT(verbs_device_open("mlx5_0", 1, &d, names, sizeof(names)) == 0);
	WANT(verbs_ud_new(d, QKEY, 0, &u) == 0);
	WANT(verbs_ud_qpn(u) == MLX5MEM_FIRST_QPN && mlx5mem_buffers(verbs_ud_qpn(u)) == VERBS_UD_RECEIVES);
	WANT(verbs_ud_attach(u, group, 0xc000) == 0 && verbs_ud_attach(u, none, 0xc000) == EINVAL);
	WANT(verbs_ud_address(u, &to, &handle) == 0);
	mlx5mem_note(&sent, 1);
	exchange(u, handle);
	WANT(mlx5mem_note(NULL, 0) == 1 && sent.grh && sent.sgid_index == 3 && sent.hop_limit == 6 && sent.sl == 5);
	WANT(memcmp(sent.dgid, to.dgid, 16) == 0 && sent.qkey == QKEY && sent.signaled && !sent.has_imm);
	full(u, handle);
	ibv_destroy_ah(handle);
	verbs_ud_free(u);
	WANT(verbs_device_close(d) == 0 && mlx5mem_count().live == 0 && mlx5mem_count().faults == 0);
	printf("ud: ok\n");
	return 0;
}
