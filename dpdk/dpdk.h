/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of Go: one DPDK call, or a few that belong together. They return 0 or a negative errno.
 * rte_errno is thread-local and a goroutine may change threads, so it is always fetched here, in the same call.
 * No DPDK header is included, so that struct rte_mbuf stays incomplete, and cheap to pass, in Go.
 */
#ifndef CAUSEWAY_DPDK_H
#define CAUSEWAY_DPDK_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;
struct rte_flow;

enum { DPDK_MAX_QUEUES = 64 };

/* eal.c */

/* Starts the EAL with the arguments in args, one a line, argv[0] first. */
int dpdk_eal_init(const char *args);
int dpdk_eal_cleanup(void);
/* Copies what DPDK logged since the last dpdk_log_clear() (the last 8 KiB of it) as a C string. */
void dpdk_log_copy(char *out, unsigned size);
void dpdk_log_clear(void);
const char *dpdk_version(void);
unsigned dpdk_abi(void);
/* The CPUs this process may use: up to n ids into cpus; returns how many. */
int dpdk_usable_cpus(int *cpus, int n);
/* Whether this PMD's shared object is loaded. */
bool dpdk_driver_loaded(const char *driver);
/* Bytes in the EAL's heaps: in all, and free. */
void dpdk_heap(uint64_t *total, uint64_t *unused);
int dpdk_netdev_set_mtu(const char *interface, int mtu);

/* near.c */

/* The NUMA node that packets belong on, mbufs and rings made here; -1: any. To be said before they are made. */
void dpdk_set_node(int node);
int dpdk_node(void);
/* Has ordinary memory that is not touched yet come from that node, if it has any left. */
void dpdk_bind_ordinary(void);
/* The node of the page at an address; -1: it is not known. */
int dpdk_node_of(const void *at);
int dpdk_lcore_node(unsigned lcore);
/* The EAL's pages of one size on one node; returns how many of these there are. */
struct dpdk_pages {
	uint64_t size; /* bytes */
	uint64_t n;
	int node;
};
unsigned dpdk_pages(struct dpdk_pages *out, unsigned room);
/* How often a node was short of memory, so that it came from others. */
unsigned dpdk_short(unsigned node);
/* Makes the calling thread an lcore. */
int dpdk_thread_register(unsigned *lcore);
void dpdk_thread_unregister(void);

/* tags.c: has a packet socket cut frames with a tag of another protocol than 802.1Q. With the tag that the PMD puts
 * back they have DPDK_OTHER_TAG_LEN bytes, which no frame of a wire has. */
enum { DPDK_TAG_LEN = 4, DPDK_OTHER_TAG_LEN = 17 };
int dpdk_cut_other_tags(int fd);

/* fanout.c: the packet sockets that net_af_packet has opened since the first call, by queue; fds has DPDK_MAX_QUEUES.
 * One thread at a time plugs in. */
void dpdk_fanout_begin(void);
unsigned dpdk_fanout_sockets(int *fds);

/* stale.c: the rings by which such sockets send. What they could not send in its time is discarded. dpdk_stale_lost()
 * are the frames of those that no interface counts. No worker may send when one ends. */

struct tpacket_req;
void dpdk_stale_begin(int fd, const struct tpacket_req *size);
void dpdk_stale_end(int fd);
uint64_t dpdk_stale_lost(int fd);

/* mbuf.c */

int dpdk_mempool_create(const char *name, unsigned n, uint16_t priv, uint16_t data_room, struct rte_mempool **out);
void dpdk_mempool_free(struct rte_mempool *pool);
unsigned dpdk_mempool_in_use(struct rte_mempool *pool);
uint64_t dpdk_mempool_bytes(const struct rte_mempool *pool);
/* The NUMA node of its first mbufs; -1: it is not known. */
int dpdk_mempool_node(const struct rte_mempool *pool);
unsigned dpdk_mempool_data_room(struct rte_mempool *pool);

/* A new mbuf that holds a copy of len bytes; NULL when the pool is empty or the bytes do not fit. */
struct rte_mbuf *dpdk_mbuf_alloc(struct rte_mempool *pool, const uint8_t *data, unsigned len);
unsigned dpdk_mbuf_len(const struct rte_mbuf *m);
void dpdk_mbuf_copy(const struct rte_mbuf *m, uint8_t *out, unsigned len);
void dpdk_mbuf_free(struct rte_mbuf *m);

int dpdk_ring_create(const char *name, unsigned size, bool multi_producer, struct rte_ring **out);
void dpdk_ring_free(struct rte_ring *ring);
unsigned dpdk_ring_enqueue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned n);
unsigned dpdk_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned n);
unsigned dpdk_ring_count(struct rte_ring *ring);

/* port.c */

struct dpdk_port_info {
	uint8_t mac[6];
	uint16_t max_mtu; /* with the frame length limit taken in */
	uint16_t max_rx_queues, max_tx_queues;
	unsigned netdev; /* the kernel's interface of a device that both use; 0: none */
};

struct dpdk_port_conf {
	struct rte_mempool *pool;
	uint16_t rx_queues, tx_queues, rx_descs, tx_descs;
	uint16_t mtu; /* 0: the PMD is not told */
	bool rss;     /* spread by source IP */
	bool rx_interrupts;
};

struct dpdk_port_stats {
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes, rx_missed, rx_errors, tx_errors, rx_no_mbuf;
};

struct dpdk_mac {
	uint8_t b[6];
};

/* bus is vdev or pci. */
int dpdk_plug(const char *bus, const char *name, const char *args);
int dpdk_unplug(const char *bus, const char *name);
/* A net_ring port whose queue i receives from rx[i] and sends to tx[i]; returns the port id. */
int dpdk_port_from_rings(const char *name, struct rte_ring **rx, unsigned n_rx, struct rte_ring **tx, unsigned n_tx);
int dpdk_port_by_name(const char *name, uint16_t *id);
int dpdk_port_info(uint16_t id, struct dpdk_port_info *out);
int dpdk_port_configure(uint16_t id, const struct dpdk_port_conf *c);
/* The descriptor of a queue's Rx interrupt, and in *armed whether that is to be enabled each time; or a negative errno.
 */
int dpdk_port_rx_fd(uint16_t id, uint16_t queue, bool *armed);
int dpdk_port_start(uint16_t id);
/* Drops what packet sockets received before they were bound, after the start. */
int dpdk_port_forget(uint16_t id);
int dpdk_port_stop(uint16_t id);
int dpdk_port_close(uint16_t id);
int dpdk_port_link(uint16_t id, bool *up);
int dpdk_port_stats(uint16_t id, struct dpdk_port_stats *out);
int dpdk_port_promiscuous(uint16_t id, bool on);
int dpdk_port_allmulticast(uint16_t id, bool on);
int dpdk_port_multicast_list(uint16_t id, struct dpdk_mac *macs, unsigned n);

/* Bursts for tests and tools; the packet path calls rte_eth_rx_burst and rte_eth_tx_burst itself. */
unsigned dpdk_port_rx(uint16_t id, uint16_t queue, struct rte_mbuf **mbufs, unsigned n);
unsigned dpdk_port_tx(uint16_t id, uint16_t queue, struct rte_mbuf **mbufs, unsigned n);

/* flow.c */

enum dpdk_flow_match {
	DPDK_MATCH_ROCE_V2_IPV4, /* UDP destination port 4791 */
	DPDK_MATCH_ROCE_V2_IPV6,
	DPDK_MATCH_ROCE_V1, /* ethertype 0x8915 */
	DPDK_MATCH_ARP,
	DPDK_MATCH_IGMP,
	DPDK_MATCH_MAC,      /* destination */
	DPDK_MATCH_IPV4,     /* destination */
	DPDK_MATCH_IPV6,     /* destination */
	DPDK_MATCH_UDP_IPV4, /* destination address and port */
	DPDK_MATCH_UDP_IPV6,
};

struct dpdk_flow_rule {
	enum dpdk_flow_match match;
	uint8_t mac[6];
	uint8_t ip[16]; /* wire order; IPv4 in the first 4 bytes */
	uint16_t port;  /* UDP destination */
	uint16_t vlan;  /* 0: any */
	uint32_t priority;
	bool rss; /* over queues, by source IP; else all to queues[0] */
	uint16_t n_queues;
	uint16_t queues[DPDK_MAX_QUEUES];
};

struct dpdk_flow_fault {
	int type; /* enum rte_flow_error_type */
	char message[160];
};

int dpdk_flow_create(uint16_t id, const struct dpdk_flow_rule *r, struct rte_flow **out, struct dpdk_flow_fault *f);
int dpdk_flow_destroy(uint16_t id, struct rte_flow *flow, struct dpdk_flow_fault *f);
int dpdk_flow_isolate(uint16_t id, bool on, struct dpdk_flow_fault *f);

#endif
