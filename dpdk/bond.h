/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bond of ports: net_bonding in its mode 4 with an external state machine (rte_eth_bond_8023ad.h), which leaves to
 * the caller which members carry frames. So both modes of a bond are one here: active-backup is a bond of which one
 * member does.
 *
 *   worker: rte_eth_rx_burst(bond) ▶ each member ▶ callback ─┬▶ slow protocols: ring ▶ dpdk_bond_take_slow
 *                                                            ├▶ the member does not collect: dropped and counted
 *                                                            └▶ the worker
 *           rte_eth_tx_burst(bond) ▶ by flow, the members that distribute
 *
 * Frames of dpdk_bond_send_slow leave by the worker that polls next, because queues are workers'.
 */
#ifndef CAUSEWAY_BOND_H
#define CAUSEWAY_BOND_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct dpdk_bond;

enum { DPDK_BOND_MEMBERS = 8 };

/* Makes a bond of ports that are configured and stopped. */
int dpdk_bond_create(const char *name, const uint16_t *members, unsigned n, struct dpdk_bond **out, uint16_t *port);
/* Has the members received from, with that many queues. The bond is started; no worker polls it yet. */
int dpdk_bond_listen(struct dpdk_bond *b, uint16_t queues);
/* Takes a member out, and stops it, so that its port can be closed. No worker may be in a burst call. */
int dpdk_bond_take_out(struct dpdk_bond *b, unsigned member);
/* Takes a port in, configured and stopped, in place of a member that was taken out, and has it received from. No worker
 * may be in a burst call. */
int dpdk_bond_put_in(struct dpdk_bond *b, unsigned member, uint16_t port);
/* Ends it, after the bond was stopped. The members stay. */
int dpdk_bond_free(struct dpdk_bond *b, const char *name);

/* Whether frames are received from a member, and sent by it. -EAGAIN: try again in a millisecond or
 * more; net_bonding does not have its link up yet, or has received by it only since this call. */
int dpdk_bond_set(struct dpdk_bond *b, unsigned member, bool collect, bool distribute);
/* The least number of times that a queue of the member was found empty. */
uint64_t dpdk_bond_drained(const struct dpdk_bond *b, unsigned member);

struct dpdk_bond_counters {
	uint64_t inactive;  /* frames that came to a member that does not collect */
	uint64_t slow_lost; /* slow protocols' frames that nobody took, or that could not be sent */
};
void dpdk_bond_count(const struct dpdk_bond *b, unsigned member, struct dpdk_bond_counters *out);

/* An eventfd, readable after frames of slow protocols have come. */
int dpdk_bond_slow_fd(const struct dpdk_bond *b);
/* The next such frame, and the member it came to; NULL: there is none. It is the caller's. */
struct rte_mbuf *dpdk_bond_take_slow(struct dpdk_bond *b, unsigned *member);
/* Sends a frame by one member. -ENOBUFS: too many wait; the frame stays the caller's. */
int dpdk_bond_send_slow(struct dpdk_bond *b, unsigned member, struct rte_mbuf *m);

int dpdk_port_set_mac(uint16_t id, const uint8_t *mac);

#endif
