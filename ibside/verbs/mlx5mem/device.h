/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's state. Its files are layers, each of which uses those before it:
 *
 *   device.c    state, faults                              complete.c  completions, and who is told of them
 *   receive.c   messages that arrive                       send.c      requests, the turn
 *   bells.c     stores to UARs, caught                     queues.c    commands: queues and queue pairs
 *   uverbs.c    commands: the device, memory; UARs         calls.c     the program's system calls
 *
 * and, beside them, sysfs.c (the tree in which libibverbs finds the device) and netlink.c.
 */
#ifndef CAUSEWAY_MLX5MEM_DEVICE_H
#define CAUSEWAY_MLX5MEM_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "mlx5mem.h"

enum {
	MAX_CONTEXTS = 64,
	MAX_PDS = 256,
	MAX_CQS = 1024,
	MAX_SRQS = 512,
	MAX_QPS = 1 << 14,
	MAX_MRS = 1024,
	MAX_MEMBERS = 1 << 14, /* queue pairs of groups */
	MAX_UARS = 512,
	MAX_FDS = 1 << 16,
};

enum { UAR_BYTES = 4096, BLOCK = 64, GRH_BYTES = 40, NO_HANDLE = -1 };

/* An object begins with this. */
struct mem_object {
	bool used;
	int context;
	uint32_t events; /* told to the program, which acknowledges each before the object can go */
};

struct mem_context {
	struct mem_object o;
	int fd;             /* of its commands */
	int events, reader; /* where asynchronous events are written, and read by the program */
};

struct mem_pd {
	struct mem_object o;
};

struct mem_mr {
	struct mem_object o;
	uint32_t pd;
	uint64_t start, end;
	uint8_t generation; /* the lowest byte of its key */
	bool writable;
};

struct mem_cq {
	struct mem_object o;
	uint8_t *buf;
	uint32_t *record; /* of the program: how many it has taken; its arming */
	uint32_t log, size, next;
	uint32_t armed;      /* the arming that was last acted on */
	bool solicited;      /* something solicited or failed has come since */
	int channel, reader; /* where to write, NO_HANDLE: nowhere; and where the program reads */
	uint32_t told;       /* events of completions */
	uint64_t user;
};

/* A receive queue, shared or a queue pair's own. */
struct mem_rq {
	struct mem_object o;
	bool shared;
	uint32_t pd;
	uint8_t *buf;
	uint32_t *record;
	uint32_t places, stride;
	uint16_t taken; /* buffers */
	uint16_t at;    /* the place of the next */
	uint64_t user;
};

/* What a turn looks at of each is in its first cache line: a benchmark's caches are not to be full of queue pairs that
 * send nothing. */
struct mem_qp {
	struct mem_object o;
	enum ibv_qp_state state;
	uint32_t *record;
	uint16_t next; /* block, of the next request to carry out */
	uint16_t rung; /* block: those before it have been rung for */
	bool accused;  /* of a forgotten doorbell, since the last one */
	bool blocks_own_multicast, all_signaled;
	uint32_t blocks;
	uint8_t *sq;
	uint32_t qpn, uidx, qkey, pd;
	uint16_t pkey_index;
	struct mem_cq *send_cq, *recv_cq;
	struct mem_rq *rq, own;
	uint64_t user;
	struct ib_uverbs_create_qp_resp cap;
} __attribute__((aligned(64)));

struct mem_member {
	struct mem_object o;
	uint8_t gid[16];
	struct mem_qp *qp;
};

/* A failure that is to come. */
struct mem_failure {
	uint8_t syndrome; /* 0: none */
	uint32_t qpn;
	unsigned skip;
};

extern struct mem_device {
	pthread_mutex_t lock; /* recursive: the program may deliver messages in a callback */
	bool traps;
	struct mem_context context[MAX_CONTEXTS];
	struct mem_pd pd[MAX_PDS];
	struct mem_mr mr[MAX_MRS];
	struct mem_cq cq[MAX_CQS];
	unsigned cqs;
	struct mem_rq srq[MAX_SRQS];
	struct mem_qp qp[MAX_QPS];
	unsigned qps; /* that may be used: all behind are not */
	struct mem_member member[MAX_MEMBERS];
	unsigned members;
	uint8_t *uar[MAX_UARS];
	int channel[MAX_FDS]; /* write ends of completion channels, plus 1, by their descriptors */
	unsigned channels;    /* queues that have one */
	struct mem_failure send_failure, receive_failure;
	struct mlx5mem_sent *notes;
	unsigned room, noted;
	uint16_t pkeys[MLX5MEM_PKEYS];
	uint8_t gids[MLX5MEM_GIDS][16];
	struct mlx5mem_counters count;
	bool began; /* atomic; set by sysfs.c, when its tree is made */
} mem;

/* Whether the device is there. */
static inline bool mem_began(void)
{
	return __atomic_load_n(&mem.began, __ATOMIC_ACQUIRE);
}

void mem_lock(void);
void mem_unlock(void);

/* Counts a breach of the device's rules, and keeps its text. */
void mem_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NULL: there is none of this number. */
struct mem_qp *mem_qp_of(uint32_t qpn);
struct mem_pd *mem_pd_of(uint32_t handle);

/* Whether memory of a key may be used by an object of the domain. A fault if not. */
bool mem_may(uint32_t lkey, uint32_t pd, uint64_t addr, uint32_t len, bool writing, const char *who, uint32_t number);

/* Takes the syndrome that is to befall this queue pair's next send or receive; 0: none. */
uint8_t mem_take_failure(struct mem_failure *f, uint32_t qpn);

/* Writes to a pipe to the program. */
void mem_tell(int fd, const void *what, size_t len);

/* Takes what was told of an element (the first word) and not read out of a pipe again; returns how many there were. */
uint32_t mem_untell(int reader, int writer, uint64_t element, size_t len);

/* complete.c: puts a completion into a queue. Of a good one the caller fills in what begin has not. */
struct mlx5_cqe64 *mem_cqe_begin(struct mem_cq *c, const struct mem_qp *q, uint16_t index, uint8_t opcode);
void mem_cqe_end(struct mem_cq *c, struct mlx5_cqe64 *e, uint8_t kind, bool solicited);
void mem_cqe_error(struct mem_cq *c, const struct mem_qp *q, uint16_t index, uint8_t kind, uint8_t opcode,
		   uint8_t syndrome);
/* Tells programs that wait for completions. */
void mem_wake(struct mem_cq *c);

/* receive.c: the own receive queue's buffers complete as flushed. */
void mem_flush_receives(struct mem_qp *q);

/* send.c: a queue pair's new state: what is under way is flushed, or forgotten. */
void mem_qp_state(struct mem_qp *q, enum ibv_qp_state s);

/* bells.c: the page is a UAR from now on. */
void mem_watch(uint8_t *page);

/* A command to the kernel: the core's part, and behind it libmlx5's. The same in the answer. */
struct mem_command {
	uint32_t number;
	int context;
	const uint8_t *in;
	size_t in_len;
	uint8_t *out;
	size_t out_len;
};

/* Copies libmlx5's part, which is behind core bytes. What there is not is zero. */
void mem_request(const struct mem_command *c, size_t core, void *to, size_t len);
void mem_answer(const struct mem_command *c, const void *core, size_t core_len, const void *mlx5, size_t mlx5_len);

/* queues.c: carries out a command. A positive errno; EOPNOTSUPP: it is none of these. */
int mem_queue_command(const struct mem_command *c);

/* Which object of its table a handle means. NULL: none. */
#define MEM_OF(table, handle)                                                                                          \
	((handle) < sizeof(table) / sizeof((table)[0]) && (table)[handle].o.used ? &(table)[handle] : NULL)

/* Makes the first free object of a table. NULL: there is no room. */
#define MEM_MAKE(table, context) mem_make(table, sizeof(table) / sizeof((table)[0]), sizeof((table)[0]), context)
void *mem_make(void *table, size_t n, size_t size, int context);
void mem_end(struct mem_object *o);

/* uverbs.c: what calls.c passes on. The results are errnos. */
int mem_open(int fd);
void mem_close(int fd);
int mem_carry_out(int fd, const void *words, size_t len);
int mem_control(void *header);
void *mem_map(uint64_t offset); /* NULL: there is no such UAR */
bool mem_is_ours(int fd);

/* netlink.c: a request to NETLINK_RDMA, and its answer. */
void mem_netlink_open(int fd);
void mem_netlink_close(int fd);
bool mem_netlink_is_ours(int fd);
ssize_t mem_netlink_send(int fd, const struct msghdr *m);
ssize_t mem_netlink_receive(int fd, struct msghdr *m);

#endif
