// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* shca - a software channel adapter with InfiniBand's link layer, for guests: one port, unreliable datagrams, on the
 * kernel's rdmavt. Its packets, LRH to VCRC, leave in Ethernet frames of one network interface, the cable. A machine
 * may have two.
 *
 *   device.c   what rdmavt and the RDMA core ask of a driver; module parameters
 *   port.c     the port as a subnet manager sets it, and its link
 *   send.c     work requests to packets          receive.c  packets to completions
 *   cable.c    packets to Ethernet frames, and back; link training
 *   sma.c      subnet management agent           pma.c      performance management agent
 *   crc.c      ICRC and VCRC                     counters.c what happened to each packet
 *
 * Sections named in comments are of the InfiniBand Architecture Specification, volume 1. */

#ifndef SHCA_H
#define SHCA_H

#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/atomic.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_vt.h>
#include <rdma/rdmavt_qp.h>

enum {
	SHCA_DEVICES = 2,
	SHCA_PKEYS = 16, /* rdmavt's limit */
	SHCA_GUIDS = 8,  /* one block of GUIDInfo */

	LRH_LEN = 8,
	GRH_LEN = 40,
	BTH_LEN = 12,
	DETH_LEN = 8,
	IMM_LEN = 4,
	ICRC_LEN = 4,
	VCRC_LEN = 2,
	SHCA_MAX_PACKET = LRH_LEN + GRH_LEN + BTH_LEN + DETH_LEN + IMM_LEN + 4096 + ICRC_LEN + VCRC_LEN,

	LNH_LOCAL = 2,
	LNH_GLOBAL = 3,
	OP_UD_SEND = 0x64,
	OP_UD_SEND_IMM = 0x65,
	QPN_MULTICAST = 0xffffff,
	LID_PERMISSIVE = 0xffff,
	LID_MULTICAST = 0xc000,
	PKEY_DEFAULT = 0xffff,
	VL_MANAGEMENT = 15,
};

/* What happens to packets. Names: counters.c. */
enum shca_counter {
	SENT,      /* to the cable */
	LOOPED,    /* to this port's own LID */
	RECEIVED,  /* from the cable */
	DELIVERED, /* to a queue pair: a multicast to each */
	OUT_NO_LINK,
	OUT_NOT_ACTIVE,
	OUT_DISCARDED, /* the cable did not take it in time */
	OUT_NO_MEMORY,
	IN_LENGTH,
	IN_VCRC,
	IN_ICRC,
	IN_HEADERS,
	IN_OPCODE,
	IN_NOT_ACTIVE,
	IN_DLID,
	IN_NO_QP,
	IN_NO_GROUP,
	IN_QP_STATE,
	IN_QP_TYPE,
	IN_MAD,
	IN_PKEY,
	IN_QKEY,
	IN_NO_BUFFER,
	IN_TOO_LONG,
	SHCA_COUNTERS
};

/* What the subnet manager sets, host order but for GUIDs. rdmavt's struct rvt_ibport has the rest. */
struct shca_port {
	u16 pkeys[SHCA_PKEYS];
	__be64 guids[SHCA_GUIDS]; /* the first is the port's own */
	u16 lid;                  /* the base LID; 0: none yet */
	u8 lmc, state, mtu;
	u8 width_enabled, speed_enabled, vls, error_limits, down_default;
};

/* The network interface, and the other end as it was last heard of. */
struct shca_cable {
	struct net_device *netdev;
	struct packet_type frames;
	struct notifier_block interface;
	struct delayed_work training;
	wait_queue_head_t room;
	atomic_t waiting;   /* frames that the interface has not sent yet */
	bool up;            /* both ends are there */
	bool peer_present;  /* the other end said that it is up */
	unsigned long seen; /* jiffies of the other end's last frame */
	u8 epoch, peer_epoch;
};

/* The counters of PortCounters since they were reset. */
struct shca_pma {
	u64 words_out, words_in, packets_out, packets_in, errors_in, discards_out;
};

struct shca {
	struct rvt_dev_info rdi; /* must be first: rvt_alloc_device */
	struct rvt_ibport rvp;
	struct platform_device *platform; /* what sysfs shows it on */
	struct pci_dev pci;               /* of which rdmavt prints the name; there is none */
	struct workqueue_struct *sends;
	struct shca_port port;
	struct shca_cable cable;
	struct shca_pma zero; /* what the counters were when they were reset */
	atomic64_t count[SHCA_COUNTERS];
	atomic64_t words_out, words_in;
};

/* A queue pair's part of ours. */
struct shca_qp {
	struct rvt_qp *qp;
	struct work_struct send;
};

static inline struct shca *to_shca(struct ib_device *d)
{
	return container_of(ib_to_rvt(d), struct shca, rdi);
}

static inline void shca_count(struct shca *s, enum shca_counter c)
{
	atomic64_inc(&s->count[c]);
}

static inline bool is_multicast(u16 lid)
{
	return lid >= LID_MULTICAST && lid != LID_PERMISSIVE;
}

/* port.c */
extern unsigned int shca_gids;
void port_init(struct shca *s, u64 guid);
bool port_has_lid(const struct shca *s, u16 lid);
int port_pkey_index(const struct shca *s, u16 pkey);
bool pkeys_match(u16 a, u16 b);
void port_link(struct shca *s, bool up);
void port_event(struct shca *s, enum ib_event_type type);
int port_query(struct rvt_dev_info *rdi, u32 port, struct ib_port_attr *attr);
int port_guid(struct rvt_dev_info *rdi, struct rvt_ibport *rvp, int index, __be64 *guid);

/* cable.c: cable_end undoes cable_init. cable_send consumes the packet, and may sleep. */
int cable_init(struct shca *s, const char *netdev);
void cable_start(struct shca *s);
void cable_stop(struct shca *s);
void cable_end(struct shca *s);
struct sk_buff *cable_packet(struct shca *s, u32 length);
void cable_send(struct shca *s, struct sk_buff *packet);
void cable_retrain(struct shca *s);

/* crc.c: of length bytes from the LRH on. */
void crc_init(void);
u32 crc_invariant(const u8 *packet, u32 length);
u16 crc_variant(const u8 *packet, u32 length);

/* send.c, receive.c */
extern bool shca_loopback;
void send_work(struct work_struct *work);
void receive(struct shca *s, u8 *packet, u32 length);

/* sma.c, pma.c: they turn a request into its response; an IB_MAD_RESULT. */
int sma_process(struct shca *s, struct ib_smp *smp);
int pma_process(struct shca *s, struct ib_mad *mad);

/* counters.c */
struct rdma_hw_stats *counters_alloc(struct ib_device *dev, u32 port);
int counters_get(struct ib_device *dev, struct rdma_hw_stats *stats, u32 port, int index);

#endif
