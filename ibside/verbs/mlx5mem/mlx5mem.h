/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ConnectX made of memory, for tests and benchmarks: the kernel's side and the device's side under the installed,
 * unmodified libibverbs and libmlx5.
 *
 *   test ─▶ libibverbs ─▶ libmlx5 ── open, write, ioctl, mmap ──▶ calls.c ▸ uverbs.c ▸ queues.c   the kernel
 *                            │
 *                            └── queues, doorbell records, UARs ─▶ bells.c ▸ send.c, receive.c    the device
 *
 * After mlx5mem_begin() it answers these calls for /dev/infiniband/uverbs0 (mlx5_0, one port) and lets all others
 * through; before, it lets all through. Nothing moves by itself: the device works in mlx5mem_turn() and
 * mlx5mem_deliver(). A message that is sent to the port's own LID or to a group arrives in the same turn; others leave.
 *
 * Numbers are in host order, but for immediates and GIDs, which are as the program gave them.
 */
#ifndef CAUSEWAY_MLX5MEM_H
#define CAUSEWAY_MLX5MEM_H

#include <stdbool.h>
#include <stdint.h>

enum {
	MLX5MEM_NOTED = 256, /* bytes of payload that a note keeps */
	MLX5MEM_GIDS = 8,
	MLX5MEM_PKEYS = 8,
	MLX5MEM_MTU = 4096,
	MLX5MEM_FIRST_QPN = 0x101,
	MLX5MEM_ALL = 1 << 30,
};

/* There is the device from now on, and no real one. To be called before libibverbs or the EAL looks for devices; a
 * second call does nothing. False: its tree cannot be made. */
bool mlx5mem_begin(void);

/* What the device is like. Changed at any time, it counts for what is asked of the device afterwards. */
struct mlx5mem_settings {
	/* Whether stores to UARs are caught and checked: then the device acts on doorbells, and what was posted without
	 * one is a fault. Otherwise it acts on doorbell records. Read when a device is opened; true by default on x86,
	 * elsewhere it has no effect. While traps are on, only one thread at a time may ring doorbells. */
	bool traps;
	uint32_t max_qp, max_srq_wr, max_cqe;
	uint32_t max_send_bytes; /* of a work request: what has more is refused by libmlx5 with EINVAL */
	int block_refusal;       /* errno for a queue pair that wants none of its own multicast; 0: it is made */
	/* The port. */
	uint8_t state, mtu; /* enum ibv_port_state, enum ibv_mtu */
	uint8_t lmc, flags; /* flags: IBV_QPF_GRH_REQUIRED */
	uint16_t lid, sm_lid;
	/* Called before a queue pair's state changes (enum ibv_qp_state), and before it is destroyed, with RESET. May
	 * deliver messages. NULL: nobody. */
	void (*before_state)(uint32_t qpn, int state);
	void (*after_destroy)(uint32_t qpn);
};

extern struct mlx5mem_settings mlx5mem;

/* The settings as they are at the start of a program. Objects are not affected. */
void mlx5mem_default(void);

/* A send as the device read it. */
struct mlx5mem_sent {
	uint32_t qpn, dest_qpn, qkey, imm;
	uint32_t len;
	uint32_t lkey; /* of the first piece; 0: inline, or nothing */
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t sl, path_bits, static_rate, tclass, hop_limit, sgid_index;
	uint8_t dgid[16];
	uint8_t blocks; /* of 64 bytes, in the queue */
	uint8_t pieces;
	bool has_imm, grh, solicited, signaled;
	uint8_t data[MLX5MEM_NOTED];
};

/* Carries out sends, at most so many, lowest queue pairs first, each queue pair's in order. Returns how many. */
unsigned mlx5mem_turn(unsigned most);

/* How many sends have been rung for and not carried out. */
unsigned mlx5mem_waiting(void);

/* Notes the next sends that are carried out, at most room; NULL: not any more. Returns how many were noted before. */
unsigned mlx5mem_note(struct mlx5mem_sent *to, unsigned room);

/* A message that comes to the port. */
struct mlx5mem_arrival {
	uint32_t qpn; /* that it is for */
	uint32_t src_qpn, qkey, imm;
	uint32_t len;     /* without the 40 bytes */
	const void *data; /* NULL: the buffer keeps its bytes */
	uint16_t slid;
	uint8_t sl, path_bits;
	bool has_imm, solicited;
	const uint8_t *grh; /* 40 bytes; NULL: there is none */
};

/* Receives a message. 1; or 0: dropped, for want of such a queue pair or a buffer, or because of its Q_Key. */
unsigned mlx5mem_deliver(const struct mlx5mem_arrival *a);

/* Receive buffers posted to a queue pair's receive queue, and not used; and the bytes of the one that is next. */
unsigned mlx5mem_buffers(uint32_t qpn);
uint8_t *mlx5mem_next_buffer(uint32_t qpn, uint32_t *len);

/* The next send that is carried out after skip others, of a queue pair (0: of any), fails with a syndrome (enum
 * MLX5_CQE_SYNDROME_*), and those after it in its queue are flushed. The same for the next message received. */
void mlx5mem_fail_send(uint32_t qpn, unsigned skip, uint8_t syndrome);
void mlx5mem_fail_receive(uint32_t qpn, unsigned skip, uint8_t syndrome);

/* Raises an asynchronous event (enum ibv_event_type) of a queue pair, by its number; of the shared receive queue or
 * receive completion queue of that queue pair; or, with number 0, of the port or device. */
void mlx5mem_event(uint32_t type, uint32_t qpn);

/* Writes a place of the port's tables; zero: empty. The program is not told: see mlx5mem_event. */
void mlx5mem_set_gid(unsigned place, const uint8_t gid[16]);
void mlx5mem_set_pkey(unsigned place, uint16_t pkey);
uint16_t mlx5mem_pkey(unsigned place);

struct mlx5mem_counters {
	uint64_t faults; /* breaches of the device's rules: a real one would do anything */
	uint64_t bells;  /* for sends, with traps; and of them those that copied the request (BlueFlame) */
	uint64_t blueflame;
	uint64_t sent;      /* carried out without an error */
	uint64_t completed; /* completions written, all */
	uint64_t received;
	uint64_t dropped;  /* on arrival */
	uint64_t commands; /* to the kernel */
	uint64_t blocking; /* queue pairs asked for that get none of their own multicast back */
	uint64_t plain;    /* other queue pairs that were made */
	uint64_t live;     /* queue pairs, queues, regions, domains that there are */
};

struct mlx5mem_counters mlx5mem_count(void);

/* The texts of the first faults since the last call of forget, one a line; "" when there are none. */
const char *mlx5mem_faults(void);
void mlx5mem_forget_faults(void);

#endif
