/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An InfiniBand port (ibside/port.h) made of several: its members.
 *
 *   worker ── post ──▶ destination's ways ▶ choice ──▶ member 0, 1 …   to each that is chosen
 *   worker ◀── poll ── one address for all members ◀── member 0, 1 …   all
 *   worker ◀─▶ arrived: whether a message that would cross may   counts it, looks at choice and number
 *
 * The datapath knows one address of each destination; here every member has its own:
 *
 *   LID or MLID   is a destination's number, which management got in place of a member's
 *   GID or MGID   the destination's, and each member's way has another
 *   QP, QPN       the queue pair's number, and that of the first member's; each member has a queue pair of its own
 *
 * Management writes all tables; workers read them without a lock. A worker is inside while it posts or polls: what it
 * may still read there is used again when all workers have been outside once (multipath_settle).
 */
#ifndef CAUSEWAY_MULTIPATH_H
#define CAUSEWAY_MULTIPATH_H

#include <stdbool.h>
#include <stdint.h>

#include "../port.h"

struct rte_mempool;

enum {
	MULTIPATH_PORTS = 4,
	MULTIPATH_BURST = 64,
	MULTIPATH_LIDS = 1 << 16,

	/* A choice: a bit for each member to send by, for each to take from, and what tells duplicates. */
	CHOICE_TAKE_SHIFT = 8,
	CHOICE_TELL_SHIFT = 16,
	CHOICE_PORTS = 0xff,

	TELL_NOTHING = 0,
	TELL_IMM = 1, /* immediate data numbers a node's messages */
	TELL_PGM = 2, /* sequence numbers of PGM (RFC 3208) */

	WAY_VALID = 1,
	WAY_GRH = 2,

	OWN_PORT = 0xffffffff, /* in place of a destination: a GID of one of the members */
};

/* How one member reaches a destination. */
struct way {
	uint8_t dgid[16];
	uint32_t qkey; /* of a group */
	uint16_t lid;
	uint8_t sl;
	uint8_t rate;
	uint8_t hop_limit;
	uint8_t flags; /* WAY_* */
};

/* A group or a node. Ways are written where no worker reads, which then moves there. */
struct destination {
	uint32_t choice;  /* atomic */
	uint32_t written; /* atomic: which of the two below is read */
	struct view {
		uint8_t gid[16]; /* as the datapath knows it */
		uint8_t sl;      /* likewise; of a node: a message with another one has been given it */
		uint8_t group;
		struct way way[MULTIPATH_PORTS];
	} view[2];
} __attribute__((aligned(64)));

/* A queue pair of each member, which the datapath knows as one. Fields are atomic: a late send may meet another one's.
 */
struct pair {
	uint32_t qp[MULTIPATH_PORTS];
	uint32_t qpn[MULTIPATH_PORTS];
};

/* A key, and what it stands for at a member. */
struct name {
	uint8_t key[16]; /* GID, or zero and the QPN */
	uint32_t tag;    /* the member, with NAME_QPN */
	uint32_t value;  /* atomic */
	uint32_t next;   /* atomic; 0: none */
};

enum { NAME_QPN = 0x100 };

/* What all workers read. */
struct multipath {
	unsigned ports;
	struct destination *destination; /* from 1 */
	uint32_t destinations;
	struct pair *pair; /* from 1 */
	uint32_t pairs;
	struct name *name; /* from 1 */
	uint32_t *bucket;  /* atomic */
	uint32_t bucket_mask;
	uint32_t names, names_used, names_free;         /* the writer's */
	uint16_t slid[MULTIPATH_PORTS][MULTIPATH_LIDS]; /* atomic; a member's LIDs to destinations'; 0: nobody's */
	uint32_t at[MULTIPATH_LIDS];                    /* atomic; LIDs of destinations; 0: none */
	unsigned workers;
	struct end *end[];
};

/* Why a message that the worker counted as sent was not, and what became of those from a member. */
struct member_counters {
	uint64_t posted; /* chosen for the member */
	uint64_t sent;   /* taken by it */
	uint64_t full;
	uint64_t received; /* from it */
	uint64_t standby;
	uint64_t duplicate;
	uint64_t stranger; /* of received: to a QPN that is none of the datapath's */
};

enum { DEDUP_WAYS = 8, DEDUP_SETS = 16, DEDUP_WINDOW = 2048 };

/* How often each of the last messages of a stream came, by member. */
struct seen {
	uint32_t number;
	uint8_t times[MULTIPATH_PORTS];
};

/* Tells streams apart: each has its own numbers. */
struct stream_key {
	uint64_t from[2]; /* the sender's GID, as the datapath knows it: the same by all members */
	uint64_t own[2];  /* what the messages have besides, where a sender numbers several streams */
	uint32_t to;
	uint32_t tell;
};

struct stream {
	struct stream_key key;
	uint64_t used;     /* 0: never */
	struct seen *seen; /* DEDUP_WINDOW */
};

/* One worker's end. */
struct end {
	struct ib_port ib_port;
	struct multipath *shared;
	struct ib_port *member[MULTIPATH_PORTS];
	unsigned turn;  /* the member that is polled first */
	uint32_t calls; /* atomic; odd: the worker is inside */
	struct rte_mempool *pool;
	uint64_t no_way;   /* sends to what no member reaches; 64 bits, one writer */
	uint64_t no_mbuf;  /* copies for a further member that were not made */
	uint64_t clock;    /* of streams */
	uint64_t replaced; /* streams that made room for others while they were in use */
	struct member_counters count[MULTIPATH_PORTS];
	uint64_t *arrived; /* by destination and member: messages to groups that would cross */
	struct stream stream[DEDUP_SETS][DEDUP_WAYS];
	struct seen *seen;
	struct ib_send out[MULTIPATH_PORTS][MULTIPATH_BURST];
	unsigned n_out[MULTIPATH_PORTS];
	int epoll;
};

/* names.c: what a key stands for; 0: nothing. */
uint32_t multipath_name(const struct multipath *p, const uint8_t *key, uint32_t tag);

/* dedup.c: whether another member has brought the message already. */
bool multipath_seen(struct end *e, uint32_t to, unsigned member, uint32_t tell, const struct ib_recv *r);

/* Makes room for all; NULL: no memory. */
struct multipath *multipath_new(unsigned ports, unsigned workers, uint32_t destinations, uint32_t pairs,
				uint32_t names);
/* Makes the end of a worker; member are its ends of the members. */
struct end *multipath_end(struct multipath *p, unsigned worker, struct ib_port **member, struct rte_mempool *pool);
void multipath_free(struct multipath *p);

/* For management, one caller at a time. multipath_settle() returns when no worker reads what was taken away before. */
void multipath_settle(const struct multipath *p);
bool multipath_put_name(struct multipath *p, const uint8_t *key, uint32_t tag, uint32_t value);
void multipath_delete_name(struct multipath *p, const uint8_t *key, uint32_t tag);
void multipath_put(struct multipath *p, uint32_t destination, const struct view *v);
void multipath_choose(struct multipath *p, uint32_t destination, uint32_t choice);
void multipath_put_pair(struct multipath *p, uint32_t pair, const struct pair *q);
void multipath_put_lid(struct multipath *p, uint16_t lid, uint32_t destination);
void multipath_put_slid(struct multipath *p, unsigned member, uint16_t slid, uint16_t lid);
void multipath_forget_slids(struct multipath *p, unsigned member);

static inline uint64_t multipath_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline void multipath_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

#endif
